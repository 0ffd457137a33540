// Many threads that submit, and one that does while graphs are built beside it.
// Times of single calls, by the wall; what is compared takes turns. Needs a
// GPU.

#include <benchmark/benchmark.h>
#include <time.h>

#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "bindings/native/reprise.h"
#include "perf/bindings/native/by_hand.h"
#include "perf/bindings/native/measure.h"

namespace reprise {
namespace {

using perf::Axpy;
using perf::Must;
using perf::Samples;

constexpr int kCount = 256;
constexpr int kRound = 16;  // calls between two waits for the device

// Batches of `launches` on a stream of their own.
class Submitter {
 public:
  Submitter(const Runtime& runtime, const Kernel<Axpy>& axpy, int launches)
      : stream_(Must(runtime.CreateStream())),
        axpy_(axpy),
        x_(Must(runtime.Allocate<float>(kCount))),
        y_(Must(runtime.Allocate<float>(kCount))),
        launches_(launches) {}

  Batch Begin(float a, uint32_t grid = 2) {
    Batch batch = stream_.BeginBatch();
    for (int i = 0; i < launches_; ++i) {
      batch.Launch(axpy_, {.grid = {grid}, .block = {128}},
                   a + static_cast<float>(i),
                   static_cast<const float*>(x_.data()), y_.data(), kCount);
    }
    return batch;
  }
  void Submit(float a) { Must(Begin(a).Submit()); }
  void Drain() { Must(stream_.Synchronize()); }

  // Until its graph is built and has the arguments that suit it.
  void Warm(bool changed) {
    for (int i = 0; i < 25 * kRound; ++i) {
      Submit(changed ? static_cast<float>(i) : 0.0f);
      if (i % kRound != 0) continue;
      stream_.WaitForBuilds();
      Drain();
    }
  }
  const Stream& stream() const { return stream_; }

 private:
  Stream stream_;
  Kernel<Axpy> axpy_;
  Buffer<float> x_;
  Buffer<float> y_;
  int launches_;
};

// Runtimes that never build, and that do.
struct World {
  static Kernel<Axpy> Compile(const Runtime& runtime) {
    auto axpy = Must(runtime.CompileKernel<Axpy>(
        {.source = perf::kAxpySource, .name = "axpy"}));
    Must(axpy.Wait());
    return axpy;
  }

  Runtime plain = Must(Runtime::Create({.build_after = ~0u}));
  Runtime replaying = Must(Runtime::Create({}));
  Runtime building =
      Must(Runtime::Create({.build_after = 1, .plans_per_stream = 4}));
  Kernel<Axpy> plain_axpy = Compile(plain);
  Kernel<Axpy> replaying_axpy = Compile(replaying);
  Kernel<Axpy> building_axpy = Compile(building);
};

World& TheWorld() {
  static auto* const world = new World;
  return *world;
}

double ThreadCpuMicroseconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return 1e6 * static_cast<double>(now.tv_sec) +
         1e-3 * static_cast<double>(now.tv_nsec);
}

// Calls of one way by one thread.
struct Calls {
  std::unique_ptr<Submitter> submitter;
  bool changed = false;
  Samples wall;
  double cpu_us = 0;
};
constexpr std::array<const char*, 3> kWays = {"plain", "unchanged", "changed"};

// Every thread has streams of its own, and its turns with the others: batches
// of 16 as plain launches, as graphs that stay, as graphs all of whose nodes
// change.
void BM_Threads_Submit(benchmark::State& state) {
  if (!perf::HasGpu(state)) return;
  World& world = TheWorld();
  constexpr int kLaunches = 16;
  constexpr int kRounds = 200;
  const auto threads = static_cast<size_t>(state.range(0));
  std::vector<std::array<Calls, kWays.size()>> calls(threads);
  for (auto& thread : calls) {
    for (size_t way = 0; way < kWays.size(); ++way) {
      thread[way].changed = way == 2;
      thread[way].submitter =
          way == 0 ? std::make_unique<Submitter>(world.plain, world.plain_axpy,
                                                 kLaunches)
                   : std::make_unique<Submitter>(
                         world.replaying, world.replaying_axpy, kLaunches);
      if (way > 0) thread[way].submitter->Warm(thread[way].changed);
    }
  }
  for (auto _ : state) {
    std::barrier together(static_cast<ptrdiff_t>(threads));
    const auto work = [&](std::array<Calls, kWays.size()>& mine) {
      float a = 0.0f;
      for (int round = 0; round < kRounds; ++round) {
        for (Calls& way : mine) {
          together.arrive_and_wait();
          const double begin_us = ThreadCpuMicroseconds();
          for (int i = 0; i < kRound; ++i) {
            a += 1.0f;
            way.wall.Time(
                [&] { way.submitter->Submit(way.changed ? a : 0.0f); });
          }
          way.cpu_us += ThreadCpuMicroseconds() - begin_us;
          way.submitter->Drain();
        }
      }
    };
    std::vector<std::thread> workers;
    for (auto& thread : calls) {
      workers.emplace_back([&work, &thread] { work(thread); });
    }
    for (std::thread& worker : workers) worker.join();
  }
  for (size_t way = 0; way < kWays.size(); ++way) {
    Samples all;
    double cpu_us = 0;
    for (auto& thread : calls) {
      all.Add(thread[way].wall);
      cpu_us += thread[way].cpu_us;
    }
    all.Report(state, kWays[way]);
    state.counters[std::string(kWays[way]) + "_cpu_us"] =
        cpu_us / static_cast<double>(all.size());
  }
}
BENCHMARK(BM_Threads_Submit)
    ->ArgName("threads")
    ->RangeMultiplier(2)
    ->Range(1, 16)
    ->Iterations(1)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

// Builds graphs of 512 launches, one after another, until it ends.
class Builder {
 public:
  enum class Way { kPrepare, kSubmit };

