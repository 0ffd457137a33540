// What graphs cost, by the driver alone: making them, launching them, and each
// way of giving them other arguments, while nothing runs and while the graph is
// in flight. Times of the calling thread, as counters (the time of an iteration
// is that of a whole round); ways take turns in every round. Needs a GPU.

#include <benchmark/benchmark.h>
#include <cuda.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/table_source.h"
#include "perf/bindings/native/by_hand.h"
#include "perf/bindings/native/measure.h"

namespace reprise {
namespace {

using perf::HandGraph;
using perf::RawLaunch;
using perf::Samples;

// The arguments of a launch as a table has them.
struct alignas(16) Entry {
  float a;
  const float* x;
  float* y;
  int count;
};
constexpr size_t kLargestTable = kernels::kTableBytes.back();

constexpr char kSource[] = R"(
__device__ void Axpy(float a, const float* x, float* y, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) y[i] += a * x[i];
}
extern "C" __global__ void axpy(float a, const float* x, float* y, int count) {
  Axpy(a, x, y, count);
}
struct alignas(16) Entry {
  float a;
  const float* x;
  float* y;
  int count;
};
extern "C" __global__ void axpy_from_table(const Entry* entry) {
  Axpy(entry->a, entry->x, entry->y, entry->count);
}
// Until the host says so, a tenth of a second at the most.
extern "C" __global__ void hold(const volatile int* release) {
  unsigned long long begin, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
  do {
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  } while (*release == 0 && now - begin < 100'000'000);
}
)";

constexpr int kCount = 256;
constexpr unsigned kBlocks = 2;
constexpr unsigned kThreads = 128;

struct World {
  World() {
    std::vector<std::string> names = {"axpy", "axpy_from_table", "hold"};
    for (uint32_t bytes : kernels::kTableBytes) {
      names.push_back("reprise_table::Write<" + std::to_string(bytes) + ">");
    }
    const auto functions =
        device.Load(std::string(kernels::kTableSource) + kSource, names);
    axpy = functions[0];
    axpy_from_table = functions[1];
    hold = functions[2];
    write.assign(functions.begin() + 3, functions.end());
    x = reinterpret_cast<float*>(device.Allocate(kCount * sizeof(float)));
    y = reinterpret_cast<float*>(device.Allocate(kCount * sizeof(float)));
    table = device.Allocate(kLargestTable);
    void* memory = nullptr;
    REPRISE_MUST(driver, cuMemHostAlloc(&memory, sizeof(int),
                                        CU_MEMHOSTALLOC_DEVICEMAP));
    release = new (memory) std::atomic<int>(0);
  }

  void Drain() { REPRISE_MUST(driver, cuStreamSynchronize(stream)); }

  // Work on the stream does not begin before Release.
  void Hold() {
    release->store(0);
    RawLaunch(hold, 1, 1, static_cast<void*>(release)).Enqueue(driver, stream);
  }
  void Release() { release->store(1); }

  RawLaunch Axpy(float a) {
    return RawLaunch(axpy, kBlocks, kThreads, a, x, y, kCount);
  }

  perf::RawDevice& device = perf::TheDevice();
  const device::Driver& driver = device.driver;
  const CUstream stream = device.MakeStream();
  CUfunction axpy = nullptr;
  CUfunction axpy_from_table = nullptr;
  CUfunction hold = nullptr;
  std::vector<CUfunction> write;  // as kTableBytes
  float* x = nullptr;
  float* y = nullptr;
  CUdeviceptr table = 0;
  std::atomic<int>* release = nullptr;  // of the host, seen by the device
};

World& TheWorld() {
  static auto* const world = new World;
  return *world;
}

enum Shape : int64_t { kChain, kWide };

// A line, or one root and all others behind it.
device::Dependencies DependenciesOf(size_t nodes, int64_t shape) {
  device::Dependencies all(nodes);
  for (uint32_t i = 1; i < nodes; ++i) {
    all[i] = {shape == kChain ? i - 1 : 0};
  }
  return all;
}

std::unique_ptr<HandGraph> Describe(size_t nodes, int64_t shape) {
  std::vector<RawLaunch> launches;
  for (size_t i = 0; i < nodes; ++i) {
    launches.push_back(TheWorld().Axpy(static_cast<float>(i)));
  }
  return std::make_unique<HandGraph>(std::move(launches),
                                     DependenciesOf(nodes, shape));
}

