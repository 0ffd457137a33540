// Batches of small kernels against what they stand for: plain launches, a bare
// graph launch, a graph patched by hand. CPU time of the submitting thread, a
// batch: submitted in rounds of kRound, the device's queue drained between the
// rounds, off the clock. Needs a GPU.

#include <benchmark/benchmark.h>
#include <cuda.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "bindings/native/reprise.h"
#include "engine/device/launch_graph.h"
#include "perf/bindings/native/by_hand.h"
#include "perf/bindings/native/measure.h"

namespace reprise {
namespace {

using perf::Axpy;
using perf::HandGraph;
using perf::Must;
using perf::RawDevice;
using perf::RawLaunch;

constexpr int kCount = 256;
constexpr int kRound = 16;
constexpr int kLongRound = 128;  // where the end of the device's work counts
constexpr int kRounds = 40;  // most of the time is the device's, off the clock
constexpr LaunchConfig kConfig{.grid = {2}, .block = {128}};

// The world of one benchmark.
struct World {
  World() {
    axpy.emplace(Must(runtime.CompileKernel<Axpy>(
        {.source = perf::kAxpySource, .name = "axpy"})));
    Must(axpy->Wait());
    x = Must(runtime.Allocate<float>(kCount));
    y = Must(runtime.Allocate<float>(kCount));
    function = raw_device.Load(perf::kAxpySource, {"axpy"})[0];
    raw = static_cast<CUstream>(stream.handle());
  }

  // Adds `launches` that differ in their first argument.
  void Fill(Batch& batch, int launches, float a) {
    for (int i = 0; i < launches; ++i) {
      batch.Launch(*axpy, kConfig, a + static_cast<float>(i),
                   static_cast<const float*>(x.data()), y.data(), kCount);
    }
  }

  // The same by the driver alone, for what Reprise is compared with.
  RawLaunch Raw() {
    return RawLaunch(function, kConfig.grid.x, kConfig.block.x, 1.0f, x.data(),
                     y.data(), kCount);
  }

