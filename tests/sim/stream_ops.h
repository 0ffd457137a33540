// A framework on the simulated device: tensors, storages, and ops that pass
// through a Session as torch's do.

#ifndef REPRISE_TESTS_SIM_STREAM_OPS_H_
#define REPRISE_TESTS_SIM_STREAM_OPS_H_

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/mutex.h"
#include "engine/trace/frontend.h"
#include "engine/trace/op.h"
#include "scheduler/ops_under_way.h"
#include "scheduler/session.h"
#include "tests/sim/failing_calls.h"
#include "tests/sim/fault.h"
#include "tests/sim/model_ops.h"
#include "tests/sim/simulated_gpu.h"
#include "tests/sim/simulated_memory.h"

namespace reprise::sim {

// Memory with its owner. Its address names it while anybody holds it, weakly or
// not; afterwards the next storage has it.
class StreamStorage {
 public:
  // Tokens are used again in the same way at each run, whatever the heap has
  // been through.
  static void* operator new(size_t size);
  static void operator delete(void* storage, size_t size);

  StreamStorage(engine::Block block, size_t size_bytes)
      : block_(std::move(block)), size_bytes_(size_bytes) {}

  uint64_t base() const { return block_.address(); }
  size_t size_bytes() const { return size_bytes_; }
  int uses() const { return strong_; }
  // Other memory, under the same name, though somebody may hold it weakly.
  void Revive(engine::Block block, size_t size_bytes) {
    block_ = std::move(block);
    size_bytes_ = size_bytes;
  }

  void Ref() { ++strong_; }
  void Unref() {
    if (--strong_ > 0) return;
    block_ = engine::Block();
    if (weak_ == 0) delete this;
  }
  void RefWeakly() { ++weak_; }
  void UnrefWeakly() {
    if (--weak_ == 0 && strong_ == 0) delete this;
  }

 private:
  engine::Block block_;
  size_t size_bytes_;
  int strong_ = 0;
  int weak_ = 0;
};

class StreamTensor {
 public:
  StreamTensor(StreamStorage* storage, size_t offset, size_t length)
      : storage_(storage), offset_(offset), length_(length) {
    storage_->Ref();
  }
  StreamTensor(const StreamTensor& other)
      : StreamTensor(other.storage_, other.offset_, other.length_) {}
  StreamTensor& operator=(StreamTensor other) {
    std::swap(storage_, other.storage_);
    std::swap(offset_, other.offset_);
    std::swap(length_, other.length_);
    return *this;
  }
  ~StreamTensor() { storage_->Unref(); }

  StreamStorage* storage() const { return storage_; }
  size_t length() const { return length_; }  // in words
  size_t offset() const { return offset_; }  // in words
  uint64_t address() const { return storage_->base() + 4 * offset_; }
  long uses() const { return storage_->uses(); }
  StreamTensor Part(size_t offset, size_t length) const {
    return StreamTensor(storage_, offset_ + offset, length);
  }
  bool SameStorage(const StreamTensor& other) const {
    return storage_ == other.storage_;
  }
  bool operator==(const StreamTensor&) const = default;

 private:
  StreamStorage* storage_;
  size_t offset_;
  size_t length_;
};

// The framework as a session sees it, and the allocator of its stream.
class StreamFrontend : public engine::Frontend {
 public:
  StreamFrontend(SimulatedGpu* gpu, SimulatedMemory* memory, CUstream stream,
                 Fault fault);
  ~StreamFrontend() override { ClearWorkspace(); }

  std::string OpName(engine::OpId op) const override;
  bool MayRunBeside(engine::OpId) const override { return true; }
  void Retain(engine::StorageToken token) override { Of(token)->RefWeakly(); }
  void Release(engine::StorageToken token) override {
    Of(token)->UnrefWeakly();
  }
  bool Alive(engine::StorageToken token) const override;
  uint64_t Base(engine::StorageToken token) const override;
  size_t Hold(std::span<const engine::StoragePlace> storages) override;
  void Drop(std::span<const engine::StoragePlace> storages) override;
  base::Result<engine::Block> Allocate(size_t size_bytes) override;
  base::Status BeginPrivatePool(uint64_t bytes) override;
  void EndPrivatePool() override { pool_ = own_pool_; }
  void BeginAllocations() override { noted_.emplace(); }
  std::vector<engine::Allocation> TakeAllocations() override;
  engine::GeneratorState Generator() const override { return generator->state; }
  bool MoveGenerator(const engine::GeneratorState& from,
                     const engine::GeneratorState& to) override;
  std::unique_ptr<engine::KeptGenerator> KeepGenerator() override;
  bool OwnsAddress(uint64_t address) const override {
    return memory_->Owns(address);
  }

  base::Result<std::shared_ptr<engine::MemoryWatch>> WatchMemory() override;

  // For ops: poisoned in stream order.
  uint64_t AllocateForOp(size_t size_bytes);
  engine::Block Adopt(uint64_t address);
  // Memory that a library keeps from the first op on that needs it; the program
  // may tell it to give that back.
  uint64_t Workspace();
  void ClearWorkspace();

  ModelGenerator* generator = nullptr;  // the stream's
  bool calls_draw = false;              // recorded work uses it (host executor)
  uint32_t brought = 0;

 private:
  static StreamStorage* Of(engine::StorageToken token) {
    return const_cast<StreamStorage*>(static_cast<const StreamStorage*>(token));
  }

