// Longer than a source should be: one table, an entry for every driver call.
#include "tests/sim/simulated_gpu.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <numeric>
#include <thread>
#include <utility>

namespace reprise::sim {
namespace {

using Node = SimulatedGpu::Node;
using Graph = SimulatedGpu::Graph;
using Kernel = SimulatedGpu::Kernel;

CUfunction HandleOf(const Kernel& kernel) {
  return reinterpret_cast<CUfunction>(const_cast<Kernel*>(&kernel));
}
const Kernel& KernelOf(CUfunction function) {
  return *reinterpret_cast<const Kernel*>(function);
}

std::vector<std::byte> ImageOf(const Kernel& kernel, void** params) {
  std::vector<std::byte> image;
  for (size_t i = 0; i < kernel.params.size(); ++i) {
    const device::ParamSpan& span = kernel.params[i];
    image.resize(span.offset_bytes + span.size_bytes);
    std::memcpy(image.data() + span.offset_bytes, params[i], span.size_bytes);
  }
  return image;
}

thread_local CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

void DoFill(uint64_t to, uint32_t value, size_t element_bytes, size_t width) {
  std::byte* memory = SimulatedGpu::Access(to, element_bytes * width);
  if (memory == nullptr) return;
  for (size_t i = 0; i < width; ++i) {
    std::memcpy(memory + i * element_bytes, &value, element_bytes);
  }
}

void DoCopy(uint64_t to, uint64_t from, size_t size_bytes) {
  std::byte* target = SimulatedGpu::Access(to, size_bytes);
  const std::byte* source = SimulatedGpu::Access(from, size_bytes);
  if (target != nullptr && source != nullptr) {
    std::memmove(target, source, size_bytes);
  }
}

// A node's handle tells its graph and its place in it.
constexpr int kPlaceBits = 20;

CUgraphNode HandleOf(uint64_t graph_id, size_t place) {
  return reinterpret_cast<CUgraphNode>(graph_id << kPlaceBits | place);
}
uint64_t GraphIdOf(CUgraphNode node) {
  return reinterpret_cast<uint64_t>(node) >> kPlaceBits;
}
size_t PlaceOf(CUgraphNode node) {
  return reinterpret_cast<uint64_t>(node) & ((1 << kPlaceBits) - 1);
}
Node& At(Graph& graph, CUgraphNode node) { return graph.at(PlaceOf(node)); }

bool SameTopology(const Graph& a, const Graph& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Node& x, const Node& y) {
                      return x.kind == y.kind && x.before == y.before;
                    });
}

template <typename Made>
void End(Made& made, const void* handle) {
  std::erase_if(made,
                [handle](const auto& one) { return one.get() == handle; });
}

}  // namespace

SimulatedGpu::SimulatedGpu() {
  EXPECT_EQ(only, nullptr);
  only = this;
  MakeDriver();
  MakeDeviceEntries();
  MakeMemoryEntries();
  MakePoolEntries();
  MakeStreamEntries();
  MakeGraphEntries();
  MakeEventNodeEntries();
  MakeExecEntries();
  MakeCupti();
}

SimulatedGpu::~SimulatedGpu() { only = nullptr; }

std::byte* SimulatedGpu::Access(uint64_t address, size_t size_bytes) {
  if (only->accessible && !only->accessible(address, size_bytes)) {
    char text[64];
    std::snprintf(text, sizeof text, "touched %zu bytes at 0x%llx", size_bytes,
                  static_cast<unsigned long long>(address));
    only->faults.emplace_back(text);
    return nullptr;
  }
  return reinterpret_cast<std::byte*>(address);
}

bool SimulatedGpu::IsOf(CUgraphNode node, CUgraphExec exec) const {
  return reinterpret_cast<const Exec*>(exec)->graph_id == GraphIdOf(node);
}

std::vector<const Graph*> SimulatedGpu::execs() const {
  std::vector<const Graph*> execs;
  for (const auto& exec : execs_) execs.push_back(exec->graph.get());
  return execs;
}

void SimulatedGpu::Do(const Node& node) {
  if (!node.enabled) return;
  switch (node.kind) {
    case Node::Kind::kKernel:
      blocks_ = node.blocks;
      ++time_;
      node.kernel->run(node.image.data());
      break;
    case Node::Kind::kFill:
      ASSERT_EQ(node.fill.height, 1u);
      DoFill(node.fill.dst, node.fill.value, node.fill.elementSize,
             node.fill.width);
      break;
    case Node::Kind::kCopy:
      DoCopy(node.copy.dstDevice, node.copy.srcDevice, node.copy.WidthInBytes);
      break;
    case Node::Kind::kGraph:
      for (const Node& one : node.child) Do(one);
      break;
    case Node::Kind::kWait:
    case Node::Kind::kRecord:
      ADD_FAILURE() << "events are items of streams";
      break;
  }
}

std::vector<size_t> SimulatedGpu::OrderOf(const Graph& graph) {
  std::vector<size_t> places;
  if (!order.has_value()) {
    places.resize(graph.size());
    std::iota(places.begin(), places.end(), size_t{0});
    return places;
  }
  std::vector<bool> done(graph.size(), false);
  while (places.size() < graph.size()) {
    std::vector<size_t> ready;
    for (size_t i = 0; i < graph.size(); ++i) {
      const std::vector<size_t>& before = graph[i].before;
      const auto is_over = [&](size_t place) {
        return done[place] ||
               (forgets_edges != 0 && (*order)() % forgets_edges == 0);
      };
      if (!done[i] && std::all_of(before.begin(), before.end(), is_over)) {
        ready.push_back(i);
      }
    }
    places.push_back(ready[(*order)() % ready.size()]);
    done[places.back()] = true;
  }
  return places;
}

// --- Eager's own calls -----------------------------------------------------

void SimulatedGpu::LaunchEagerly(const Kernel& kernel, void** params) {
  cuLaunchKernel_params call{};
  call.f = HandleOf(kernel);
  call.gridDimX = call.gridDimY = call.gridDimZ = 1;
  call.blockDimX = call.blockDimY = call.blockDimZ = 1;
  call.hStream = eager_stream;
  call.kernelParams = params;
  Ring(CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, "cuLaunchKernel", &call);
  streams.Enqueue(eager_stream, [&kernel, image = ImageOf(kernel, params)] {
    kernel.run(image.data());
  });
}

