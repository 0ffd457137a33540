// A GPU of host memory: kernels are functions on their parameters' bytes, work
// is done when it is enqueued, graphs keep copies of what they were given.

#ifndef REPRISE_TESTS_ENGINE_SIMULATED_GPU_H_
#define REPRISE_TESTS_ENGINE_SIMULATED_GPU_H_

#include <cuda.h>
#include <cupti.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/device/cupti.h"
#include "engine/device/driver.h"
#include "engine/device/launch.h"

namespace reprise::engine {

// Behind the driver's and CUPTI's tables. One at a time: entries of a table
// have no other way to find it. Every driver call can be made to fail, and
// every call that the engine makes comes back as a callback of a call that
// nobody knows, which refuses an op that does not hide it. Single-thread.
class SimulatedGpu {
 public:
  // What a function of the device does with its parameters.
  struct Kernel {
    std::vector<device::ParamSpan> params;
    std::function<void(const std::byte* image)> run;
  };

  SimulatedGpu() {
    EXPECT_EQ(only, nullptr);
    only = this;
    MakeDriver();
    MakeCupti();
  }
  ~SimulatedGpu() { only = nullptr; }
  SimulatedGpu(const SimulatedGpu&) = delete;
  SimulatedGpu& operator=(const SimulatedGpu&) = delete;

  template <typename... P>
  static Kernel MakeKernel(void (*function)(P...)) {
    Kernel kernel;
    size_t end = 0;
    const auto add = [&kernel, &end](size_t size, size_t alignment) {
      end = (end + alignment - 1) / alignment * alignment;
      kernel.params.push_back(
          {static_cast<uint32_t>(end), static_cast<uint32_t>(size)});
      end += size;
    };
    (add(sizeof(P), alignof(P)), ...);
    kernel.run = [function, params = kernel.params](const std::byte* image) {
      std::tuple<P...> values;
      size_t i = 0;
      std::apply(
          [&](P&... value) {
            (std::memcpy(&value, image + params[i++].offset_bytes, sizeof(P)),
             ...);
          },
          values);
      std::apply(function, values);
    };
    return kernel;
  }

  // Eager's own work: seen by CUPTI, done at once.
  template <typename... P>
  void Launch(const Kernel& kernel, P... params) {
    void* pointers[] = {&params...};
    cuLaunchKernel_params call{};
    call.f = HandleOf(kernel);
    call.gridDimX = call.gridDimY = call.gridDimZ = 1;
    call.blockDimX = call.blockDimY = call.blockDimZ = 1;
    call.hStream = stream;
    call.kernelParams = pointers;
    Ring(CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, "cuLaunchKernel", &call);
    RunKernel(kernel, pointers);
  }
  void Fill(uint64_t to, unsigned char value, size_t bytes) {
    cuMemsetD8Async_params call{to, value, bytes, stream};
    Ring(CUPTI_DRIVER_TRACE_CBID_cuMemsetD8Async, "cuMemsetD8Async", &call);
    std::memset(At(to), value, bytes);
  }
  void Copy(uint64_t to, uint64_t from, size_t bytes) {
    cuMemcpyDtoDAsync_v2_params call{to, from, bytes, stream};
    Ring(CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoDAsync_v2, "cuMemcpyDtoDAsync_v2",
         &call);
    std::memcpy(At(to), At(from), bytes);
  }
  // A copy to the host: no replay can stand for it.
  void Read(void* to, uint64_t from, size_t bytes) {
    cuMemcpyDtoHAsync_v2_params call{to, from, bytes, stream};
    Ring(CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoHAsync_v2, "cuMemcpyDtoHAsync_v2",
         &call);
    std::memcpy(to, At(from), bytes);
  }

  // The driver call after `calls` more fails, once; its name is `failed` then.
  void FailAfter(int calls) { fail_after_ = calls; }