  SimulatedGpu* gpu_;
  SimulatedMemory* memory_;
  CUstream stream_;
  Fault fault_;
  SimulatedMemory::Pool own_pool_;
  SimulatedMemory::Pool pool_;
  std::optional<std::vector<engine::Allocation>> noted_;
  uint64_t workspace_ = 0;   // none
  uint64_t lent_twice_ = 0;  // planted
};

// The device's kernels; outlives all launches.
struct ModelKernels {
  SimulatedGpu::Kernel scale = SimulatedGpu::MakeKernel(&DoScale);
  SimulatedGpu::Kernel draw = SimulatedGpu::MakeKernel(&DoDraw);
  SimulatedGpu::Kernel each = SimulatedGpu::MakeKernel(&DoEach);
  SimulatedGpu::Kernel combine = SimulatedGpu::MakeKernel(&DoCombine);
  SimulatedGpu::Kernel fold = SimulatedGpu::MakeKernel(&DoFold);
};

// Runs ops through `session`, all borrowed. See Interpreter.
class StreamOps {
 public:
  using Tensor = StreamTensor;

  struct Parts {
    SimulatedGpu* gpu;
    const ModelKernels* kernels;
    SimulatedMemory* memory;
    FailingCalls* host_calls;
    StreamFrontend* frontend;
    scheduler::Session* session;
    CUstream stream;
    Fault fault;
    // See Interrupts::BeforeOp and Runtime::BeforeMemoryGoes.
    std::function<void(scheduler::Session*, const engine::OpView&, bool waits)>
        before_op;
    std::function<void()> before_memory_goes;
    StreamOps* aside = nullptr;  // on another stream
    // Of another thread that issues ops to the same stream.
    scheduler::OpsUnderWay::Slot* other_thread = nullptr;
  };
  explicit StreamOps(const Parts& parts) : parts_(parts) {}

  // From now on ops go through that one, on the same stream.
  void Use(StreamFrontend* frontend, scheduler::Session* session) {
    if (parts_.frontend != nullptr) {
      frontend->brought = parts_.frontend->brought;
    }
    frontend->generator = &generator;
    parts_.frontend = frontend;
    parts_.session = session;
  }
  // Of ops that are due, so many in a hundred are not shown, where they need
  // not be: as by who has made them before.
  uint32_t foretold_percent = 0;
  // While it is false no op is shown, as when a binding's hooks are off.
  bool shows = true;
  ModelGenerator generator;

  Tensor New(size_t length);
  std::vector<Tensor> Run(OpKind kind, const std::vector<Tensor>& inputs,
                          uint32_t attribute);
  std::vector<Tensor> RunAside(OpKind kind, const std::vector<Tensor>& inputs,
                               uint32_t attribute) {
    return parts_.aside->Run(kind, inputs, attribute);
  }
  // An op of another thread is entered (or runs unshown), and its work comes
  // later, by what is returned. It is the thread's only op until then.
  std::function<void()> Begin(OpKind kind, const std::vector<Tensor>& inputs,
                              uint32_t attribute,
                              bool shown) REPRISE_NO_THREAD_SAFETY_ANALYSIS;
  // NewAt takes the address if it is free.
  struct Place {
    uint64_t address;
    StreamStorage* storage;  // planted: held weakly, to be given out again
  };
  Place PlaceOf(const Tensor& tensor) const {
    const bool again = parts_.fault == Fault::kTokenUsedAgain;
    if (again) tensor.storage()->RefWeakly();
    return {tensor.storage()->base(), again ? tensor.storage() : nullptr};
  }
  Tensor NewAt(const Place& place, size_t length, uint32_t attribute);
  // `view` stands in for `original` from now on.
  void Alias(const Tensor& original, const Tensor& view) {
    if (parts_.fault == Fault::kOverlapUntold) {
      aliases_.emplace_back(view, original);
    }
  }
  uint64_t ops() const { return ops_; }
  // Its session is told of it before, as of all that a binding observes.
  void WriteForeign(const Tensor& tensor, uint32_t attribute);

 private:
  struct Shown;  // an op as a session is shown it

  std::vector<Tensor> Eager(OpKind kind, const std::vector<Tensor>& inputs,
                            uint32_t attribute);
  // Under the session's lock, which has no name here.
  std::vector<Tensor> Followed(const std::vector<Tensor>& inputs,
                               const engine::TracedOp& op)
      REPRISE_NO_THREAD_SAFETY_ANALYSIS;
  // It is to be followed unseen, if it can be.
  bool Foretells(const Shown& shown) const;
  // The same: the program whose op it is, if that was followed unseen.
  std::shared_ptr<const engine::Program> Foretell(const Shown& shown)
      REPRISE_NO_THREAD_SAFETY_ANALYSIS;
  void Leave(const Shown& shown, OpKind kind,
             const std::vector<Tensor>& results,
             std::unique_ptr<engine::Call> call);

  Parts parts_;
  // As they are told of to the session: planted faults.
  std::vector<Tensor> Told(const std::vector<Tensor>& inputs) const;

  std::vector<std::pair<Tensor, Tensor>> aliases_;
  uint64_t ops_ = 0;
  uint32_t eager_ops_ = 0;
};

}  // namespace reprise::sim

#endif  // REPRISE_TESTS_SIM_STREAM_OPS_H_
