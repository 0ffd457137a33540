// What Reprise costs an op of two tensors, in C++: hooks never registered,
// registered but off, not concerned, watching a trace that is known, watching
// one that never comes again, recording and following, each
// with a real session. The kernel of `add` does nothing here, and the plan's
// executor launches nothing, so that what is left is the dispatcher, the hook
// and the session. A pass is a chain of kOps ops, so the costs of a head (a
// repetition, a look-up, a launch) are in, shared by its ops. Benchmarks run in
// the order of this file: hooks cannot be taken away again.

#include <ATen/ATen.h>
#include <benchmark/benchmark.h>
#include <c10/core/InferenceMode.h>
#include <torch/library.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bindings/torch/base/plain_tensor.h"
#include "bindings/torch/hook/register_hooks.h"
#include "bindings/torch/runtime/op_table.h"
#include "bindings/torch/runtime/runtime_epoch.h"
#include "bindings/torch/runtime/session_source.h"
#include "bindings/torch/runtime/torch_frontend.h"
#include "scheduler/stream_session.h"

namespace reprise::bindings {

// In place of session_source.cc.
namespace {

using scheduler::DeviceKind;

constexpr int kOps = 100;

class NoWork final : public engine::Executor {
 public:
  void Bind(engine::ValueId, uint64_t) override {}
  Fit SetScalars(uint32_t, std::span<const uint64_t>) override {
    return Fit::kBound;
  }
  void SetGenerator(uint32_t, const engine::GeneratorState&) override {}
  Progress LaunchSegment(size_t, uint32_t) override { return {}; }
  base::Status LaunchOp(size_t) override { return {}; }
  bool Touches(size_t, engine::ValueId) const override { return false; }
  base::Status Copy(uint64_t, uint64_t, const kernels::Layout&) override {
    return {};
  }
  base::Status CopyAll(std::span<const kernels::RangeCopy>) override {
    return {};
  }
  base::Status WaitFor(CUevent) override { return {}; }
  base::Status BeginComparing() override { return {}; }
  base::Status Compare(uint64_t, uint64_t, const kernels::Layout&, Alike,
                       uint32_t) override {
    return {};
  }
  base::Status EndComparing() override { return {}; }
  base::Result<std::optional<engine::Verdict>> Poll(Patience) override {
    return engine::Verdict{};
  }
};

// Builds plans that do nothing, or records nothing.
class EmptyBackend final : public engine::Backend {
 public:
  EmptyBackend(engine::Frontend* frontend, bool records)
      : frontend_(frontend), records_(records) {}

  base::Status StartRecording(Recording, uint64_t) override {
    if (records_) return {};
    return base::Fail(base::Code::kUnavailable, "this backend only watches");
  }
  void StopRecording() override {}
  base::Status BeginOp(const engine::OpView&) override { return {}; }
  std::string EndOp(engine::TracedOp&) override { return {}; }
  bool wants_call() const override { return false; }
  bool Capturing() const override { return false; }
  Explained Explain(std::shared_ptr<const engine::Trace> first,
                    const engine::Trace& again) override {
    auto program = std::make_shared<engine::Program>(std::move(first));
    const engine::Trace& trace = *program->trace;
    program->place_bytes.assign(trace.values.size(), kPlace);
    program->movable.assign(trace.values.size(), true);
    program->segments.push_back(
        {0, static_cast<uint32_t>(trace.ops.size()), kOps, false});
    program->effects = engine::Effects::Of(
        trace, again, engine::Effects::Remake::kWhatLasts, {});
    program->launches = kOps;
    return program;
  }
  base::Result<engine::InstanceParts> Instantiate(
      std::shared_ptr<const engine::Program> program,
      std::shared_ptr<engine::Ledger>) override {
    const std::vector<engine::Value>& values = program->trace->values;
    engine::InstanceParts parts;
    parts.arena = *frontend_->Allocate(kPlace * values.size());
    for (size_t v = 0; v < values.size(); ++v) {
      parts.places.push_back(
          values[v].external ? 0 : parts.arena.address() + kPlace * v);
    }
    parts.executor = std::make_unique<NoWork>();
    return parts;
  }

  base::Result<engine::Ledger::Handle> MakeArena(uint64_t size_bytes,
                                                 size_t values) override {
    REPRISE_ASSIGN_OR_RETURN(engine::Block arena,
                             frontend_->Allocate(size_bytes));
    return engine::Ledger::Create(std::move(arena), values);
  }

 private:
  static constexpr uint64_t kPlace = 512;