  // Everything that was made and not ended.
  size_t objects() const {
    return graphs_.size() + execs_.size() + memory_.size() + events_.size();
  }

  // One word of a parameter in an executable graph, as last written there.
  struct Node {
    enum class Kind : uint8_t { kKernel, kFill, kCopy };
    Kind kind = Kind::kKernel;
    const Kernel* kernel = nullptr;
    std::vector<std::byte> image;
    CUDA_MEMSET_NODE_PARAMS fill{};
    CUDA_MEMCPY3D copy{};

    uint64_t Word(size_t offset_bytes) const {
      uint64_t word;
      std::memcpy(&word, image.data() + offset_bytes, sizeof word);
      return word;
    }
  };
  using Graph = std::vector<Node>;

  // Executable graphs, in the order of their making.
  std::vector<const Graph*> execs() const {
    std::vector<const Graph*> execs;
    for (const auto& exec : execs_) execs.push_back(exec.get());
    return execs;
  }

  device::Driver driver;
  device::Cupti cupti;
  const CUstream stream = reinterpret_cast<CUstream>(0x5);
  const CUcontext context = reinterpret_cast<CUcontext>(0xc);

  std::vector<std::string> calls;  // of the engine, by name
  std::string failed;
  int graph_launches = 0;
  int updates = 0;
  bool device_is_behind = false;  // events are not reached yet
  bool capturing = false;

 private:
  static inline SimulatedGpu* only = nullptr;

  static std::byte* At(uint64_t address) {
    return reinterpret_cast<std::byte*>(address);
  }
  static CUfunction HandleOf(const Kernel& kernel) {
    return reinterpret_cast<CUfunction>(const_cast<Kernel*>(&kernel));
  }
  static const Kernel& KernelOf(CUfunction function) {
    return *reinterpret_cast<const Kernel*>(function);
  }

  void Ring(CUpti_CallbackId id, const char* name, const void* params) {
    if (callback_ == nullptr) return;
    CUpti_CallbackData data{};
    data.callbackSite = CUPTI_API_ENTER;
    data.functionName = name;
    data.functionParams = params;
    callback_(nullptr, CUPTI_CB_DOMAIN_DRIVER_API, id, &data);
  }

  // Every entry begins with it.
  CUresult Enter(const char* name) {
    calls.push_back(name);
    Ring(CUPTI_DRIVER_TRACE_CBID_INVALID, name, nullptr);
    if (fail_after_-- != 0) return CUDA_SUCCESS;
    failed = name;
    return CUDA_ERROR_UNKNOWN;
  }

  static std::vector<std::byte> ImageOf(const Kernel& kernel, void** params) {
    std::vector<std::byte> image;
    for (size_t i = 0; i < kernel.params.size(); ++i) {
      const device::ParamSpan& span = kernel.params[i];
      image.resize(span.offset_bytes + span.size_bytes);
      std::memcpy(image.data() + span.offset_bytes, params[i], span.size_bytes);
    }
    return image;
  }
  static void RunKernel(const Kernel& kernel, void** params) {
    kernel.run(ImageOf(kernel, params).data());
  }

  static void RunNode(const Node& node) {
    switch (node.kind) {
      case Node::Kind::kKernel:
        node.kernel->run(node.image.data());
        break;
      case Node::Kind::kFill:
        ASSERT_EQ(node.fill.height, 1u);
        ASSERT_EQ(node.fill.elementSize, 1u);
        std::memset(At(node.fill.dst), static_cast<int>(node.fill.value),
                    node.fill.width);
        break;
      case Node::Kind::kCopy:
        std::memcpy(At(node.copy.dstDevice), At(node.copy.srcDevice),
                    node.copy.WidthInBytes);
        break;
    }
  }