std::unique_ptr<HandGraph> Make(size_t nodes, int64_t shape) {
  auto graph = Describe(nodes, shape);
  graph->Instantiate();
  graph->Upload(TheWorld().stream);
  TheWorld().Drain();
  return graph;
}

// Describing, instantiating, uploading, launching once more and for the first
// time, ending.
void BM_Graph_Make(benchmark::State& state) {
  if (!perf::HasGpu(state)) return;
  World& world = TheWorld();
  const auto nodes = static_cast<size_t>(state.range(0));
  Samples describe;
  Samples instantiate;
  Samples upload;
  Samples first;
  Samples end;
  for (auto _ : state) {
    std::unique_ptr<HandGraph> graph;
    describe.Time([&] { graph = Describe(nodes, state.range(1)); });
    instantiate.Time([&] { graph->Instantiate(); });
    upload.Time([&] { graph->Upload(world.stream); });
    world.Drain();
    first.Time([&] { graph->Launch(world.stream); });
    world.Drain();
    end.Time([&] { graph->EndExec(); });
  }
  describe.Report(state, "describe");
  instantiate.Report(state, "instantiate");
  upload.Report(state, "upload");
  first.Report(state, "first_launch");
  end.Report(state, "end");
}

void BM_Graph_Launch(benchmark::State& state) {
  if (!perf::HasGpu(state)) return;
  World& world = TheWorld();
  const auto graph = Make(static_cast<size_t>(state.range(0)), state.range(1));
  graph->Launch(world.stream);
  world.Drain();
  Samples idle;
  Samples in_flight;  // behind a launch of its own
  Samples device;     // from the launch until all is done
  for (auto _ : state) {
    device.Time([&] {
      idle.Time([&] { graph->Launch(world.stream); });
      world.Drain();
    });
    world.Hold();
    graph->Launch(world.stream);
    in_flight.Time([&] { graph->Launch(world.stream); });
    world.Release();
    world.Drain();
  }
  idle.Report(state, "idle");
  in_flight.Report(state, "in_flight");
  device.Report(state, "until_done");
}

void Sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"nodes", "wide"})
      ->ArgsProduct({{1, 4, 16, 64, 256, 1024}, {kChain, kWide}});
}
BENCHMARK(BM_Graph_Make)->Apply(Sizes)->Iterations(20)->UseRealTime();
BENCHMARK(BM_Graph_Launch)->Apply(Sizes)->Iterations(60)->UseRealTime();

// A graph whose first node writes the table that all others read; `bytes` are
// what that node carries.
class TableGraph {
 public:
  TableGraph(size_t nodes, uint32_t bytes) : chunk_(bytes) {
    World& world = TheWorld();
    const size_t entries = bytes / sizeof(Entry);
    for (size_t i = 0; i < entries; ++i) {
      Set(i, 0.0f);
    }
    const auto size =
        static_cast<size_t>(std::find(kernels::kTableBytes.begin(),
                                      kernels::kTableBytes.end(), bytes) -
                            kernels::kTableBytes.begin());
    RawLaunch write(world.write[size], 1, 256, uint64_t{0}, world.table,
                    static_cast<int>(bytes / 16));
    write.large = chunk_.data();
    std::vector<RawLaunch> launches = {write};
    for (size_t i = 0; i < nodes; ++i) {
      launches.emplace_back(world.axpy_from_table, kBlocks, kThreads,
                            world.table + i % entries * sizeof(Entry));
    }
    graph_ = std::make_unique<HandGraph>(std::move(launches),
                                         DependenciesOf(nodes + 1, kChain));
    graph_->Instantiate();
    graph_->Upload(world.stream);
    graph_->Launch(world.stream);
    world.Drain();
  }

  void Set(size_t i, float a) {
    new (chunk_.data() + i * sizeof(Entry))
        Entry{a, TheWorld().x, TheWorld().y, kCount};
  }
  void Patch() { graph_->SetParams(0); }
  void Launch() { graph_->Launch(TheWorld().stream); }

  // The smallest node that carries the arguments of `nodes` launches, 0 if none
  // does.
  static uint32_t BytesOf(size_t nodes) {
    for (uint32_t bytes : kernels::kTableBytes) {
      if (nodes * sizeof(Entry) <= bytes) return bytes;
    }
    return 0;
  }

 private:
  std::vector<std::byte> chunk_;
  std::unique_ptr<HandGraph> graph_;
};

