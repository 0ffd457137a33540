// A framework of one page: float tensors on the host whose ops pass through a
// Session as torch's do. For tests of all that lies above the device.

#ifndef REPRISE_TESTS_SIM_MODEL_FRONTEND_H_
#define REPRISE_TESTS_SIM_MODEL_FRONTEND_H_

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/trace/frontend.h"
#include "engine/trace/op.h"
#include "scheduler/session.h"

namespace reprise::sim {

// A storage: memory with its owner, alive while a tensor holds it, its address
// not used again while anybody retains it.
class ModelStorage {
 public:
  ModelStorage(engine::Block block, size_t elements)
      : block_(std::move(block)),
        address_(block_.address()),
        elements_(elements) {}

  float* data() const { return reinterpret_cast<float*>(address_.load()); }
  size_t elements() const { return elements_; }

 private:
  friend class ModelFrontend;
  friend class ModelTensor;
  friend class ModelProgram;

  void Ref() { ++strong_; }
  bool RefIfAlive() {
    int strong = strong_;
    while (strong > 0) {
      if (strong_.compare_exchange_weak(strong, strong + 1)) return true;
    }
    return false;
  }
  void Unref() {
    if (--strong_ > 0) return;
    SetBlock(engine::Block());
    UnrefWeakly();
  }
  void UnrefWeakly() {
    if (--weak_ == 0) delete this;
  }
  void SetBlock(engine::Block block) {
    address_ = block.address();
    block_ = std::move(block);
  }

  engine::Block block_;
  // The block's. Atomic: any thread may ask where the storage is now.
  std::atomic<uint64_t> address_;
  size_t elements_;
  // Atomic: weak references end on any thread.
  std::atomic<int> strong_{0};
  std::atomic<int> weak_{1};  // and one for all that are strong
};

class ModelTensor {
 public:
  ModelTensor() = default;
  explicit ModelTensor(ModelStorage* storage) : storage_(storage) {
    storage_->Ref();
  }
  ModelTensor(const ModelTensor& other) : storage_(other.storage_) {
    if (storage_ != nullptr) storage_->Ref();
  }
  ModelTensor(ModelTensor&& other) noexcept
      : storage_(std::exchange(other.storage_, nullptr)) {}
  ModelTensor& operator=(ModelTensor other) noexcept {
    std::swap(storage_, other.storage_);
    return *this;
  }
  ~ModelTensor() {
    if (storage_ != nullptr) storage_->Unref();
  }

  ModelStorage* storage() const { return storage_; }
  std::vector<float> values() const {
    return {storage_->data(), storage_->data() + storage_->elements()};
  }

 private:
  ModelStorage* storage_ = nullptr;
};

enum class ModelOp : engine::OpId {
  kAdd = 1,     // out = a + b
  kScale = 2,   // out = a * attribute
  kNegate = 3,  // in place: a = -a
  kMix = 4,     // in place: a = a * 0.5 + b
  kRead = 5,    // a cut: the host looks
  kRandom = 6,  // out = a + next random number
  kRaise = 7,   // raises if the attribute is 1
  // Nondeterministic: each run is off by another multiple of the attribute's
  // share.
  kSum = 8,      // out = a + b
  kSumInto = 9,  // in place: a = a + b
};

class ModelFrontend : public engine::Frontend {
 public:
  std::string OpName(engine::OpId op) const override {
    static const char* const kNames[] = {"?",    "add",  "scale",  "negate_",
                                         "mix_", "read", "random", "raise",
                                         "sum",  "sum_"};
    return std::string("model::") + kNames[op];
  }
  bool MayBeNondeterministic(engine::OpId) const override {
    return may_be_nondeterministic;
  }
  kernels::Element ElementOf(int32_t) const override {
    return kernels::Element::kFloat32;
  }
  void Retain(engine::StorageToken token) override { ++Of(token)->weak_; }
  void Release(engine::StorageToken token) override {
    Of(token)->UnrefWeakly();
  }
  bool Alive(engine::StorageToken token) const override {
    return Of(token)->strong_ > 0;
  }
  uint64_t Base(engine::StorageToken token) const override {
    return Of(token)->address_;
  }
  size_t Hold(std::span<const engine::StoragePlace> storages) override {
    size_t held = 0;
    for (const engine::StoragePlace& place : storages) {
      ModelStorage* storage = Of(place.storage);
      if (Base(storage) != place.base || !storage->RefIfAlive()) break;
      ++held;
    }
    return held;
  }
  void Drop(std::span<const engine::StoragePlace> storages) override {
    if (on_drop) on_drop();
    for (const engine::StoragePlace& place : storages) {
      Of(place.storage)->Unref();
    }
  }
  base::Result<engine::Block> Allocate(size_t size_bytes) override {
    if (fail_allocations || (on_allocate && !on_allocate())) {
      return base::Fail(base::Code::kResourceExhausted, "told to fail");
    }
    if (takes_pages_away) return AllocatePages(size_bytes);
    void* memory = std::aligned_alloc(64, (size_bytes / 64 + 1) * 64);
    std::memset(memory, 0xA5, size_bytes);
    return engine::Block(reinterpret_cast<uint64_t>(memory), memory,
                         &std::free);
  }
  base::Status BeginPrivatePool(uint64_t) override { return {}; }
  void EndPrivatePool() override {}
  void BeginAllocations() override {}
  std::vector<engine::Allocation> TakeAllocations() override { return {}; }
  engine::GeneratorState Generator() const override {
    return {.seed = random_draws};
  }
  bool MoveGenerator(const engine::GeneratorState&,
                     const engine::GeneratorState&) override {
    return false;
  }
  std::unique_ptr<engine::KeptGenerator> KeepGenerator() override;
  bool OwnsAddress(uint64_t) const override { return true; }