  static CUgraphNode Number(size_t index) {
    return reinterpret_cast<CUgraphNode>(index + 1);
  }
  static Node& NodeOf(CUgraphExec exec, CUgraphNode node) {
    auto& graph = *reinterpret_cast<Graph*>(exec);
    return graph.at(reinterpret_cast<size_t>(node) - 1);
  }
  static CUresult Add(CUgraph graph, CUgraphNode* node, const Node& added) {
    auto& nodes = *reinterpret_cast<Graph*>(graph);
    nodes.push_back(added);
    *node = Number(nodes.size() - 1);
    return CUDA_SUCCESS;
  }

  template <typename T>
  static void End(std::vector<std::unique_ptr<T>>& made, void* handle) {
    std::erase_if(made,
                  [handle](const auto& one) { return one.get() == handle; });
  }

#define REPRISE_ENTER(name)                                              \
  if (const CUresult result = only->Enter(name); result != CUDA_SUCCESS) \
  return result

  void MakeDriver();
  void MakeGraphEntries();
  void MakeCupti() {
    cupti.cuptiSubscribe_v2 = [](CUpti_SubscriberHandle* handle,
                                 CUpti_CallbackFunc callback, void*,
                                 CUpti_SubscriberParams*) {
      if (only->callback_ != nullptr) {
        return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
      }
      only->callback_ = callback;
      *handle = reinterpret_cast<CUpti_SubscriberHandle>(only);
      return CUPTI_SUCCESS;
    };
    cupti.cuptiUnsubscribe = [](CUpti_SubscriberHandle) {
      only->callback_ = nullptr;
      return CUPTI_SUCCESS;
    };
    cupti.cuptiEnableDomain = [](uint32_t, CUpti_SubscriberHandle,
                                 CUpti_CallbackDomain) {
      return CUPTI_SUCCESS;
    };
    cupti.cuptiFinalize = [] { return CUPTI_SUCCESS; };
    cupti.cuptiGetResultString = [](CUptiResult, const char** text) {
      *text = "simulated";
      return CUPTI_SUCCESS;
    };
  }

