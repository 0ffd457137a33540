#include "bindings/torch/runtime/torch_frontend.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/DeviceGuard.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/Exception.h>
#include <c10/util/ExclusivelyOwnedTensorTraits.h>
#include <c10/util/intrusive_ptr.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/torch/base/cufft_plans.h"
#include "bindings/torch/runtime/allocator_trace.h"
#include "bindings/torch/runtime/kept_generator.h"
#include "bindings/torch/runtime/op_policy.h"
#include "bindings/torch/runtime/private_pool.h"
#include "bindings/torch/runtime/program_place.h"
#include "bindings/torch/runtime/thread_state.h"
#include "engine/base/log.h"
#include "engine/replay/ledger.h"

namespace reprise::bindings {
struct Held;
}

// A friend of reference counts.
template <>
struct c10::ExclusivelyOwnedTensorTraits<reprise::bindings::Held> {
  // Adds a strong reference to what is weakly held. False if there is none, or
  // only a Python object's: another one needs Python's lock then, and who has
  // that one may wait for the session. (lock() of a weak pointer takes it.)
  static bool TryAdd(const c10::intrusive_ptr_target& target) {
    uint64_t count = target.combined_refcount_.load(std::memory_order_relaxed);
    do {
      const uint32_t references = c10::detail::refcount(count);
      if (references == 0 ||
          (references == 1 && c10::detail::has_pyobject(count))) {
        return false;
      }
    } while (!target.combined_refcount_.compare_exchange_weak(
        count, count + c10::detail::kReferenceCountOne,
        std::memory_order_acquire, std::memory_order_relaxed));
    return true;
  }
};

namespace reprise::bindings {
namespace {

using StrongReference = c10::ExclusivelyOwnedTensorTraits<Held>;

namespace allocator = c10::cuda::CUDACachingAllocator;

uint64_t Mix(uint64_t hash, uint64_t word) {
  // The finaliser of splitmix64: a bijection for each `hash`, so that two
  // states which differ in one word never meet.
  uint64_t x = hash * 0x9e3779b97f4a7c15u + word + 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

std::string FirstLine(const std::exception& error) {
  const std::string text = error.what();
  return text.substr(0, text.find('\n'));
}

// What host and CUDA have in common: names and references.
class TorchFrontend : public engine::Frontend {
 public:
  explicit TorchFrontend(OpNames op_names) : op_names_(op_names) {}

  std::string OpName(engine::OpId op) const override { return op_names_(op); }
  void AskPlace(engine::PlaceAsker* asker, uint64_t question) override {
    AskProgramPlace(asker, question);
  }
  // Torch's own ops keep no state but its generators'; others may.
  bool MayBeNondeterministic(engine::OpId op) const override {
    return !at::globalContext().deterministicAlgorithms() &&
           OpName(op).starts_with("aten::");
  }
  bool MayRunBeside(engine::OpId op) const override {
    return bindings::MayRunBeside(OpName(op));
  }
  std::string DtypeName(int32_t dtype) const override {
    // A std::string, or a view of one.
    return std::string(
        c10::getDtypeNames(static_cast<at::ScalarType>(dtype)).first);
  }
  kernels::Element ElementOf(int32_t dtype) const override {
    switch (static_cast<at::ScalarType>(dtype)) {
      case at::kHalf:
        return kernels::Element::kFloat16;
      case at::kBFloat16:
        return kernels::Element::kBFloat16;
      case at::kFloat:
        return kernels::Element::kFloat32;
      case at::kDouble:
        return kernels::Element::kFloat64;
      default:
        return kernels::Element::kBits;
    }
  }

  void Retain(engine::StorageToken storage) override {
    c10::raw::weak_intrusive_ptr::incref(StorageOf(storage));
  }
  void Release(engine::StorageToken storage) override {
    c10::raw::weak_intrusive_ptr::decref(StorageOf(storage));
  }
  bool Alive(engine::StorageToken storage) const override {
    return c10::raw::weak_intrusive_ptr::use_count(StorageOf(storage)) > 0;
  }
  uint64_t Base(engine::StorageToken storage) const override {
    return Alive(storage) ? BaseOf(*StorageOf(storage)) : 0;
  }
  size_t Hold(std::span<const engine::StoragePlace> storages) override {
    size_t held = 0;
    for (const engine::StoragePlace& place : storages) {
      c10::StorageImpl* storage = StorageOf(place.storage);
      if (BaseOf(*storage) != place.base ||
          !StrongReference::TryAdd(*storage)) {
        break;
      }
      ++held;
    }
    return held;
  }
  void Drop(std::span<const engine::StoragePlace> storages) override {
    for (const engine::StoragePlace& place : storages) {
      c10::raw::intrusive_ptr::decref(StorageOf(place.storage));
    }
  }

 private:
  static c10::StorageImpl* StorageOf(engine::StorageToken token) {
    return const_cast<c10::StorageImpl*>(
        static_cast<const c10::StorageImpl*>(token));
  }

  const OpNames op_names_;
};

// Memory that goes back to the system when it is released.
struct Pages {
  void* address;
  size_t size_bytes;
};

void ReleasePages(void* context) {
  const std::unique_ptr<Pages> pages(static_cast<Pages*>(context));
  munmap(pages->address, pages->size_bytes);
}

base::Result<engine::Block> AllocatePages(size_t size_bytes) {
  void* address = mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) {
    return base::Fail(base::Code::kResourceExhausted,
                      "the host has no " + std::to_string(size_bytes) +
                          " bytes of memory left");
  }
  return engine::Block(reinterpret_cast<uint64_t>(address),
                       new Pages{address, size_bytes}, &ReleasePages);
}

at::CPUGeneratorImpl& DefaultHostGenerator() {
  return *static_cast<at::CPUGeneratorImpl*>(
      at::detail::getDefaultCPUGenerator().unsafeGetGeneratorImpl());
}

class HostFrontend final : public TorchFrontend {
 public:
  using TorchFrontend::TorchFrontend;