void SimulatedGpu::Fill(uint64_t to, unsigned char value, size_t size_bytes) {
  cuMemsetD8Async_params call{to, value, size_bytes, eager_stream};
  Ring(CUPTI_DRIVER_TRACE_CBID_cuMemsetD8Async, "cuMemsetD8Async", &call);
  streams.Enqueue(eager_stream, [=] { DoFill(to, value, 1, size_bytes); });
}

void SimulatedGpu::Copy(uint64_t to, uint64_t from, size_t size_bytes) {
  cuMemcpyDtoDAsync_v2_params call{to, from, size_bytes, eager_stream};
  Ring(CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoDAsync_v2, "cuMemcpyDtoDAsync_v2",
       &call);
  streams.Enqueue(eager_stream, [=] { DoCopy(to, from, size_bytes); });
}

void SimulatedGpu::Read(void* to, uint64_t from, size_t size_bytes) {
  cuMemcpyDtoHAsync_v2_params call{to, from, size_bytes, eager_stream};
  Ring(CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoHAsync_v2, "cuMemcpyDtoHAsync_v2",
       &call);
  streams.Synchronize(eager_stream);
  const std::byte* source = Access(from, size_bytes);
  if (source != nullptr) std::memcpy(to, source, size_bytes);
}

void SimulatedGpu::Write(uint64_t to, const void* from, size_t size_bytes) {
  cuMemcpyHtoDAsync_v2_params call{to, from, size_bytes, eager_stream};
  Ring(CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoDAsync_v2, "cuMemcpyHtoDAsync_v2",
       &call);
  const auto* bytes = static_cast<const std::byte*>(from);
  streams.Enqueue(eager_stream, [to, kept = std::vector<std::byte>(
                                         bytes, bytes + size_bytes)] {
    std::byte* target = Access(to, kept.size());
    if (target != nullptr) std::memcpy(target, kept.data(), kept.size());
  });
}

void SimulatedGpu::Ring(CUpti_CallbackId id, const char* name,
                        const void* params) {
  if (callback_ == nullptr || !enabled_ || forgot_) return;
  CUpti_CallbackData data{};
  data.callbackSite = CUPTI_API_ENTER;
  data.functionName = name;
  data.context = current_;
  data.functionParams = params;
  callback_(nullptr, CUPTI_CB_DOMAIN_DRIVER_API, id, &data);
}

// --- The tables ------------------------------------------------------------

std::shared_ptr<SimulatedGpu::Event> SimulatedGpu::EventOf(CUevent event) {
  for (const std::shared_ptr<Event>& one : events_) {
    if (reinterpret_cast<CUevent>(one.get()) == event) return one;
  }
  ADD_FAILURE() << "an event that was destroyed";
  return std::make_shared<Event>();
}

void SimulatedGpu::EnqueueRecord(CUstream stream, CUevent event) {
  const std::shared_ptr<Event> one = EventOf(event);
  streams.Enqueue(
      stream,
      [this, one, time = ++one->recorded] {
        one->reached = time;
        one->time = time_;
      },
      one->chain);
}

void SimulatedGpu::EnqueueWait(CUstream stream, CUevent event) {
  streams.Enqueue(
      stream, [] {}, EventOf(event)->chain);
}

bool SimulatedGpu::Captured(CUstream stream, Node node) {
  if (stream == nullptr || stream != captured_stream_) return false;
  captured_->push_back(std::move(node));
  return true;
}