  CUpti_CallbackFunc callback_ = nullptr;
  int fail_after_ = -1;
  CUcontext current_ = context;
  std::vector<std::unique_ptr<Graph>> graphs_;
  std::vector<std::unique_ptr<Graph>> execs_;
  std::vector<std::unique_ptr<uint64_t>> memory_;
  std::vector<std::unique_ptr<char>> events_;
};

inline void SimulatedGpu::MakeDriver() {
  MakeGraphEntries();
  driver.cuGetErrorName = [](CUresult, const char** name) {
    *name = "CUDA_ERROR_SIMULATED";
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
  driver.cuThreadExchangeStreamCaptureMode = [](CUstreamCaptureMode*) {
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
  driver.cuFuncGetName = [](const char** name, CUfunction) {
    REPRISE_ENTER("cuFuncGetName");
    *name = "simulated_kernel";
    return CUDA_SUCCESS;
  };
  driver.cuKernelGetName = [](const char**, CUkernel) {
    REPRISE_ENTER("cuKernelGetName");
    return CUDA_ERROR_INVALID_HANDLE;
  };
  driver.cuPointerGetAttribute = [](void* data, CUpointer_attribute attribute,
                                    CUdeviceptr) {
    REPRISE_ENTER("cuPointerGetAttribute");
    const int value = attribute == CU_POINTER_ATTRIBUTE_MEMORY_TYPE
                          ? CU_MEMORYTYPE_DEVICE
                          : 0;
    std::memcpy(data, &value, sizeof value);
    return CUDA_SUCCESS;
  };
  driver.cuLaunchKernelEx = [](const CUlaunchConfig* config,
                               CUfunction function, void** params,
                               void** extra) {
    REPRISE_ENTER("cuLaunchKernelEx");
    EXPECT_EQ(config->hStream, only->stream);
    EXPECT_EQ(extra, nullptr);
    RunKernel(KernelOf(function), params);
    return CUDA_SUCCESS;
  };
  driver.cuMemsetD8Async = [](CUdeviceptr to, unsigned char value, size_t bytes,
                              CUstream) {
    REPRISE_ENTER("cuMemsetD8Async");
    std::memset(At(to), value, bytes);
    return CUDA_SUCCESS;
  };
  driver.cuMemsetD32Async = [](CUdeviceptr to, unsigned value, size_t count,
                               CUstream) {
    REPRISE_ENTER("cuMemsetD32Async");
    for (size_t i = 0; i < count; ++i) {
      std::memcpy(At(to) + 4 * i, &value, 4);
    }
    return CUDA_SUCCESS;
  };
  driver.cuMemcpyDtoDAsync = [](CUdeviceptr to, CUdeviceptr from, size_t bytes,
                                CUstream) {
    REPRISE_ENTER("cuMemcpyDtoDAsync");
    std::memcpy(At(to), At(from), bytes);
    return CUDA_SUCCESS;
  };
  driver.cuMemcpyDtoHAsync = [](void* to, CUdeviceptr from, size_t bytes,
                                CUstream) {
    REPRISE_ENTER("cuMemcpyDtoHAsync");
    std::memcpy(to, At(from), bytes);
    return CUDA_SUCCESS;
  };
  driver.cuMemAlloc = [](CUdeviceptr* address, size_t bytes) {
    REPRISE_ENTER("cuMemAlloc");
    EXPECT_LE(bytes, sizeof(uint64_t));
    only->memory_.push_back(std::make_unique<uint64_t>());
    *address = reinterpret_cast<CUdeviceptr>(only->memory_.back().get());
    return CUDA_SUCCESS;
  };
  driver.cuMemFree = [](CUdeviceptr address) {
    End(only->memory_, At(address));
    return only->Enter("cuMemFree");
  };
  driver.cuMemHostAlloc = [](void** memory, size_t bytes, unsigned) {
    REPRISE_ENTER("cuMemHostAlloc");
    EXPECT_LE(bytes, sizeof(uint64_t));
    only->memory_.push_back(std::make_unique<uint64_t>());
    *memory = only->memory_.back().get();
    return CUDA_SUCCESS;
  };
  driver.cuMemFreeHost = [](void* memory) {
    End(only->memory_, memory);
    return only->Enter("cuMemFreeHost");
  };
  driver.cuStreamSynchronize = [](CUstream) {
    REPRISE_ENTER("cuStreamSynchronize");
    only->device_is_behind = false;
    return CUDA_SUCCESS;
  };
  driver.cuStreamIsCapturing = [](CUstream, CUstreamCaptureStatus* status) {
    REPRISE_ENTER("cuStreamIsCapturing");
    *status = only->capturing ? CU_STREAM_CAPTURE_STATUS_ACTIVE
                              : CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
  };
  driver.cuEventCreate = [](CUevent* event, unsigned) {
    REPRISE_ENTER("cuEventCreate");
    only->events_.push_back(std::make_unique<char>());
    *event = reinterpret_cast<CUevent>(only->events_.back().get());
    return CUDA_SUCCESS;
  };
  driver.cuEventDestroy = [](CUevent event) {
    End(only->events_, event);
    return only->Enter("cuEventDestroy");
  };
  driver.cuEventRecord = [](CUevent, CUstream) {
    return only->Enter("cuEventRecord");
  };
  driver.cuEventQuery = [](CUevent) {
    REPRISE_ENTER("cuEventQuery");
    return only->device_is_behind ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
  };
}

inline void SimulatedGpu::MakeGraphEntries() {
  driver.cuGraphCreate = [](CUgraph* graph, unsigned) {
    REPRISE_ENTER("cuGraphCreate");
    only->graphs_.push_back(std::make_unique<Graph>());
    *graph = reinterpret_cast<CUgraph>(only->graphs_.back().get());
    return CUDA_SUCCESS;
  };
  driver.cuGraphDestroy = [](CUgraph graph) {
    End(only->graphs_, graph);
    return only->Enter("cuGraphDestroy");
  };
  driver.cuGraphAddKernelNode = [](CUgraphNode* node, CUgraph graph,
                                   const CUgraphNode*, size_t,
                                   const CUDA_KERNEL_NODE_PARAMS* params) {
    REPRISE_ENTER("cuGraphAddKernelNode");
    if (params->func == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    Node added;
    added.kind = Node::Kind::kKernel;
    added.kernel = &KernelOf(params->func);
    added.image = ImageOf(*added.kernel, params->kernelParams);
    return Add(graph, node, added);
  };
  driver.cuGraphAddMemsetNode =
      [](CUgraphNode* node, CUgraph graph, const CUgraphNode*, size_t,
         const CUDA_MEMSET_NODE_PARAMS* params, CUcontext) {
        REPRISE_ENTER("cuGraphAddMemsetNode");
        Node added;
        added.kind = Node::Kind::kFill;
        added.fill = *params;
        return Add(graph, node, added);
      };
  driver.cuGraphAddMemcpyNode = [](CUgraphNode* node, CUgraph graph,
                                   const CUgraphNode*, size_t,
                                   const CUDA_MEMCPY3D* params, CUcontext) {
    REPRISE_ENTER("cuGraphAddMemcpyNode");
    Node added;
    added.kind = Node::Kind::kCopy;
    added.copy = *params;
    return Add(graph, node, added);
  };
  driver.cuGraphInstantiateWithParams = [](CUgraphExec* exec, CUgraph graph,
                                           CUDA_GRAPH_INSTANTIATE_PARAMS*) {
    REPRISE_ENTER("cuGraphInstantiateWithParams");
    only->execs_.push_back(
        std::make_unique<Graph>(*reinterpret_cast<Graph*>(graph)));
    *exec = reinterpret_cast<CUgraphExec>(only->execs_.back().get());
    return CUDA_SUCCESS;
  };
  driver.cuGraphExecDestroy = [](CUgraphExec exec) {
    End(only->execs_, exec);
    return only->Enter("cuGraphExecDestroy");
  };
  driver.cuGraphExecKernelNodeSetParams =
      [](CUgraphExec exec, CUgraphNode node,
         const CUDA_KERNEL_NODE_PARAMS* params) {
        REPRISE_ENTER("cuGraphExecKernelNodeSetParams");
        Node& changed = NodeOf(exec, node);
        changed.image = ImageOf(*changed.kernel, params->kernelParams);
        ++only->updates;
        return CUDA_SUCCESS;
      };
  driver.cuGraphExecMemsetNodeSetParams =
      [](CUgraphExec exec, CUgraphNode node,
         const CUDA_MEMSET_NODE_PARAMS* params, CUcontext) {
        REPRISE_ENTER("cuGraphExecMemsetNodeSetParams");
        NodeOf(exec, node).fill = *params;
        ++only->updates;
        return CUDA_SUCCESS;
      };
  driver.cuGraphExecMemcpyNodeSetParams = [](CUgraphExec exec, CUgraphNode node,
                                             const CUDA_MEMCPY3D* params,
                                             CUcontext) {
    REPRISE_ENTER("cuGraphExecMemcpyNodeSetParams");
    NodeOf(exec, node).copy = *params;
    ++only->updates;
    return CUDA_SUCCESS;
  };
  driver.cuGraphLaunch = [](CUgraphExec exec, CUstream) {
    REPRISE_ENTER("cuGraphLaunch");
    ++only->graph_launches;
    for (const Node& node : *reinterpret_cast<Graph*>(exec)) RunNode(node);
    return CUDA_SUCCESS;
  };
}

#undef REPRISE_ENTER

}  // namespace reprise::engine

#endif  // REPRISE_TESTS_ENGINE_SIMULATED_GPU_H_