  // A heap would keep the memory of plans that come and go, each a little
  // larger than the last one, wherever something small lies between them.
  static constexpr size_t kFewestPageBytes = size_t{128} << 10;

  base::Result<engine::Block> Allocate(size_t size_bytes) override {
    if (size_bytes >= kFewestPageBytes) return AllocatePages(size_bytes);
    try {
      c10::DataPtr data =
          c10::GetCPUAllocator()->allocate(std::max<size_t>(size_bytes, 1));
      const auto address = reinterpret_cast<uint64_t>(data.get());
      const c10::DeleterFnPtr release = data.get_deleter();
      return engine::Block(address, data.release_context(), release);
    } catch (const std::exception& error) {
      // The host's allocator reports a lack of memory as a plain error.
      return base::Fail(base::Code::kResourceExhausted, FirstLine(error));
    }
  }

  // The host executor learns nothing from addresses.
  base::Status BeginPrivatePool(uint64_t) override { return {}; }
  void EndPrivatePool() override {}
  void BeginAllocations() override {}
  std::vector<engine::Allocation> TakeAllocations() override { return {}; }

  // Two words of the Mersenne Twister's block stand for all of it: its 624
  // words change together when it is used up, in between the position moves.
  // Copying the engine out, as torch offers nothing less, costs 0.1 us.
  engine::GeneratorState Generator() const override {
    at::CPUGeneratorImpl& impl = DefaultHostGenerator();
    std::lock_guard lock(impl.mutex_);
    const at::mt19937_data_pod engine = impl.engine().data();
    uint64_t hash = Mix(0, engine.seed_);
    hash =
        Mix(hash, (static_cast<uint64_t>(engine.left_) << 32) | engine.next_);
    hash = Mix(hash, (static_cast<uint64_t>(engine.state_.front()) << 32) |
                         engine.state_.back());
    // A normal sample that was drawn in a pair and is kept for the next call.
    if (auto sample = impl.next_float_normal_sample()) {
      hash = Mix(hash, (uint64_t{1} << 32) | std::bit_cast<uint32_t>(*sample));
    }
    if (auto sample = impl.next_double_normal_sample()) {
      hash = Mix(Mix(hash, 2), std::bit_cast<uint64_t>(*sample));
    }
    return {.seed = hash};
  }
  // Only running an op moves it.
  bool MoveGenerator(const engine::GeneratorState&,
                     const engine::GeneratorState&) override {
    return false;
  }
  std::unique_ptr<engine::KeptGenerator> KeepGenerator() override {
    return std::make_unique<KeptGenerator>(
        at::detail::getDefaultCPUGenerator());
  }

  bool OwnsAddress(uint64_t) const override { return false; }
};

class CudaFrontend final : public TorchFrontend {
 public:
  CudaFrontend(const scheduler::StreamKey& key, AllocatorTrace* trace,
               OpNames op_names)
      : TorchFrontend(op_names),
        device_(static_cast<c10::DeviceIndex>(key.device)),
        stream_(static_cast<cudaStream_t>(key.stream)),
        trace_(trace),
        pool_(device_, stream_, trace) {}