namespace {

// One more while it lives.
class Counted {
 public:
  explicit Counted(std::atomic<int>& count) : count_(count) { ++count_; }
  ~Counted() { --count_; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 private:
  std::atomic<int>& count_;
};

}  // namespace

// Every entry begins with it.
CUresult SimulatedGpu::Enter(const char* name) {
  const std::lock_guard entered(entries_);
  calls.emplace_back(name);
  Ring(CUPTI_DRIVER_TRACE_CBID_INVALID, name, nullptr);
  streams.Tick();
  if (fail_after_-- != 0) return CUDA_SUCCESS;
  failed = name;
  return failure_;
}

void SimulatedGpu::BreakCapture() {
  if (capturing && capture_mode != CU_STREAM_CAPTURE_MODE_RELAXED) {
    ++broken_captures;
  }
}

#define REPRISE_ENTER(name)                                              \
  const std::lock_guard entered(only->entries_);                         \
  if (const CUresult result = only->Enter(name); result != CUDA_SUCCESS) \
  return result

#define REPRISE_ENTER_CUPTI(name) \
  if (only->cupti_calls.Fails(name)) return CUPTI_ERROR_UNKNOWN

void SimulatedGpu::MakeCupti() {
  cupti.cuptiSubscribe_v2 = [](CUpti_SubscriberHandle* handle,
                               CUpti_CallbackFunc callback, void*,
                               CUpti_SubscriberParams*) {
    REPRISE_ENTER_CUPTI("cuptiSubscribe_v2");
    if (only->callback_ != nullptr) {
      return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
    }
    // The real one crashes (docs/decisions/0022-cupti-beside-other-threads.md).
    EXPECT_TRUE(std::exchange(only->attached_, true) ||
                only->launches_under_way_.load() == 0);
    only->callback_ = callback;
    only->enabled_ = false;
    *handle = reinterpret_cast<CUpti_SubscriberHandle>(only);
    return CUPTI_SUCCESS;
  };
  cupti.cuptiUnsubscribe = [](CUpti_SubscriberHandle) {
    REPRISE_ENTER_CUPTI("cuptiUnsubscribe");
    if (only->callback_ == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
    EXPECT_FALSE(only->enabled_) << "a callback may be on its way";
    only->callback_ = nullptr;
    return CUPTI_SUCCESS;
  };
  cupti.cuptiEnableDomain = [](uint32_t enable, CUpti_SubscriberHandle,
                               CUpti_CallbackDomain) {
    REPRISE_ENTER_CUPTI("cuptiEnableDomain");
    if (only->callback_ == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
    only->enabled_ = enable != 0;
    if (enable == 0 && only->forgets_every > 0 &&
        ++only->switched_off_ % only->forgets_every == 0) {
      only->forgot_ = true;
    }
    return CUPTI_SUCCESS;
  };
  cupti.cuptiFinalize = [] {
    REPRISE_ENTER_CUPTI("cuptiFinalize");
    EXPECT_EQ(only->launches_under_way_.load(), 0);
    only->attached_ = false;
    only->callback_ = nullptr;
    only->forgot_ = false;
    ++only->finalized;
    return CUPTI_SUCCESS;
  };
  cupti.cuptiGetResultString = [](CUptiResult, const char** text) {
    REPRISE_ENTER_CUPTI("cuptiGetResultString");
    *text = "SIMULATED";
    return CUPTI_SUCCESS;
  };
}

#undef REPRISE_ENTER_CUPTI

void SimulatedGpu::MakeDriver() {
  driver.cuGetErrorName = [](CUresult, const char** name) {
    *name = "CUDA_ERROR_SIMULATED";
    return CUDA_SUCCESS;
  };
  driver.cuCtxSynchronize = [] {
    REPRISE_ENTER("cuCtxSynchronize");
    only->BreakCapture();
    only->streams.SynchronizeAll();
    return CUDA_SUCCESS;
  };
  driver.cuCtxGetCurrent = [](CUcontext* current) {
    REPRISE_ENTER("cuCtxGetCurrent");
    *current = only->current_;
    return CUDA_SUCCESS;
  };
  driver.cuCtxSetCurrent = [](CUcontext current) {
    REPRISE_ENTER("cuCtxSetCurrent");
    only->current_ = current;
    return CUDA_SUCCESS;
  };
  driver.cuThreadExchangeStreamCaptureMode = [](CUstreamCaptureMode* mode) {
    const std::lock_guard entered(only->entries_);
    std::swap(*mode, capture_mode);
    return only->Enter("cuThreadExchangeStreamCaptureMode");
  };
  driver.cuFuncGetParamInfo = [](CUfunction function, size_t index,
                                 size_t* offset, size_t* size) {
    REPRISE_ENTER("cuFuncGetParamInfo");
    const auto& params = KernelOf(function).params;
    if (index >= params.size()) return CUDA_ERROR_INVALID_VALUE;
    *offset = params[index].offset_bytes;
    *size = params[index].size_bytes;
    return CUDA_SUCCESS;
  };
  driver.cuKernelGetParamInfo = [](CUkernel, size_t, size_t*, size_t*) {
    REPRISE_ENTER("cuKernelGetParamInfo");
    return CUDA_ERROR_INVALID_HANDLE;
  };
  driver.cuKernelGetFunction = [](CUfunction*, CUkernel) {
    REPRISE_ENTER("cuKernelGetFunction");
    return CUDA_ERROR_INVALID_HANDLE;
  };
  driver.cuFuncGetAttribute = [](int* value, CUfunction_attribute attribute,
                                 CUfunction function) {
    REPRISE_ENTER("cuFuncGetAttribute");
    if (attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK) {
      *value = KernelOf(function).most_threads;
      return CUDA_SUCCESS;
    }
    EXPECT_EQ(attribute, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
    *value = KernelOf(function).own_shared_bytes;
    return CUDA_SUCCESS;
  };
  driver.cuFuncSetAttribute = [](CUfunction function,
                                 CUfunction_attribute attribute, int value) {
    REPRISE_ENTER("cuFuncSetAttribute");
    auto& kernel = const_cast<Kernel&>(KernelOf(function));
    if (attribute == CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED) {
      kernel.large_clusters = value != 0;
      return CUDA_SUCCESS;
    }
    EXPECT_EQ(attribute, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
    kernel.most_shared_bytes = value + kernel.own_shared_bytes;
    return CUDA_SUCCESS;
  };
  driver.cuOccupancyMaxActiveBlocksPerMultiprocessor =
      [](int* blocks, CUfunction, int, size_t) {
        REPRISE_ENTER("cuOccupancyMaxActiveBlocksPerMultiprocessor");
        *blocks = only->blocks_at_a_time;
        return CUDA_SUCCESS;
      };
  driver.cuOccupancyMaxActiveClusters = [](int* clusters, CUfunction,
                                           const CUlaunchConfig* config) {
    REPRISE_ENTER("cuOccupancyMaxActiveClusters");
    EXPECT_EQ(config->numAttrs, 1u);
    *clusters = only->clusters_at_a_time;
    return CUDA_SUCCESS;
  };
  driver.cuFuncGetName = [](const char** name, CUfunction) {
    REPRISE_ENTER("cuFuncGetName");
    *name = "simulated_kernel";
    return CUDA_SUCCESS;
  };
  driver.cuKernelGetName = [](const char**, CUkernel) {
    REPRISE_ENTER("cuKernelGetName");
    return CUDA_ERROR_INVALID_HANDLE;
  };
}

// A device of 8.0; its kernels from libraries are names only.
void SimulatedGpu::MakeDeviceEntries() {
  driver.cuDeviceGetAttribute = [](int* value, CUdevice_attribute attribute,
                                   CUdevice) {
    REPRISE_ENTER("cuDeviceGetAttribute");
    *value = attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR ? 0 : 8;
    return CUDA_SUCCESS;
  };
  driver.cuCtxGetDevice = [](CUdevice* device) {
    REPRISE_ENTER("cuCtxGetDevice");
    if (only->current_ != only->context) return CUDA_ERROR_INVALID_CONTEXT;
    *device = 3;
    return CUDA_SUCCESS;
  };
  driver.cuDeviceGetName = [](char* name, int length, CUdevice device) {
    REPRISE_ENTER("cuDeviceGetName");
    std::snprintf(name, static_cast<size_t>(length), "simulated %d", device);
    return CUDA_SUCCESS;
  };
  driver.cuDeviceTotalMem = [](size_t* size_bytes, CUdevice) {
    REPRISE_ENTER("cuDeviceTotalMem");
    *size_bytes = size_t{80} << 30;
    return CUDA_SUCCESS;
  };
  driver.cuLibraryLoadData = [](CUlibrary* library, const void*, CUjit_option*,
                                void**, unsigned, CUlibraryOption*, void**,
                                unsigned) {
    REPRISE_ENTER("cuLibraryLoadData");
    only->BreakCapture();
    only->libraries_.push_back(std::make_unique<uint64_t>());
    *library = reinterpret_cast<CUlibrary>(only->libraries_.back().get());
    return CUDA_SUCCESS;
  };
  driver.cuLibraryGetKernel = [](CUkernel* kernel, CUlibrary library,
                                 const char*) {
    REPRISE_ENTER("cuLibraryGetKernel");
    *kernel = reinterpret_cast<CUkernel>(library);
    return CUDA_SUCCESS;
  };
  driver.cuLibraryUnload = [](CUlibrary library) {
    const std::lock_guard entered(only->entries_);
    only->BreakCapture();
    End(only->libraries_, library);
    return only->Enter("cuLibraryUnload");
  };
}

void SimulatedGpu::MakeMemoryEntries() {
  driver.cuPointerGetAttribute = [](void* data, CUpointer_attribute attribute,
                                    CUdeviceptr address) {
    REPRISE_ENTER("cuPointerGetAttribute");
    if (only->is_memory && !only->is_memory(address)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    const int value = attribute == CU_POINTER_ATTRIBUTE_MEMORY_TYPE
                          ? CU_MEMORYTYPE_DEVICE
                          : 0;
    std::memcpy(data, &value, sizeof value);
    return CUDA_SUCCESS;
  };
  driver.cuMemAlloc = [](CUdeviceptr* address, size_t size_bytes) {
    REPRISE_ENTER("cuMemAlloc");
    only->BreakCapture();
    only->memory_.push_back(std::make_unique<uint64_t[]>((size_bytes + 7) / 8));
    *address = reinterpret_cast<CUdeviceptr>(only->memory_.back().get());
    return CUDA_SUCCESS;
  };
  // Freeing waits for the device.
  driver.cuMemFree = [](CUdeviceptr address) {
    const std::lock_guard entered(only->entries_);
    only->BreakCapture();
    only->streams.SynchronizeAll();
    End(only->memory_, reinterpret_cast<void*>(address));
    return only->Enter("cuMemFree");
  };
  driver.cuMemHostAlloc = [](void** memory, size_t size_bytes, unsigned) {
    REPRISE_ENTER("cuMemHostAlloc");
    only->BreakCapture();
    if (size_bytes > only->pinned_bytes) return CUDA_ERROR_OUT_OF_MEMORY;
    std::vector<std::byte> pinned(size_bytes);
    *memory = pinned.data();
    only->pinned_.emplace(pinned.data(), std::move(pinned));
    return CUDA_SUCCESS;
  };
  driver.cuMemFreeHost = [](void* memory) {
    const std::lock_guard entered(only->entries_);
    only->BreakCapture();
    only->streams.SynchronizeAll();
    EXPECT_EQ(only->pinned_.erase(static_cast<std::byte*>(memory)), 1u);
    return only->Enter("cuMemFreeHost");
  };
}

bool SimulatedGpu::IsPinned(const std::byte* memory) const {
  const auto behind = pinned_.upper_bound(memory);
  if (behind == pinned_.begin()) return false;
  const auto& [begin, bytes] = *std::prev(behind);
  return memory < begin + bytes.size();
}

void SimulatedGpu::MakePoolEntries() {
  driver.cuMemPoolCreate = [](CUmemoryPool* pool, const CUmemPoolProps*) {
    REPRISE_ENTER("cuMemPoolCreate");
    *pool = reinterpret_cast<CUmemoryPool>(++only->pools_);
    return CUDA_SUCCESS;
  };
  driver.cuMemPoolDestroy = [](CUmemoryPool) {
    const std::lock_guard entered(only->entries_);
    EXPECT_TRUE(only->pool_memory_.empty());
    --only->pools_;
    return only->Enter("cuMemPoolDestroy");
  };
  driver.cuMemPoolSetAttribute = [](CUmemoryPool, CUmemPool_attribute, void*) {
    const std::lock_guard entered(only->entries_);
    return only->Enter("cuMemPoolSetAttribute");
  };
  driver.cuMemPoolTrimTo = [](CUmemoryPool, size_t) {
    const std::lock_guard entered(only->entries_);
    return only->Enter("cuMemPoolTrimTo");
  };
  driver.cuMemAllocFromPoolAsync = [](CUdeviceptr* address, size_t size_bytes,
                                      CUmemoryPool, CUstream) {
    REPRISE_ENTER("cuMemAllocFromPoolAsync");
    size_t used = 0;
    for (const auto& [begin, bytes] : only->pool_memory_) used += bytes.size();
    if (used + size_bytes > only->pool_bytes) return CUDA_ERROR_OUT_OF_MEMORY;
    std::vector<std::byte> memory;
    for (auto& freed : only->freed_) {
      if (!only->reuses_pool_memory || freed.size() != size_bytes) continue;
      memory = std::move(freed);
      std::swap(freed, only->freed_.back());
      only->freed_.pop_back();
      break;
    }
    if (memory.empty()) memory.resize(size_bytes);
    *address = reinterpret_cast<CUdeviceptr>(memory.data());
    only->no_memory_.erase(*address);
    only->pool_memory_.emplace(*address, std::move(memory));
    return CUDA_SUCCESS;
  };
  driver.cuMemFreeAsync = [](CUdeviceptr address, CUstream stream) {
    const std::lock_guard entered(only->entries_);
    const auto freed = only->pool_memory_.find(address);
    if (freed != only->pool_memory_.end()) {
      only->no_memory_[address] = address + freed->second.size();
    }
    only->streams.Enqueue(stream, [address] {
      auto memory = only->pool_memory_.extract(address);
      ASSERT_FALSE(memory.empty()) << "freed twice";
      std::fill(memory.mapped().begin(), memory.mapped().end(),
                std::byte{0xee});
      only->freed_.push_back(std::move(memory.mapped()));
    });
    return only->Enter("cuMemFreeAsync");
  };
}

void SimulatedGpu::MakeStreamEntries() {
  driver.cuLaunchKernelEx = [](const CUlaunchConfig* config,
                               CUfunction function, void** params,
                               void** extra) {
    REPRISE_ENTER("cuLaunchKernelEx");
    only->Use(config->hStream);
    EXPECT_EQ(extra, nullptr);
    const Kernel& kernel = KernelOf(function);
    if (static_cast<int>(config->sharedMemBytes) + kernel.own_shared_bytes >
        kernel.most_shared_bytes) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    Node node;
    node.kernel = &kernel;
    node.image = ImageOf(kernel, params);
    node.blocks = config->gridDimX;
    if (only->Captured(config->hStream, node)) return CUDA_SUCCESS;
    only->last_attributes.assign(config->attrs,
                                 config->attrs + config->numAttrs);
    only->streams.Enqueue(config->hStream,
                          [node = std::move(node)] { only->Do(node); });
    return CUDA_SUCCESS;
  };
  driver.cuMemsetD8Async = [](CUdeviceptr to, unsigned char value,
                              size_t size_bytes, CUstream stream) {
    REPRISE_ENTER("cuMemsetD8Async");
    only->Use(stream);
    only->streams.Enqueue(stream, [=] { DoFill(to, value, 1, size_bytes); });
    return CUDA_SUCCESS;
  };
  driver.cuMemsetD16Async = [](CUdeviceptr to, unsigned short value,
                               size_t width, CUstream stream) {
    REPRISE_ENTER("cuMemsetD16Async");
    only->Use(stream);
    only->streams.Enqueue(stream, [=] { DoFill(to, value, 2, width); });
    return CUDA_SUCCESS;
  };
  driver.cuMemsetD32Async = [](CUdeviceptr to, unsigned value, size_t width,
                               CUstream stream) {
    REPRISE_ENTER("cuMemsetD32Async");
    only->Use(stream);
    // The engine's own words, perhaps, which `accessible` does not know.
    const bool own =
        std::ranges::any_of(only->memory_, [to](const auto& memory) {
          return reinterpret_cast<CUdeviceptr>(memory.get()) == to;
        });
    only->streams.Enqueue(stream, [=] {
      if (!own) return DoFill(to, value, 4, width);
      std::fill_n(reinterpret_cast<uint32_t*>(to), width, value);
    });
    return CUDA_SUCCESS;
  };
  // Pinned memory is read when the copy's turn comes, any other at once.
  driver.cuMemcpyHtoDAsync = [](CUdeviceptr to, const void* from,
                                size_t size_bytes, CUstream stream) {
    REPRISE_ENTER("cuMemcpyHtoDAsync");
    only->Use(stream);
    const auto* bytes = static_cast<const std::byte*>(from);
    const auto copy = [to, size_bytes](const std::byte* source) {
      std::byte* target = Access(to, size_bytes);
      if (target != nullptr) std::memcpy(target, source, size_bytes);
    };
    if (only->IsPinned(bytes)) {
      only->streams.Enqueue(stream, [copy, bytes] { copy(bytes); });
    } else {
      only->streams.Enqueue(stream, [copy, kept = std::vector<std::byte>(
                                               bytes, bytes + size_bytes)] {
        copy(kept.data());
      });
    }
    return CUDA_SUCCESS;
  };
  driver.cuMemcpyDtoDAsync = [](CUdeviceptr to, CUdeviceptr from,
                                size_t size_bytes, CUstream stream) {
    REPRISE_ENTER("cuMemcpyDtoDAsync");
    only->Use(stream);
    Node node;
    node.kind = Node::Kind::kCopy;
    node.copy.dstDevice = to;
    node.copy.srcDevice = from;
    node.copy.WidthInBytes = size_bytes;
    if (only->Captured(stream, std::move(node))) return CUDA_SUCCESS;
    only->streams.Enqueue(stream, [=] { DoCopy(to, from, size_bytes); });
    return CUDA_SUCCESS;
  };
  driver.cuMemcpyDtoHAsync = [](void* to, CUdeviceptr from, size_t size_bytes,
                                CUstream stream) {
    REPRISE_ENTER("cuMemcpyDtoHAsync");
    only->Use(stream);
    only->streams.Enqueue(stream, [=] {
      if (size_bytes == 0) return;  // no memory need be there
      std::memcpy(to, reinterpret_cast<const void*>(from), size_bytes);
    });
    return CUDA_SUCCESS;
  };
  driver.cuStreamSynchronize = [](CUstream stream) {
    REPRISE_ENTER("cuStreamSynchronize");
    only->Use(stream);
    only->streams.Synchronize(stream);
    return CUDA_SUCCESS;
  };
  driver.cuStreamQuery = [](CUstream stream) {
    REPRISE_ENTER("cuStreamQuery");
    only->Use(stream);
    EXPECT_FALSE(only->capturing) << "the capture would end";
    return only->streams.pending(stream) == 0 ? CUDA_SUCCESS
                                              : CUDA_ERROR_NOT_READY;
  };
  driver.cuStreamIsCapturing = [](CUstream stream,
                                  CUstreamCaptureStatus* status) {
    REPRISE_ENTER("cuStreamIsCapturing");
    only->Use(stream);
    const bool captured = only->capturing || (stream != nullptr &&
                                              stream == only->captured_stream_);
    *status = captured ? CU_STREAM_CAPTURE_STATUS_ACTIVE
                       : CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
  };
  driver.cuStreamCreate = [](CUstream* stream, unsigned) {
    REPRISE_ENTER("cuStreamCreate");
    *stream = only->streams.Make();
    only->made_streams_.insert(*stream);
    return CUDA_SUCCESS;
  };
  driver.cuStreamCreateWithPriority = [](CUstream* stream, unsigned,
                                         int priority) {
    REPRISE_ENTER("cuStreamCreateWithPriority");
    *stream = only->streams.Make();
    only->made_streams_.insert(*stream);
    only->priorities[*stream] = priority;
    return CUDA_SUCCESS;
  };
  driver.cuStreamDestroy = [](CUstream stream) {
    const std::lock_guard entered(only->entries_);
    only->streams.Synchronize(stream);
    EXPECT_EQ(only->made_streams_.erase(stream), 1u) << "ended twice";
    only->ended_streams_.insert(stream);
    return only->Enter("cuStreamDestroy");
  };
  driver.cuStreamBeginCapture = [](CUstream stream, CUstreamCaptureMode mode) {
    REPRISE_ENTER("cuStreamBeginCapture");
    only->Use(stream);
    EXPECT_EQ(mode, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    EXPECT_EQ(only->captured_stream_, nullptr);
    only->captured_stream_ = stream;
    only->captured_ = std::make_unique<Graph>();
    return CUDA_SUCCESS;
  };
  // One that fails ends the capture too.
  driver.cuStreamEndCapture = [](CUstream stream, CUgraph* graph) {
    EXPECT_EQ(only->captured_stream_, stream);
    only->captured_stream_ = nullptr;
    const std::unique_ptr<Graph> captured = std::move(only->captured_);
    *graph = nullptr;
    REPRISE_ENTER("cuStreamEndCapture");
    only->graphs_.push_back(std::make_unique<Graph>(*captured));
    only->graph_ids_[only->graphs_.back().get()] = ++only->graphs_made_;
    *graph = reinterpret_cast<CUgraph>(only->graphs_.back().get());
    return CUDA_SUCCESS;
  };
  driver.cuStreamGetCtx = [](CUstream stream, CUcontext* context) {
    REPRISE_ENTER("cuStreamGetCtx");
    const auto found = only->stream_contexts.find(stream);
    *context =
        found != only->stream_contexts.end() ? found->second : only->context;
    return CUDA_SUCCESS;
  };
  driver.cuEventCreate = [](CUevent* event, unsigned flags) {
    REPRISE_ENTER("cuEventCreate");
    only->events_.push_back(std::make_shared<Event>());
    only->events_.back()->chain = kEventChains + ++only->event_chains_;
    only->events_.back()->timed = (flags & CU_EVENT_DISABLE_TIMING) == 0;
    *event = reinterpret_cast<CUevent>(only->events_.back().get());
    return CUDA_SUCCESS;
  };
  driver.cuEventDestroy = [](CUevent event) {
    const std::lock_guard entered(only->entries_);
    End(only->events_, event);
    return only->Enter("cuEventDestroy");
  };
  driver.cuEventRecord = [](CUevent event, CUstream stream) {
    REPRISE_ENTER("cuEventRecord");
    only->Use(stream);
    const bool captured = stream != nullptr && stream == only->captured_stream_;
    only->EventOf(event)->captured = captured;
    if (!captured) only->EnqueueRecord(stream, event);
    return CUDA_SUCCESS;
  };
  driver.cuStreamWaitEvent = [](CUstream stream, CUevent event, unsigned) {
    REPRISE_ENTER("cuStreamWaitEvent");
    only->Use(stream);
    if (only->EventOf(event)->captured && stream != only->captured_stream_) {
      return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    }
    only->EnqueueWait(stream, event);
    return CUDA_SUCCESS;
  };
  driver.cuEventSynchronize = [](CUevent event) {
    REPRISE_ENTER("cuEventSynchronize");
    only->BreakCapture();
    const auto& asked = *reinterpret_cast<const Event*>(event);
    if (asked.captured) return CUDA_ERROR_CAPTURED_EVENT;
    if (asked.reached != asked.recorded) only->streams.SynchronizeAll();
    return CUDA_SUCCESS;
  };
  driver.cuEventQuery = [](CUevent event) {
    REPRISE_ENTER("cuEventQuery");
    only->BreakCapture();
    const auto& asked = *reinterpret_cast<const Event*>(event);
    if (asked.captured) return CUDA_ERROR_CAPTURED_EVENT;
    return asked.reached == asked.recorded ? CUDA_SUCCESS
                                           : CUDA_ERROR_NOT_READY;
  };
  driver.cuEventElapsedTime = [](float* milliseconds, CUevent from,
                                 CUevent to) {
    REPRISE_ENTER("cuEventElapsedTime");
    only->BreakCapture();
    const auto& begin = *reinterpret_cast<const Event*>(from);
    const auto& end = *reinterpret_cast<const Event*>(to);
    for (const Event* event : {&begin, &end}) {
      if (!event->timed) return CUDA_ERROR_INVALID_HANDLE;
      if (event->reached != event->recorded) return CUDA_ERROR_NOT_READY;
    }
    *milliseconds =
        static_cast<float>(end.time) - static_cast<float>(begin.time);
    return CUDA_SUCCESS;
  };
}

void SimulatedGpu::MakeGraphEntries() {
  driver.cuGraphCreate = [](CUgraph* graph, unsigned) {
    REPRISE_ENTER("cuGraphCreate");
    only->graphs_.push_back(std::make_unique<Graph>());
    only->graph_ids_[only->graphs_.back().get()] = ++only->graphs_made_;
    *graph = reinterpret_cast<CUgraph>(only->graphs_.back().get());
    return CUDA_SUCCESS;
  };
  driver.cuGraphDestroy = [](CUgraph graph) {
    const std::lock_guard entered(only->entries_);
    End(only->graphs_, graph);
    return only->Enter("cuGraphDestroy");
  };
  driver.cuGraphAddKernelNode = [](CUgraphNode* node, CUgraph graph,
                                   const CUgraphNode* before, size_t count,
                                   const CUDA_KERNEL_NODE_PARAMS* params) {
    REPRISE_ENTER("cuGraphAddKernelNode");
    if (params->func == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    Node added;
    added.kind = Node::Kind::kKernel;
    added.kernel = &KernelOf(params->func);
    added.image = ImageOf(*added.kernel, params->kernelParams);
    added.blocks = params->gridDimX;
    if (static_cast<int>(params->sharedMemBytes) +
            added.kernel->own_shared_bytes >
        added.kernel->most_shared_bytes) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    return only->AddNode(graph, node, std::move(added), before, count);
  };
  driver.cuGraphKernelNodeSetAttribute =
      [](CUgraphNode node, CUkernelNodeAttrID id,
         const CUkernelNodeAttrValue* value) {
        REPRISE_ENTER("cuGraphKernelNodeSetAttribute");
        CUlaunchAttribute attribute{};
        attribute.id = id;
        attribute.value = *value;
        only->NodeOf(node).attributes.push_back(attribute);
        return CUDA_SUCCESS;
      };
  driver.cuGraphAddDependencies =
      [](CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
         const CUgraphEdgeData* edges, size_t count) {
        REPRISE_ENTER("cuGraphAddDependencies");
        auto& nodes = *reinterpret_cast<Graph*>(graph);
        for (size_t i = 0; i < count; ++i) {
          const Node& waited = At(nodes, from[i]);
          EXPECT_EQ(waited.kind, Node::Kind::kKernel);
          EXPECT_EQ(edges[i].type, CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC);
          EXPECT_EQ(edges[i].from_port, CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC);
          ++At(nodes, to[i]).early_edges;
          At(nodes, to[i]).before.push_back(PlaceOf(from[i]));
        }
        return CUDA_SUCCESS;
      };
  driver.cuGraphAddMemsetNode =
      [](CUgraphNode* node, CUgraph graph, const CUgraphNode* before,
         size_t count, const CUDA_MEMSET_NODE_PARAMS* params, CUcontext) {
        REPRISE_ENTER("cuGraphAddMemsetNode");
        Node added;
        added.kind = Node::Kind::kFill;
        added.fill = *params;
        return only->AddNode(graph, node, std::move(added), before, count);
      };
  driver.cuGraphAddMemcpyNode = [](CUgraphNode* node, CUgraph graph,
                                   const CUgraphNode* before, size_t count,
                                   const CUDA_MEMCPY3D* params, CUcontext) {
    REPRISE_ENTER("cuGraphAddMemcpyNode");
    Node added;
    added.kind = Node::Kind::kCopy;
    added.copy = *params;
    return only->AddNode(graph, node, std::move(added), before, count);
  };
}

void SimulatedGpu::MakeEventNodeEntries() {
  driver.cuGraphAddEventWaitNode = [](CUgraphNode* node, CUgraph graph,
                                      const CUgraphNode* before, size_t count,
                                      CUevent event) {
    REPRISE_ENTER("cuGraphAddEventWaitNode");
    Node added;
    added.kind = Node::Kind::kWait;
    added.event = event;
    return only->AddNode(graph, node, std::move(added), before, count);
  };
  driver.cuGraphAddEventRecordNode = [](CUgraphNode* node, CUgraph graph,
                                        const CUgraphNode* before, size_t count,
                                        CUevent event) {
    REPRISE_ENTER("cuGraphAddEventRecordNode");
    Node added;
    added.kind = Node::Kind::kRecord;
    added.event = event;
    return only->AddNode(graph, node, std::move(added), before, count);
  };
  // The child is copied.
  driver.cuGraphAddChildGraphNode = [](CUgraphNode* node, CUgraph graph,
                                       const CUgraphNode* before, size_t count,
                                       CUgraph child) {
    REPRISE_ENTER("cuGraphAddChildGraphNode");
    Node added;
    added.kind = Node::Kind::kGraph;
    added.child = *reinterpret_cast<const Graph*>(child);
    return only->AddNode(graph, node, std::move(added), before, count);
  };
}

CUresult SimulatedGpu::SetNode(Node& node, Node changed) {
  if (NamesFreedMemory(changed)) return CUDA_ERROR_INVALID_VALUE;
  node = std::move(changed);
  return CUDA_SUCCESS;
}

bool SimulatedGpu::NamesFreedMemory(const Node& node) const {
  const auto freed = [this](CUdeviceptr address) {
    if (accessible && !accessible(address, 1)) return true;
    const auto behind = no_memory_.upper_bound(address);
    return behind != no_memory_.begin() && address < std::prev(behind)->second;
  };
  if (node.kind == Node::Kind::kFill) return freed(node.fill.dst);
  if (node.kind == Node::Kind::kGraph) {
    return std::ranges::any_of(
        node.child, [this](const Node& n) { return NamesFreedMemory(n); });
  }
  return node.kind == Node::Kind::kCopy &&
         (freed(node.copy.dstDevice) || freed(node.copy.srcDevice));
}

CUresult SimulatedGpu::AddNode(CUgraph graph, CUgraphNode* node, Node added,
                               const CUgraphNode* before, size_t count) {
  if (NamesFreedMemory(added)) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i) {
    added.before.push_back(PlaceOf(before[i]));
  }
  auto* nodes = reinterpret_cast<Graph*>(graph);
  *node = HandleOf(graph_ids_.at(nodes), nodes->size());
  nodes->push_back(std::move(added));
  return CUDA_SUCCESS;
}

SimulatedGpu::Node& SimulatedGpu::NodeOf(CUgraphNode node) {
  for (const std::unique_ptr<Graph>& graph : graphs_) {
    if (graph_ids_.at(graph.get()) == GraphIdOf(node)) return At(*graph, node);
  }
  throw std::out_of_range("a node of a graph that is no more");
}

void SimulatedGpu::MakeExecEntries() {
  driver.cuGraphInstantiateWithParams =
      [](CUgraphExec* exec, CUgraph graph,
         CUDA_GRAPH_INSTANTIATE_PARAMS* params) {
        REPRISE_ENTER("cuGraphInstantiateWithParams");
        const auto& nodes = *reinterpret_cast<Graph*>(graph);
        for (const Node& node : nodes) {
          if (only->NamesFreedMemory(node)) return CUDA_ERROR_INVALID_VALUE;
        }
        if ((params->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) != 0) {
          only->upload_streams.insert(params->hUploadStream);
        }
        only->Use(params->hUploadStream);
        only->execs_.push_back(std::make_unique<Exec>(
            Exec{++only->exec_ids_, std::make_shared<Graph>(nodes),
                 only->graph_ids_.at(reinterpret_cast<Graph*>(graph))}));
        *exec = reinterpret_cast<CUgraphExec>(only->execs_.back().get());
        return CUDA_SUCCESS;
      };
  driver.cuGraphExecDestroy = [](CUgraphExec exec) {
    const std::lock_guard entered(only->entries_);
    End(only->execs_, exec);
    return only->Enter("cuGraphExecDestroy");
  };
  // A launch in flight holds the graph as it was.
  static constexpr auto kNodeOf = [](CUgraphExec handle,
                                     CUgraphNode node) -> Node& {
    std::shared_ptr<Graph>& graph = reinterpret_cast<Exec*>(handle)->graph;
    if (graph.use_count() > 1 && !only->patches_in_flight) {
      graph = std::make_shared<Graph>(*graph);
    }
    ++only->updates;
    return At(*graph, node);
  };
  driver.cuGraphExecKernelNodeSetParams =
      [](CUgraphExec exec, CUgraphNode node,
         const CUDA_KERNEL_NODE_PARAMS* params) {
        REPRISE_ENTER("cuGraphExecKernelNodeSetParams");
        Node& changed = kNodeOf(exec, node);
        changed.kernel = &KernelOf(params->func);
        changed.image = ImageOf(*changed.kernel, params->kernelParams);
        changed.blocks = params->gridDimX;
        return CUDA_SUCCESS;
      };
  driver.cuGraphKernelNodeSetParams =
      [](CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* params) {
        REPRISE_ENTER("cuGraphKernelNodeSetParams");
        Node& changed = only->NodeOf(node);
        changed.kernel = &KernelOf(params->func);
        changed.image = ImageOf(*changed.kernel, params->kernelParams);
        changed.blocks = params->gridDimX;
        return CUDA_SUCCESS;
      };
  driver.cuGraphMemsetNodeSetParams =
      [](CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS* params) {
        REPRISE_ENTER("cuGraphMemsetNodeSetParams");
        Node& set = only->NodeOf(node);
        Node changed = set;
        changed.fill = *params;
        return only->SetNode(set, std::move(changed));
      };
  driver.cuGraphMemcpyNodeSetParams = [](CUgraphNode node,
                                         const CUDA_MEMCPY3D* params) {
    REPRISE_ENTER("cuGraphMemcpyNodeSetParams");
    Node& set = only->NodeOf(node);
    Node changed = set;
    changed.copy = *params;
    return only->SetNode(set, std::move(changed));
  };
  driver.cuGraphExecUpdate = [](CUgraphExec exec, CUgraph graph,
                                CUgraphExecUpdateResultInfo* info) {
    REPRISE_ENTER("cuGraphExecUpdate");
    std::shared_ptr<Graph>& old = reinterpret_cast<Exec*>(exec)->graph;
    const auto& taken = *reinterpret_cast<Graph*>(graph);
    info->result = CU_GRAPH_EXEC_UPDATE_SUCCESS;
    if (!SameTopology(*old, taken)) {
      info->result = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    } else if (only->refuses_updates) {
      info->result = CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE;
    }
    if (info->result != CU_GRAPH_EXEC_UPDATE_SUCCESS) {
      return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    }
    if (only->patches_in_flight) {
      *old = taken;
    } else {
      old = std::make_shared<Graph>(taken);
    }
    ++only->takeovers;
    return CUDA_SUCCESS;
  };
  driver.cuGraphNodeSetEnabled = [](CUgraphExec exec, CUgraphNode node,
                                    unsigned enabled) {
    REPRISE_ENTER("cuGraphNodeSetEnabled");
    kNodeOf(exec, node).enabled = enabled != 0;
    return CUDA_SUCCESS;
  };
  driver.cuGraphExecMemsetNodeSetParams =
      [](CUgraphExec exec, CUgraphNode node,
         const CUDA_MEMSET_NODE_PARAMS* params, CUcontext context) {
        REPRISE_ENTER("cuGraphExecMemsetNodeSetParams");
        // Sizes may be refused, so nobody is to count on them.
        Node& set = kNodeOf(exec, node);
        Node changed = set;
        CUDA_MEMSET_NODE_PARAMS& fill = changed.fill;
        if (params->width != fill.width || params->height != fill.height ||
            params->elementSize != fill.elementSize || context == nullptr) {
          return CUDA_ERROR_INVALID_VALUE;
        }
        fill = *params;
        return only->SetNode(set, std::move(changed));
      };
  driver.cuGraphExecMemcpyNodeSetParams = [](CUgraphExec exec, CUgraphNode node,
                                             const CUDA_MEMCPY3D* params,
                                             CUcontext) {
    REPRISE_ENTER("cuGraphExecMemcpyNodeSetParams");
    Node& set = kNodeOf(exec, node);
    Node changed = set;
    changed.copy = *params;
    return only->SetNode(set, std::move(changed));
  };
  driver.cuGraphExecEventWaitNodeSetEvent =
      [](CUgraphExec exec, CUgraphNode node, CUevent event) {
        REPRISE_ENTER("cuGraphExecEventWaitNodeSetEvent");
        kNodeOf(exec, node).event = event;
        return CUDA_SUCCESS;
      };
  driver.cuGraphExecEventRecordNodeSetEvent =
      [](CUgraphExec exec, CUgraphNode node, CUevent event) {
        REPRISE_ENTER("cuGraphExecEventRecordNodeSetEvent");
        kNodeOf(exec, node).event = event;
        return CUDA_SUCCESS;
      };
  driver.cuGraphLaunch = [](CUgraphExec handle, CUstream stream) {
    const Counted launching(only->launches_under_way_);
    // Now and then, for what must not come beside it. On a machine that is busy
    // each time takes a time slice.
    thread_local uint32_t launches = 0;
    if (++launches % 32 == 0) std::this_thread::yield();
    REPRISE_ENTER("cuGraphLaunch");
    only->Use(stream);
    ++only->graph_launches;
    only->contexts_of_launches.insert(only->current_);
    const Exec& exec = *reinterpret_cast<Exec*>(handle);
    const std::shared_ptr<const Graph> graph = exec.graph;
    // Events part it: each is an item of the stream in its place.
    std::vector<size_t> part;
    const auto end_part = [&] {
      if (part.empty()) return;
      only->streams.Enqueue(
          stream,
          [graph, part] {
            for (const size_t place : part) only->Do((*graph)[place]);
          },
          exec.id);
      part.clear();
    };
    for (const size_t place : only->OrderOf(*graph)) {
      const Node& node = (*graph)[place];
      if (node.kind == Node::Kind::kWait) {
        end_part();
        only->EnqueueWait(stream, node.event);
      } else if (node.kind == Node::Kind::kRecord) {
        end_part();
        only->EnqueueRecord(stream, node.event);
      } else {
        part.push_back(place);
      }
    }
    end_part();
    return CUDA_SUCCESS;
  };
}

#undef REPRISE_ENTER

}  // namespace reprise::sim