  RawDevice& raw_device = perf::TheDevice();
  Runtime runtime = Must(Runtime::Create({}));
  Stream stream = Must(runtime.CreateStream());
  std::optional<Kernel<Axpy>> axpy;
  Buffer<float> x;
  Buffer<float> y;
  CUfunction function = nullptr;
  CUstream raw = nullptr;
};

World& TheWorld() {
  static auto* const world = new World;
  return *world;
}

// The share of one in rounds of `round`; the device's end of a round counts, or
// is waited for off the clock.
template <typename F>
void MeasureRounds(benchmark::State& state, const Stream& stream, const F& once,
                   int round, bool to_the_end) {
  using Clock = std::chrono::steady_clock;
  float a = 0.0f;
  for (auto _ : state) {
    const Clock::time_point begin = Clock::now();
    for (int i = 0; i < round; ++i) once(a += 1.0f);
    if (to_the_end) Must(stream.Synchronize());
    state.SetIterationTime(
        std::chrono::duration<double>(Clock::now() - begin).count() / round);
    Must(stream.Synchronize());
  }
}

template <typename F>
void Measure(benchmark::State& state, const F& once) {
  MeasureRounds(state, TheWorld().stream, once, kRound, /*to_the_end=*/false);
}

// Until the plan behind `once` has decided how it is patched.
template <typename F>
void Warm(const Stream& stream, const F& once) {
  for (int i = 0; i < 400; ++i) {
    once(static_cast<float>(i));
    if (i % kRound != 0) continue;
    stream.WaitForBuilds();
    Must(stream.Synchronize());
  }
}

void BM_PlainLaunches(benchmark::State& state) {
  World& world = TheWorld();
  RawLaunch launch = world.Raw();
  Measure(state, [&](float a) {
    for (int i = 0; i < state.range(0); ++i) {
      launch.Set(0, a + static_cast<float>(i));
      launch.Enqueue(world.raw_device.driver, world.raw);
    }
  });
}

// A straight line.
std::unique_ptr<HandGraph> MakeHandGraph(int64_t launches) {
  const auto count = static_cast<uint32_t>(launches);
  device::Dependencies dependencies(count);
  for (uint32_t i = 1; i < count; ++i) dependencies[i] = {i - 1};
  auto graph = std::make_unique<HandGraph>(
      std::vector<RawLaunch>(count, TheWorld().Raw()), dependencies);
  graph->Instantiate();
  return graph;
}

void BM_BareGraphLaunch(benchmark::State& state) {
  const auto graph = MakeHandGraph(state.range(0));
  Measure(state, [&](float) { graph->Launch(TheWorld().raw); });
}

void BM_HandPatchedGraph(benchmark::State& state) {
  const auto graph = MakeHandGraph(state.range(0));
  Measure(state, [&](float a) {
    for (size_t i = 0; i < graph->size(); ++i) {
      graph->launch(i).Set(0, a + static_cast<float>(i));
      graph->SetParams(i);
    }
    graph->Launch(TheWorld().raw);
  });
}

void BM_HandUpdatedGraph(benchmark::State& state) {
  const auto graph = MakeHandGraph(state.range(0));
  Measure(state, [&](float a) {
    for (size_t i = 0; i < graph->size(); ++i) {
      graph->launch(i).Set(0, a + static_cast<float>(i));
      graph->Stage(i);
    }
    graph->Update();
    graph->Launch(TheWorld().raw);
  });
}

void BM_BuildBatch(benchmark::State& state) {
  World& world = TheWorld();
  const auto launches = static_cast<int>(state.range(0));
  Measure(state, [&](float a) {
    Batch batch = world.stream.BeginBatch();
    world.Fill(batch, launches, a);
    benchmark::DoNotOptimize(batch);
  });
  state.counters["per_launch"] = benchmark::Counter(
      launches, benchmark::Counter::kIsIterationInvariantRate |
                    benchmark::Counter::kInvert);
}

// A runtime for each way of patching.
struct Way {
  explicit Way(Patching patching)
      : runtime(Must(Runtime::Create({.patching = patching}))),
        axpy(Must(runtime.CompileKernel<Axpy>(
            {.source = perf::kAxpySource, .name = "axpy"}))),
        x(Must(runtime.Allocate<float>(kCount))),
        y(Must(runtime.Allocate<float>(kCount))) {}

  // A stream for each kind of round: batches of which other launches change are
  // the same batch to a stream, and their plan would be a compromise.
  const Stream& StreamOf(int launches, int changed, int round) {
    const auto [found, is_new] =
        streams.try_emplace({launches, changed, round});
    if (is_new) found->second.emplace(Must(runtime.CreateStream()));
    return *found->second;
  }

  void Submit(const Stream& stream, int launches, int changed, float a) {
    Batch batch = stream.BeginBatch();
    for (int i = 0; i < launches; ++i) {
      batch.Launch(axpy, kConfig, i < changed ? a + static_cast<float>(i) : 0.f,
                   static_cast<const float*>(x.data()), y.data(), kCount);
    }
    Must(batch.Submit());
  }

