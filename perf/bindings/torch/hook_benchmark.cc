// What a hook costs an op of two tensors: never registered, registered but off,
// watched, and followed. The kernel of `add` does nothing here, so that what is
// left is the dispatcher and the hook. Benchmarks run in the order of this file:
// hooks cannot be taken away again.

#include <ATen/ATen.h>
#include <benchmark/benchmark.h>
#include <c10/core/InferenceMode.h>
#include <torch/library.h>

#include <vector>

#include "bindings/torch/register_hooks.h"
#include "bindings/torch/session_source.h"
#include "bindings/torch/torch_runtime.h"

namespace reprise::bindings {

// In place of torch_runtime.cc and session_source.cc.
constinit std::atomic<bool> g_watching{false};
constinit std::atomic<uint64_t> g_runtime_epoch{0};

namespace {

using scheduler::Action;

// Answers every op in the same way.
class TrivialSession final : public scheduler::Session {
 public:
  explicit TrivialSession(Action action) : action_(action) {
    memory_.resize(4096);
    op_.results.resize(1);
    engine::ResultSpec& result = op_.results[0];
    result.kind = engine::ResultSpec::Kind::kValue;
    result.storage_bytes = 64;
    result.element_bytes = 4;
    result.dtype = static_cast<int32_t>(at::kFloat);
    result.key_set = c10::DispatchKeySet(c10::DispatchKey::CPU).raw_repr();
    result.sizes = {4, 4};
    result.strides = {4, 1};
  }

  bool Lock() override { return true; }
  void Unlock() override {}
  Action Enter(const engine::OpView& op) override {
    benchmark::DoNotOptimize(op.words.data());
    return action_;
  }
  bool wants_call() const override { return false; }
  void GiveCall(std::unique_ptr<engine::Call>) override {}
  void Leave(const engine::OpView&,
             std::span<const engine::ResultView> results) override {
    benchmark::DoNotOptimize(results.data());
  }
  void Abandon(const engine::OpView&) override {}
  const engine::TracedOp& followed() const override { return op_; }
  engine::Block TakeBlock(engine::ValueId) override {
    return engine::Block(reinterpret_cast<uint64_t>(memory_.data()), nullptr,
                         [](void*) {});
  }

 private:
  const Action action_;
  engine::TracedOp op_;
  std::vector<char> memory_;
};

TrivialSession* g_session = nullptr;

at::Tensor DoNothing(const at::Tensor&, const at::Tensor&, const at::Scalar&) {
  static const at::Tensor result = at::zeros({4, 4});
  return result;
}

void RunAdd(benchmark::State& state) {
  const c10::InferenceMode inference;
  const at::Tensor a = at::rand({4, 4}), b = at::rand({4, 4});
  for (auto _ : state) benchmark::DoNotOptimize(at::add(a, b));
}

void BM_Add_NeverHooked(benchmark::State& state) { RunAdd(state); }
BENCHMARK(BM_Add_NeverHooked);

void BM_Add_Off(benchmark::State& state) {
  RegisterHooksOnce();
  RunAdd(state);
}
BENCHMARK(BM_Add_Off);

void BM_Add_OnWithoutRuntime(benchmark::State& state) {
  g_watching = true;
  RunAdd(state);
  g_watching = false;
}
BENCHMARK(BM_Add_OnWithoutRuntime);

void RunWith(benchmark::State& state, Action action) {
  RegisterHooksOnce();
  TrivialSession session(action);
  g_session = &session;
  ++g_runtime_epoch;
  g_watching = true;
  RunAdd(state);
  g_watching = false;
  g_session = nullptr;
  ++g_runtime_epoch;
}

void BM_Add_Eager(benchmark::State& state) { RunWith(state, Action::kEager); }
BENCHMARK(BM_Add_Eager);

void BM_Add_Watched(benchmark::State& state) {
  RunWith(state, Action::kObserve);
}
BENCHMARK(BM_Add_Watched);

void BM_Add_Followed(benchmark::State& state) {
  RunWith(state, Action::kFollow);
}
BENCHMARK(BM_Add_Followed);

// What of following is the making of the tensor.
void BM_Tensor_Make(benchmark::State& state) {
  const c10::InferenceMode inference;
  std::vector<char> memory(4096);
  for (auto _ : state) {
    c10::Storage storage(c10::Storage::use_byte_size_t(), 64,
                         c10::DataPtr(memory.data(), c10::Device(c10::kCPU)),
                         nullptr, false);
    at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
        std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU),
        c10::scalarTypeToTypeMeta(at::kFloat));
    tensor.unsafeGetTensorImpl()->set_sizes_and_strides(
        at::IntArrayRef({4, 4}), at::IntArrayRef({4, 1}));
    benchmark::DoNotOptimize(tensor);
  }
}
BENCHMARK(BM_Tensor_Make);

TORCH_LIBRARY_IMPL(aten, CPU, m) { m.impl("add.Tensor", DoNothing); }

}  // namespace

std::optional<scheduler::DeviceKind> WatchedKind() {
  if (g_session == nullptr) return std::nullopt;
  return scheduler::DeviceKind::kHost;
}

scheduler::Session* SessionFor(c10::Device, void*) { return g_session; }

}  // namespace reprise::bindings