  // The submitter's runtime builds what it sees for the first time.
  Builder(Submitter& submitter, Way way, uint32_t& grid)
      : thread_([this, &submitter, way, &grid] {
          while (!stop_.load(std::memory_order_relaxed)) {
            // Another grid, another batch: nothing is found again.
            Batch batch = submitter.Begin(0.0f, ++grid);
            times_.Time([&] {
              if (way == Way::kPrepare) {
                const Plan plan = Must(batch.Prepare());
              } else {
                Must(batch.Submit());
                submitter.stream().WaitForBuilds();
              }
            });
          }
        }) {}
  ~Builder() { Finish(); }
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;

  // Lets the build that has begun end; the times of all.
  Samples Finish() {
    stop_.store(true, std::memory_order_relaxed);
    if (thread_.joinable()) thread_.join();
    return times_;
  }

 private:
  std::atomic<bool> stop_{false};
  Samples times_;  // of the thread
  std::thread thread_;
};

// One thread submits batches of 4, in turn 50 ms while nothing else happens,
// while another thread prepares plans, and while it submits batches that are
// built in the background (and launches them, once each).
void BM_Threads_SubmitBesideBuilds(benchmark::State& state) {
  if (!perf::HasGpu(state)) return;
  World& world = TheWorld();
  constexpr int kLaunches = 4;
  constexpr std::chrono::milliseconds kBlock(50);
  const bool replays = state.range(0) != 0;
  Submitter foreground(replays ? world.replaying : world.plain,
                       replays ? world.replaying_axpy : world.plain_axpy,
                       kLaunches);
  if (replays) foreground.Warm(/*changed=*/false);
  Submitter background(world.building, world.building_axpy, 512);
  static uint32_t grid = 2;

  Samples quiet;
  Samples preparing;
  Samples building;
  Samples prepare;
  Samples build;
  const auto block = [&](Samples& samples) {
    const auto end = std::chrono::steady_clock::now() + kBlock;
    do {
      for (int i = 0; i < kRound; ++i) {
        samples.Time([&] { foreground.Submit(0.0f); });
      }
      foreground.Drain();
    } while (std::chrono::steady_clock::now() < end);
  };
  for (auto _ : state) {
    block(quiet);
    {
      Builder builder(background, Builder::Way::kPrepare, grid);
      block(preparing);
      prepare.Add(builder.Finish());
    }
    {
      Builder builder(background, Builder::Way::kSubmit, grid);
      block(building);
      build.Add(builder.Finish());
    }
    background.Drain();
  }
  quiet.Report(state, "quiet");
  preparing.Report(state, "beside_prepare");
  building.Report(state, "beside_builds");
  prepare.Report(state, "prepare");
  build.Report(state, "build");
  state.counters["builds"] = static_cast<double>(prepare.size() + build.size());
}
BENCHMARK(BM_Threads_SubmitBesideBuilds)
    ->ArgName("replays")
    ->Arg(0)
    ->Arg(1)
    ->Iterations(20)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace reprise