  base::Result<engine::Block> Allocate(size_t size_bytes) override {
    return AllocateFromTorch(device_, stream_, size_bytes);
  }

  engine::KeepMemory keep_memory() const override { return &KeepMemory; }

  base::Status BeginPrivatePool(uint64_t bytes) override {
    return pool_.Open(bytes);
  }
  void EndPrivatePool() override { pool_.Close(); }

  void BeginAllocations() override { AllocatorTrace::Begin(); }
  std::vector<engine::Allocation> TakeAllocations() override {
    return AllocatorTrace::Take();
  }

  // Seed and Philox offset: every use moves the offset, and seeding sets both.
  // 0.1 us.
  engine::GeneratorState Generator() const override {
    at::CUDAGeneratorImpl& impl = DefaultGenerator();
    std::lock_guard lock(impl.mutex_);
    return StateOf(impl);
  }
  // Setting the offset in any other way has cuDNN draw a new dropout state.
  bool MoveGenerator(const engine::GeneratorState& from,
                     const engine::GeneratorState& to) override {
    at::CUDAGeneratorImpl& impl = DefaultGenerator();
    std::lock_guard lock(impl.mutex_);
    if (StateOf(impl) != from) return false;
    impl.set_philox_offset_per_thread(to.offset);
    return true;
  }
  std::unique_ptr<engine::KeptGenerator> KeepGenerator() override {
    return nullptr;
  }

  bool OwnsAddress(uint64_t address) const override {
    return trace_->Owns(address);
  }
  uint64_t memory_returned() const override {
    return trace_->segments_returned();
  }
  base::Result<std::shared_ptr<engine::MemoryWatch>> WatchMemory() override {
    try {
      return trace_->WatchMemory();
    } catch (const std::exception& error) {
      return base::Fail(
          base::Code::kUnavailable,
          std::string("torch cannot list its memory: ") + error.what());
    }
  }
  engine::LibraryFrees* library_frees() override { return &CufftFrees(); }
  bool LibraryIsFull() override { return CufftCacheIsFull(device_); }

 private:
  at::CUDAGeneratorImpl& DefaultGenerator() const {
    return *static_cast<at::CUDAGeneratorImpl*>(
        at::cuda::detail::getDefaultCUDAGenerator(device_)
            .unsafeGetGeneratorImpl());
  }
  static engine::GeneratorState StateOf(const at::CUDAGeneratorImpl& impl) {
    const uint64_t offset = impl.philox_offset_per_thread();
    try {
      return {.seed = impl.current_seed(), .offset = offset};
    } catch (const std::exception&) {
      // Some versions hide it while a stream captures, when nobody is told.
      return {.offset = offset};
    }
  }

  // Torch puts the end of what a tensor was used for off, too, while a stream
  // is captured. In the context of the memory's device.
  static void KeepMemory(uint64_t address, CUstream stream) {
    try {
      const c10::DeviceIndex device = c10::cuda::current_device();
      void* const memory = reinterpret_cast<void*>(address);
      // Owns nothing.
      const c10::DataPtr data(memory, nullptr, allocator::get()->raw_deleter(),
                              c10::Device(c10::kCUDA, device));
      allocator::get()->recordStream(
          data, c10::cuda::getStreamFromExternal(stream, device));
    } catch (const std::exception& error) {
      base::Log(base::LogLevel::kWarning, error.what());
    }
  }

  const c10::DeviceIndex device_;
  const cudaStream_t stream_;
  AllocatorTrace* const trace_;
  PrivatePool pool_;
};

}  // namespace

bool IsLent(engine::Block::Release release) {
  return engine::Ledger::IsLease(release) || release == &ReleasePages;
}

base::Status PrepareFrontends(scheduler::DeviceKind kind) {
  if (kind == scheduler::DeviceKind::kHost) return {};
  if (c10::cuda::device_count() == 0) {
    return base::Fail(base::Code::kUnavailable,
                      "torch finds no CUDA device (no GPU, or no driver that "
                      "fits); device='cpu' selects the host executor");
  }
  return AllocatorTrace::Get().map([](AllocatorTrace*) {});
}

std::unique_ptr<engine::Frontend> MakeFrontend(const scheduler::StreamKey& key,
                                               OpNames op_names) {
  if (key.kind == scheduler::DeviceKind::kHost) {
    return std::make_unique<HostFrontend>(op_names);
  }
  auto trace = AllocatorTrace::Get();
  if (!trace) return nullptr;
  return std::make_unique<CudaFrontend>(key, *trace, op_names);
}

}  // namespace reprise::bindings
