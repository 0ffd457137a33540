// What a hook costs an op of two tensors: never registered, registered but off,
// watched, and followed. The kernel of `add` does nothing here, so that what is
// left is the dispatcher and the hook. Benchmarks run in the order of this
// file: hooks cannot be taken away again.

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
  TrivialSession(Action action, at::Device device)
      : action_(action), memory_(at::empty({64}, device)) {
    op_.results.resize(1);
    engine::ResultSpec& result = op_.results[0];
    result.kind = engine::ResultSpec::Kind::kValue;
    result.storage_bytes = 64;
    result.element_bytes = 4;
    result.dtype = static_cast<int32_t>(at::kFloat);
    result.key_set = memory_.key_set().raw_repr();
    result.sizes = {4, 4};
    result.strides = {4, 1};
  }

  void Lock() override {}
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
    return engine::Block(reinterpret_cast<uint64_t>(memory_.const_data_ptr()),
                         nullptr, [](void*) {});
  }

 private:
  const Action action_;
  engine::TracedOp op_;
  at::Tensor memory_;
};

TrivialSession* g_session = nullptr;
scheduler::DeviceKind g_kind = scheduler::DeviceKind::kHost;

template <c10::DeviceType kDevice>
at::Tensor DoNothing(const at::Tensor&, const at::Tensor&, const at::Scalar&) {
  static const at::Tensor result = at::zeros({4, 4}, kDevice);
  return result;
}

// What a benchmark's argument says; false where this machine has no GPU.
bool PickDevice(benchmark::State& state, at::Device& device) {
  if (state.range(0) == 0) {
    device = at::kCPU;
    return true;
  }
  if (!at::hasCUDA()) {
    state.SkipWithError("no GPU here");
    return false;
  }
  device = at::Device(at::kCUDA, 0);
  return true;
}

void RunAdd(benchmark::State& state, at::Device device) {
  const c10::InferenceMode inference;
  const at::Tensor a = at::zeros({4, 4}, device), b = at::zeros({4, 4}, device);
  for (auto _ : state) benchmark::DoNotOptimize(at::add(a, b));
}

void BM_Add_NeverHooked(benchmark::State& state) {
  at::Device device(at::kCPU);
  if (PickDevice(state, device)) RunAdd(state, device);
}

void BM_Add_Off(benchmark::State& state) {
  RegisterHooksOnce();
  BM_Add_NeverHooked(state);
}

// While a runtime of the other kind is active.
void BM_Add_NotConcerned(benchmark::State& state) {
  g_watching = true;
  BM_Add_NeverHooked(state);
  g_watching = false;
}

void RunWith(benchmark::State& state, Action action) {
  RegisterHooksOnce();
  at::Device device(at::kCPU);
  if (!PickDevice(state, device)) return;
  TrivialSession session(action, device);
  g_session = &session;
  g_kind = device.is_cuda() ? scheduler::DeviceKind::kCuda
                            : scheduler::DeviceKind::kHost;
  ++g_runtime_epoch;
  g_watching = true;
  RunAdd(state, device);
  g_watching = false;
  g_session = nullptr;
  ++g_runtime_epoch;
}

void BM_Add_Eager(benchmark::State& state) { RunWith(state, Action::kEager); }
void BM_Add_Watched(benchmark::State& state) {
  RunWith(state, Action::kObserve);
}
void BM_Add_Followed(benchmark::State& state) {
  RunWith(state, Action::kFollow);
}

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

BENCHMARK(BM_Add_NeverHooked)->ArgName("cuda")->Arg(0)->Arg(1);
BENCHMARK(BM_Add_Off)->ArgName("cuda")->Arg(0)->Arg(1);
BENCHMARK(BM_Add_NotConcerned)->ArgName("cuda")->Arg(0)->Arg(1);
BENCHMARK(BM_Add_Eager)->ArgName("cuda")->Arg(0)->Arg(1);
BENCHMARK(BM_Add_Watched)->ArgName("cuda")->Arg(0)->Arg(1);
BENCHMARK(BM_Add_Followed)->ArgName("cuda")->Arg(0)->Arg(1);
BENCHMARK(BM_Tensor_Make);

TORCH_LIBRARY_IMPL(aten, CPU, m) { m.impl("add.Tensor", DoNothing<c10::kCPU>); }
TORCH_LIBRARY_IMPL(aten, CUDA, m) {
  m.impl("add.Tensor", DoNothing<c10::kCUDA>);
}

}  // namespace

std::optional<scheduler::DeviceKind> WatchedKind() {
  if (g_session == nullptr) return std::nullopt;
  return g_kind;
}

scheduler::Session* SessionFor(c10::Device, void*) { return g_session; }

}  // namespace reprise::bindings