  Runtime runtime;
  std::map<std::array<int, 3>, std::optional<Stream>> streams;
  Kernel<Axpy> axpy;
  Buffer<float> x;
  Buffer<float> y;
};

Way& TheWay(Patching patching) {
  static std::array<Way*, 4> ways{};  // never ended
  Way*& way = ways[static_cast<size_t>(patching)];
  if (way == nullptr) way = new Way(patching);
  return *way;
}

// Batches of which so many launches change.
void SubmitRounds(benchmark::State& state, Patching patching, int round,
                  bool to_the_end) {
  Way& way = TheWay(patching);
  const auto launches = static_cast<int>(state.range(0));
  const auto changed = static_cast<int>(state.range(1));
  const Stream& stream = way.StreamOf(launches, changed, round);
  const auto once = [&](float a) { way.Submit(stream, launches, changed, a); };
  Warm(stream, once);
  MeasureRounds(state, stream, once, round, to_the_end);
  state.SetLabel(perf::Describe(stream.plans()[0]));
}
void BM_Submit(benchmark::State& state, Patching patching) {
  SubmitRounds(state, patching, kRound, /*to_the_end=*/false);
}
// On the wall's clock a batch takes as long as the slower of the thread and the
// device.
void BM_Throughput(benchmark::State& state, Patching patching) {
  SubmitRounds(state, patching, kLongRound, /*to_the_end=*/true);
}

void Launch(benchmark::State& state, bool changed) {
  World& world = TheWorld();
  const auto launches = static_cast<int>(state.range(0));
  Batch batch = world.stream.BeginBatch();
  world.Fill(batch, launches, 0.0f);
  Plan plan = Must(batch.Prepare());
  const auto once = [&](float a) {
    for (int i = 0; changed && i < launches; ++i) {
      Must(plan.Set(static_cast<uint32_t>(i), 0, a + static_cast<float>(i)));
    }
    Must(plan.Launch());
  };
  Warm(world.stream, once);
  Measure(state, once);
}
void BM_Plan_Unchanged(benchmark::State& state) { Launch(state, false); }
void BM_Plan_AllChanged(benchmark::State& state) { Launch(state, true); }

#define REPRISE_BATCHES(name) \
  BENCHMARK(name)             \
      ->ArgName("launches")   \
      ->Arg(8)                \
      ->Arg(64)               \
      ->Arg(512)              \
      ->Iterations(kRounds)   \
      ->UseManualTime()
REPRISE_BATCHES(BM_PlainLaunches);
REPRISE_BATCHES(BM_BareGraphLaunch);
REPRISE_BATCHES(BM_HandPatchedGraph);
REPRISE_BATCHES(BM_HandUpdatedGraph);
REPRISE_BATCHES(BM_BuildBatch);
REPRISE_BATCHES(BM_Plan_Unchanged);
REPRISE_BATCHES(BM_Plan_AllChanged);

void Changes(benchmark::internal::Benchmark* benchmark) {
  for (const int launches : {1, 8, 64, 512}) {
    for (const int changed : {0, 1, launches / 8, launches}) {
      if (launches > 1) benchmark->Args({launches, changed});
    }
  }
  benchmark->ArgNames({"launches", "changed"})
      ->Iterations(kRounds)
      ->UseManualTime();
}
BENCHMARK_CAPTURE(BM_Submit, SetParams, Patching::kSetParams)->Apply(Changes);
BENCHMARK_CAPTURE(BM_Submit, Table, Patching::kTable)->Apply(Changes);
BENCHMARK_CAPTURE(BM_Submit, ExecUpdate, Patching::kExecUpdate)->Apply(Changes);
BENCHMARK_CAPTURE(BM_Submit, Measured, Patching::kMeasured)->Apply(Changes);

void AllChange(benchmark::internal::Benchmark* benchmark) {
  for (const int launches : {8, 64, 512}) benchmark->Args({launches, launches});
  benchmark->ArgNames({"launches", "changed"})
      ->Iterations(kRounds)
      ->UseManualTime();
}
BENCHMARK_CAPTURE(BM_Throughput, SetParams, Patching::kSetParams)
    ->Apply(AllChange);
BENCHMARK_CAPTURE(BM_Throughput, Table, Patching::kTable)->Apply(AllChange);
BENCHMARK_CAPTURE(BM_Throughput, ExecUpdate, Patching::kExecUpdate)
    ->Apply(AllChange);
BENCHMARK_CAPTURE(BM_Throughput, Measured, Patching::kMeasured)
    ->Apply(AllChange);

}  // namespace
}  // namespace reprise
