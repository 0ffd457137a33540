// How a batch finds its plan: the hash of its launches, and Submit among many
// plans of a stream. The host runtime, whose kernels do nothing: no GPU.

#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

#include "bindings/native/reprise.h"
#include "cache/signature.h"
#include "engine/batch/batch_record.h"
#include "perf/bindings/native/measure.h"

namespace reprise {
namespace {

using perf::Must;

using Nothing = void(float, const float*, float*, int);

// Grids tell batches apart.
LaunchConfig ConfigOf(uint32_t plan) {
  return {.grid = {plan + 1}, .block = {128}};
}

// What names a batch whose neighbour was another one.
void BM_Lookup_Hash(benchmark::State& state) {
  engine::BatchRecord record;
  for (int64_t i = 0; i < state.range(0); ++i) {
    record.AddKernel(nullptr, ConfigOf(0), 32);
    record.EndLaunch();
  }
  const std::vector<engine::Node>& nodes = record.nodes();
  const auto* words = reinterpret_cast<const uint64_t*>(nodes.data());
  const size_t count = nodes.size() * sizeof(engine::Node) / sizeof(uint64_t);
  for (auto _ : state) {
    benchmark::DoNotOptimize(cache::HashWords({words, count}));
  }
  state.SetBytesProcessed(state.iterations() *
                          static_cast<int64_t>(count * sizeof(uint64_t)));
}
BENCHMARK(BM_Lookup_Hash)
    ->ArgName("launches")
    ->RangeMultiplier(4)
    ->Range(2, 2048);

// A stream that holds at most `plans` plans.
class World {
 public:
  World(uint32_t plans, int64_t launches, uint32_t build_after)
      : runtime_(Must(Runtime::Create({.device = RuntimeOptions::kHost,
                                       .build_after = build_after,
                                       .plans_per_stream = plans}))),
        stream_(Must(runtime_.CreateStream())),
        nothing_(Must(runtime_.HostKernel<Nothing>(
            "nothing",
            [](const LaunchConfig&, float, const float*, float*, int) {}))),
        launches_(launches) {}

  Batch Begin(uint32_t plan) {
    Batch batch = stream_.BeginBatch();
    for (int64_t i = 0; i < launches_; ++i) {
      batch.Launch(nothing_, ConfigOf(plan), 1.0f,
                   static_cast<const float*>(&memory_), &memory_, 1);
    }
    return batch;
  }
  void Submit(uint32_t plan) { Must(Begin(plan).Submit()); }

  // Builds the plans 0 to `plans` - 1; the last one is in front.
  void Build(uint32_t plans) {
    for (int pass = 0; pass < 4; ++pass) {
      for (uint32_t plan = 0; plan < plans; ++plan) Submit(plan);
      stream_.WaitForBuilds();
    }
    if (stream_.stats().plans != plans) perf::Stop("not every plan was built");
  }
  uint64_t replayed() const { return stream_.stats().replayed; }

 private:
  Runtime runtime_;
  Stream stream_;
  Kernel<Nothing> nothing_;
  int64_t launches_;
  float memory_ = 0;
};

// Subtract it from the others: no lookup, nothing run.
void BM_Lookup_Dropped(benchmark::State& state) {
  World world(1, state.range(0), 2);
  for (auto _ : state) {
    Batch batch = world.Begin(0);
    benchmark::DoNotOptimize(batch);
  }
}
BENCHMARK(BM_Lookup_Dropped)->ArgName("launches")->Arg(16)->Arg(128);

// The batch that came last comes again: compared, not hashed.
void BM_Lookup_Front(benchmark::State& state) {
  const auto plans = static_cast<uint32_t>(state.range(1));
  World world(plans, state.range(0), 2);
  world.Build(plans);
  const uint64_t before = world.replayed();
  for (auto _ : state) world.Submit(plans - 1);
  if (world.replayed() - before != static_cast<uint64_t>(state.iterations())) {
    state.SkipWithError("not every batch was a hit");
  }
}

// The plans in turn: it is always the one that was not used for the longest
// time.
void BM_Lookup_End(benchmark::State& state) {
  const auto plans = static_cast<uint32_t>(state.range(1));
  World world(plans, state.range(0), 2);
  world.Build(plans);
  const uint64_t before = world.replayed();
  uint32_t plan = 0;
  for (auto _ : state) {
    world.Submit(plan);
    if (++plan == plans) plan = 0;
  }
  if (world.replayed() - before != static_cast<uint64_t>(state.iterations())) {
    state.SkipWithError("not every batch was a hit");
  }
}

// Batches that never came before; each takes the oldest one's place.
void BM_Lookup_Miss(benchmark::State& state) {
  const auto plans = static_cast<uint32_t>(state.range(1));
  World world(plans, state.range(0), ~0u);
  uint32_t plan = 0;
  while (plan < plans) world.Submit(plan++);
  for (auto _ : state) world.Submit(plan++);
  if (world.replayed() != 0) state.SkipWithError("a batch was a hit");
}

#define REPRISE_LOOKUPS(name)           \
  BENCHMARK(name)                       \
      ->ArgNames({"launches", "plans"}) \
      ->ArgsProduct({{16, 128}, {1, 2, 8, 64}})
REPRISE_LOOKUPS(BM_Lookup_Front);
REPRISE_LOOKUPS(BM_Lookup_End);
REPRISE_LOOKUPS(BM_Lookup_Miss);

}  // namespace
}  // namespace reprise