// Times of a patch and of the launch that follows.
struct PatchTimes {
  template <typename P, typename L>
  void Time(const P& change, const L& make) {
    patch.Time(change);
    launch.Time(make);
  }
  void Report(benchmark::State& state, const std::string& way) {
    patch.Report(state, way);
    launch.Report(state, way + "_launch");
  }
  Samples patch;
  Samples launch;
};

// A chain of `nodes`, of which `changed` get another argument: a call for each,
// an update of the whole, or one node that carries a table. None of them: the
// launch alone.
void BM_Graph_Patch(benchmark::State& state) {
  if (!perf::HasGpu(state)) return;
  World& world = TheWorld();
  const auto nodes = static_cast<size_t>(state.range(0));
  const auto changed = static_cast<size_t>(state.range(1));
  const bool in_flight = state.range(2) != 0;
  const auto graph = Make(nodes, kChain);
  graph->Launch(world.stream);
  const auto updated = Make(nodes, kChain);
  updated->Launch(world.stream);
  const uint32_t bytes = TableGraph::BytesOf(nodes);
  std::unique_ptr<TableGraph> table;
  if (bytes > 0) table = std::make_unique<TableGraph>(nodes, bytes);
  world.Drain();

  Samples none;
  PatchTimes set;
  PatchTimes update;
  PatchTimes write;
  float a = 0.0f;
  // `launch` once more before what is timed, if that is to be in flight.
  const auto around = [&](const auto& launch, const auto& timed) {
    if (in_flight) {
      world.Hold();
      launch();
    }
    timed();
    world.Release();
    world.Drain();
  };
  const auto launch_graph = [&] { graph->Launch(world.stream); };
  const auto launch_updated = [&] { updated->Launch(world.stream); };
  for (auto _ : state) {
    a += 1.0f;
    around(launch_graph, [&] { none.Time(launch_graph); });
    around(launch_graph, [&] {
      set.Time(
          [&] {
            for (size_t i = 0; i < changed; ++i) {
              graph->launch(i).Set(0, a);
              graph->SetParams(i);
            }
          },
          launch_graph);
    });
    around(launch_updated, [&] {
      update.Time(
          [&] {
            for (size_t i = 0; i < changed; ++i) {
              updated->launch(i).Set(0, a);
              updated->Stage(i);
            }
            updated->Update();
          },
          launch_updated);
    });
    if (table == nullptr) continue;
    const auto launch_table = [&] { table->Launch(); };
    around(launch_table, [&] {
      write.Time(
          [&] {
            for (size_t i = 0; i < changed; ++i) table->Set(i, a);
            table->Patch();
          },
          launch_table);
    });
  }
  none.Report(state, "unpatched_launch");
  set.Report(state, "set");
  update.Report(state, "update");
  if (table != nullptr) write.Report(state, "table");
}
void Changes(benchmark::internal::Benchmark* benchmark) {
  for (const int64_t nodes : {1, 4, 16, 64, 256, 1024}) {
    for (int64_t changed = 1; changed <= nodes; changed *= 4) {
      for (const int64_t in_flight : {0, 1}) {
        benchmark->Args({nodes, changed, in_flight});
      }
    }
  }
  benchmark->ArgNames({"nodes", "changed", "in_flight"});
}
BENCHMARK(BM_Graph_Patch)->Apply(Changes)->Iterations(25)->UseRealTime();

// The node that carries the table, by its size.
void BM_Graph_Table(benchmark::State& state) {
  if (!perf::HasGpu(state)) return;
  World& world = TheWorld();
  const bool in_flight = state.range(1) != 0;
  TableGraph table(64, static_cast<uint32_t>(state.range(0)));
  PatchTimes times;
  float a = 0.0f;
  for (auto _ : state) {
    if (in_flight) {
      world.Hold();
      table.Launch();
    }
    times.Time(
        [&] {
          table.Set(0, a += 1.0f);
          table.Patch();
        },
        [&] { table.Launch(); });
    world.Release();
    world.Drain();
  }
  times.Report(state, "table");
}
BENCHMARK(BM_Graph_Table)
    ->ArgNames({"bytes", "in_flight"})
    ->ArgsProduct({{256, 1024, 4096, 16384, 32512}, {0, 1}})
    ->Iterations(100)
    ->UseRealTime();

}  // namespace
}  // namespace reprise