  engine::Frontend* frontend_;
  const bool records_;
};

scheduler::Session* g_session = nullptr;
DeviceKind g_kind = DeviceKind::kHost;

std::unique_ptr<scheduler::StreamSession> MakeSession(
    DeviceKind kind, bool records, scheduler::PlanCache& plans) {
  if (!PrepareFrontends(kind)) return nullptr;
  scheduler::StreamSession::Parts parts;
  parts.frontend = MakeFrontend({kind, 0, nullptr},
                                [](engine::OpId) { return std::string("op"); });
  parts.backend = std::make_unique<EmptyBackend>(parts.frontend.get(), records);
  parts.plans = &plans;
  parts.build = [](std::shared_ptr<scheduler::BuildJob> job) { job->Run(); };
  parts.options = parts.options.For(size_t{1} << 30);
  parts.options.validate_share = 0;
  return std::make_unique<scheduler::StreamSession>(std::move(parts));
}

template <c10::DeviceType kDevice>
at::Tensor DoNothing(const at::Tensor&, const at::Tensor&, const at::Scalar&) {
  // Memory of its own for each result, as an op's results have.
  static thread_local std::vector<at::Tensor> results = [] {
    std::vector<at::Tensor> made;
    for (int i = 0; i < kOps; ++i) made.push_back(at::zeros({4, 4}, kDevice));
    return made;
  }();
  static thread_local size_t next = 0;
  return results[next++ % results.size()];
}

// Ops that differ, as those of a program do: equal ones would be taken for a
// loop of few ops. Another `number` makes other ops of them: it is too large
// for a slot.
void Pass(const at::Tensor& a, const at::Tensor& b, int64_t number = 0) {
  constexpr int64_t kLarge = int64_t{1} << 31;
  at::Tensor x = at::add(a, b, 0);
  for (int i = 1; i < kOps; ++i) x = at::add(x, b, kLarge + number * kOps + i);
  benchmark::DoNotOptimize(x);
}

void CountOps(benchmark::State& state) {
  state.counters["per_op"] =
      benchmark::Counter(kOps, benchmark::Counter::kIsIterationInvariantRate |
                                   benchmark::Counter::kInvert);
}

void RunPasses(benchmark::State& state, at::Device device, bool vary = false) {
  const c10::InferenceMode inference;
  const at::Tensor a = at::zeros({4, 4}, device), b = at::zeros({4, 4}, device);
  for (int i = 0; i < 10; ++i) Pass(a, b);
  int64_t number = 0;
  for (auto _ : state) Pass(a, b, vary ? ++number : 0);
  CountOps(state);
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

// As ActivateRuntime, with g_session.
void Watch(DeviceKind kind) {
  g_kind = kind;
  (void)g_unwatched.End();
  ++g_activations;
  ++g_runtime_epoch;
}

void StopWatching() {
  g_unwatched.Begin();
  ++g_activations;
  ++g_runtime_epoch;
}

void BM_NeverHooked(benchmark::State& state) {
  at::Device device(at::kCPU);
  if (PickDevice(state, device)) RunPasses(state, device);
}

void BM_Off(benchmark::State& state) {
  RegisterHooksOnce();
  StopWatching();
  BM_NeverHooked(state);
}

// While a runtime of the other kind is active.
void BM_NotConcerned(benchmark::State& state) {
  at::Device device(at::kCPU);
  if (!PickDevice(state, device)) return;
  RegisterHooksOnce();
  Watch(device.is_cuda() ? DeviceKind::kHost : DeviceKind::kCuda);
  RunPasses(state, device);
  StopWatching();
}

void RunWith(benchmark::State& state, bool records, bool vary = false) {
  RegisterHooksOnce();
  at::Device device(at::kCPU);
  if (!PickDevice(state, device)) return;
  g_kind = device.is_cuda() ? DeviceKind::kCuda : DeviceKind::kHost;
  scheduler::PlanCache plans(size_t{1} << 30);
  const auto session = MakeSession(g_kind, records, plans);
  if (session == nullptr) {
    state.SkipWithError("no frontend here");
    return;
  }
  g_session = session.get();
  Watch(g_kind);
  RunPasses(state, device, vary);
  StopWatching();
  g_session = nullptr;
  session->Inspect([&](const scheduler::Journal& journal, const auto&,
                       const auto&) {
    const scheduler::Stats& stats = journal.stats;
    state.counters["followed"] =
        static_cast<double>(stats.followed) / static_cast<double>(stats.ops);
    state.counters["ops_per_trace"] =
        static_cast<double>(stats.ops) / static_cast<double>(stats.traces);
    state.counters["escapes_per_replay"] =
        static_cast<double>(stats.escapes) /
        static_cast<double>(std::max<uint64_t>(stats.replays, 1));
    if (records == (stats.followed == 0)) {
      state.SkipWithError("the session is not in the state to be measured");
    }
  });
}

void BM_Watching(benchmark::State& state) { RunWith(state, false); }
void BM_WatchingNew(benchmark::State& state) { RunWith(state, false, true); }
void BM_Following(benchmark::State& state) { RunWith(state, true); }

// The first recording of a trace that was seen once, CUPTI apart.
void BM_Recording(benchmark::State& state) {
  RegisterHooksOnce();
  at::Device device(at::kCPU);
  if (!PickDevice(state, device)) return;
  g_kind = device.is_cuda() ? DeviceKind::kCuda : DeviceKind::kHost;
  scheduler::PlanCache plans(size_t{1} << 30);
  const auto session = MakeSession(g_kind, true, plans);
  if (session == nullptr) {
    state.SkipWithError("no frontend here");
    return;
  }
  g_session = session.get();
  const c10::InferenceMode inference;
  const at::Tensor a = at::zeros({4, 4}, device), b = at::zeros({4, 4}, device);
  for (auto _ : state) {
    session->Reset();
    Watch(g_kind);
    Pass(a, b);
    const auto begin = std::chrono::steady_clock::now();
    Pass(a, b);
    const auto end = std::chrono::steady_clock::now();
    StopWatching();
    state.SetIterationTime(std::chrono::duration<double>(end - begin).count());
  }
  CountOps(state);
  g_session = nullptr;
}

// What of following is the making of the result, which eager has to do too.
void BM_MakeTensor(benchmark::State& state) {
  const c10::InferenceMode inference;
  std::vector<char> memory(4096);
  const std::vector<int64_t> sizes = {4, 4};
  const std::vector<int64_t> strides = {4, 1};
  TensorLayout layout;
  layout.keys = at::empty({0}).key_set();
  layout.dtype = at::kFloat;
  layout.sizes = sizes;
  layout.strides = strides;
  for (auto _ : state) {
    c10::Storage storage(
        c10::Storage::use_byte_size_t(), 64,
        c10::DataPtr(
            memory.data(), memory.data(), [](void*) {}, c10::Device(c10::kCPU)),
        nullptr, false);
    const at::Tensor tensor =
        MakeTensor(std::move(storage), c10::DispatchKey::CPU, layout);
    benchmark::DoNotOptimize(tensor);
  }
}

BENCHMARK(BM_NeverHooked)->ArgName("cuda")->Arg(0)->Arg(1);
BENCHMARK(BM_Off)->ArgName("cuda")->Arg(0)->Arg(1);
BENCHMARK(BM_NotConcerned)->ArgName("cuda")->Arg(0)->Arg(1);
BENCHMARK(BM_Watching)->ArgName("cuda")->Arg(0)->Arg(1);
BENCHMARK(BM_WatchingNew)->ArgName("cuda")->Arg(0)->Arg(1);
BENCHMARK(BM_Recording)->ArgName("cuda")->Arg(0)->Arg(1)->UseManualTime();
BENCHMARK(BM_Following)->ArgName("cuda")->Arg(0)->Arg(1);
BENCHMARK(BM_MakeTensor);

// As if torch had registered it: its kernels are told by where that was done,
// and an operator with one of a program's is not followed.
template <c10::DeviceType kDevice>
torch::Library ReplaceAdd() {
  const auto add =
      c10::Dispatcher::singleton().findSchema({"aten::add", "Tensor"});
  static const std::string place =  // the library keeps its address
      add->debug().substr(sizeof("registered at ") - 1);
  torch::Library library(
      torch::Library::IMPL, "aten",
      kDevice == c10::kCPU ? c10::DispatchKey::CPU : c10::DispatchKey::CUDA,
      place.c_str(), 0);
  library.impl("add.Tensor", DoNothing<kDevice>);
  return library;
}
const torch::Library g_host = ReplaceAdd<c10::kCPU>();
const torch::Library g_cuda = ReplaceAdd<c10::kCUDA>();

}  // namespace

std::optional<Watched> WatchedNow() {
  static const scheduler::Skipping never;
  if (g_unwatched.on()) return std::nullopt;
  return Watched{g_kind, &never};
}

void PassOver(uint64_t) {}

scheduler::Session* SessionFor(c10::Device, void*) { return g_session; }
void BeforeOp(scheduler::Session*, const engine::OpView&, bool,
              scheduler::HostWait&) {}
bool OthersAreTold() { return false; }
void HostHasWaited(const scheduler::HostWait&) {}
void BeforeUnknownWrites(scheduler::Session*, const uint64_t*) {}
void InterruptSession(c10::Device, void*, const char*) {}
void NoteUnwatchedWork() {}
void InterruptSessions(const char*) {}
void InterruptAnyReplay(const char*) {}

}  // namespace reprise::bindings