  // Moves a storage's memory elsewhere, its values with it.
  void Move(const ModelTensor& tensor) {
    ModelStorage* storage = tensor.storage();
    const size_t size_bytes = storage->elements() * sizeof(float);
    engine::Block block = *Allocate(size_bytes);
    std::memcpy(reinterpret_cast<void*>(block.address()), storage->data(),
                size_bytes);
    storage->SetBlock(std::move(block));
  }

  // What is allocated from now on has pages of its own, and once it is freed,
  // to touch it ends the process.
  bool takes_pages_away = false;
  std::function<void()> on_drop;
  bool fail_allocations = false;
  std::function<bool()> on_allocate;  // false: it fails
  bool may_be_nondeterministic = true;
  // This op raises, or warns, whoever runs it; eager counts warnings.
  std::optional<ModelOp> raises;
  std::optional<ModelOp> warns;
  int warnings = 0;
  float NextRandom() { return static_cast<float>(++random_draws); }
  uint64_t random_draws = 0;

 private:
  static base::Result<engine::Block> AllocatePages(size_t size_bytes);
  static ModelStorage* Of(engine::StorageToken token) {
    return const_cast<ModelStorage*>(static_cast<const ModelStorage*>(token));
  }
};

// Runs ops through a session, or plainly when it has none.
class ModelProgram {
 public:
  static constexpr size_t kElements = 16;  // unless said otherwise

  ModelProgram(ModelFrontend* frontend, scheduler::Session* session)
      : frontend_(frontend), session_(session) {}

  ModelTensor Make(float seed, size_t elements = kElements);
  ModelTensor Add(const ModelTensor& a, const ModelTensor& b) {
    return Run(ModelOp::kAdd, {a, b}, 0);
  }
  ModelTensor Scale(const ModelTensor& a, float factor) {
    return Run(ModelOp::kScale, {a}, factor);
  }
  void Negate(const ModelTensor& a) { Run(ModelOp::kNegate, {a}, 0); }
  void Mix(const ModelTensor& a, const ModelTensor& b) {
    Run(ModelOp::kMix, {a, b}, 0);
  }
  // Off by multiples of such a share.
  ModelTensor Sum(const ModelTensor& a, const ModelTensor& b, float share) {
    return Run(ModelOp::kSum, {a, b}, share);
  }
  void SumInto(const ModelTensor& a, const ModelTensor& b, float share) {
    Run(ModelOp::kSumInto, {a, b}, share);
  }
  void Read(const ModelTensor& a) { Run(ModelOp::kRead, {a}, 0); }
  ModelTensor Random(const ModelTensor& a) {
    return Run(ModelOp::kRandom, {a}, 0);
  }
  // Throws std::runtime_error if `raise` is set.
  void MayRaise(const ModelTensor& a, bool raise) {
    Run(ModelOp::kRaise, {a}, raise ? 1.0f : 0.0f);
  }

  ModelTensor Run(ModelOp op, std::vector<ModelTensor> inputs, float attribute);

  // Ops that may try out kernels, if any do.
  std::optional<ModelOp> tries_kernels;

  // Tells sessions of other streams. Must be there where the session has any.
  std::function<void(const engine::OpView&)> before_op;

  // Ops whose results the session wanted to see.
  int observed() const { return observed_; }
  // Ops that a replay answered.
  int followed() const { return followed_; }

 private:
  ModelTensor Eager(ModelOp op, const std::vector<ModelTensor>& inputs,
                    float attribute);

  ModelFrontend* frontend_;
  scheduler::Session* session_;
  int observed_ = 0;
  int followed_ = 0;
};

// While false, the ops that give other bits each time repeat theirs.
inline std::atomic<bool> g_sums_vary{true};

// What the op computes; `out` is null for ops in place.
void Compute(ModelOp op, std::span<float* const> inputs, float attribute,
             float* out, size_t elements);

}  // namespace reprise::sim

#endif  // REPRISE_TESTS_SIM_MODEL_FRONTEND_H_
