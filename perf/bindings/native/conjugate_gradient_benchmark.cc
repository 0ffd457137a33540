// A solve by conjugate gradients, from its start to the residual that is looked
// for, in every way in which its launches can be made: one by one, as batches,
// as prepared plans, as graphs written by hand. The ways take turns in every
// round; ratios are those of one round. Needs a GPU.

#include <benchmark/benchmark.h>
#include <cuda.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bindings/native/reprise.h"
#include "examples/cpp/conjugate_gradient.h"
#include "perf/bindings/native/by_hand.h"
#include "perf/bindings/native/measure.h"

namespace reprise {
namespace {

using conjugate_gradient::Solver;
using perf::HandGraph;
using perf::Must;
using perf::RawLaunch;

constexpr int kBatch = 32;  // iterations
constexpr int kWarmRounds = 8;
constexpr int kRounds = 50;
constexpr int kMostIterations = 4096;
constexpr double kTolerance = 1e-10;  // of the right side's norm

// The solver's launches by the driver, on its memory and its stream.
class ByHand {
 public:
  explicit ByHand(Solver& solver)
      : solver_(solver),
        stream_(static_cast<CUstream>(solver.stream.handle())) {
    const auto functions = perf::TheDevice().Load(
        conjugate_gradient::kSource, {"laplacian", "dot", "step", "turn"});
    laplacian_ = functions[0];
    dot_ = functions[1];
    step_ = functions[2];
    turn_ = functions[3];
  }

  void Begin() {
    const auto at = [](const auto& buffer) {
      return reinterpret_cast<CUdeviceptr>(buffer.data());
    };
    const size_t count = solver_.x.size();
    REPRISE_MUST(driver_,
                 cuMemsetD32Async(at(solver_.x), 0, 2 * count, stream_));
    for (const auto* to : {&solver_.r, &solver_.p}) {
      REPRISE_MUST(driver_, cuMemcpyDtoDAsync(at(*to), at(solver_.b),
                                              count * sizeof(double), stream_));
    }
    Dot(solver_.r, solver_.r, solver_.rr[0]).Enqueue(driver_, stream_);
  }

  std::vector<RawLaunch> Iteration(int k) {
    Solver& s = solver_;
    double* const before = s.rr[k % 2].data();
    double* const now = s.rr[(k + 1) % 2].data();
    const unsigned blocks = s.wide.grid.x;
    const unsigned threads = s.wide.block.x;
    return {
        RawLaunch(laplacian_, blocks, threads, s.p.data(), s.q.data(), s.side),
        Dot(s.p, s.q, s.pq),
        RawLaunch(step_, blocks, threads, s.x.data(), s.p.data(), before,
                  s.pq.data(), 1.0, s.count),
        RawLaunch(step_, blocks, threads, s.r.data(), s.q.data(), before,
                  s.pq.data(), -1.0, s.count),
        Dot(s.r, s.r, s.rr[(k + 1) % 2]),
        RawLaunch(turn_, blocks, threads, s.p.data(), s.r.data(), now, before,
                  s.count),
    };
  }

  // What each launch waits for, the two steps side by side.
  static device::Dependencies DependenciesOf(int iterations) {
    device::Dependencies all;
    for (int k = 0; k < iterations; ++k) {
      const auto first = static_cast<uint32_t>(all.size());
      const auto last = first - 1;  // the turn before
      all.push_back(k == 0 ? std::vector<uint32_t>{}
                           : std::vector<uint32_t>{last});
      all.push_back({first});
      all.push_back({first + 1});
      all.push_back({first + 1});
      all.push_back({first + 3});
      all.push_back({first + 2, first + 4});
    }
    return all;
  }

  std::unique_ptr<HandGraph> Graph(int iterations) {
    std::vector<RawLaunch> launches;
    for (int k = 0; k < iterations; ++k) {
      for (const RawLaunch& launch : Iteration(k)) launches.push_back(launch);
    }
    auto graph = std::make_unique<HandGraph>(std::move(launches),
                                             DependenciesOf(iterations));
    graph->Instantiate();
    graph->Upload(stream_);
    return graph;
  }

  // A graph of one iteration becomes that of iteration `k`.
  void Patch(HandGraph& graph, int k) {
    double* const before = solver_.rr[k % 2].data();
    double* const now = solver_.rr[(k + 1) % 2].data();
    graph.launch(2).Set(2, before);
    graph.launch(3).Set(2, before);
    graph.launch(4).Set(2, now);
    graph.launch(5).Set(2, now);
    graph.launch(5).Set(3, before);
    for (size_t node = 2; node < 6; ++node) graph.SetParams(node);
  }

  const device::Driver& driver() const { return driver_; }
  CUstream stream() const { return stream_; }

 private:
  RawLaunch Dot(const Buffer<double>& a, const Buffer<double>& b,
                const Buffer<double>& out) {
    return RawLaunch(dot_, 1, Solver::kOne.block.x, a.data(), b.data(),
                     out.data(), solver_.count);
  }

  const device::Driver& driver_ = perf::TheDevice().driver;
  Solver& solver_;
  const CUstream stream_;
  CUfunction laplacian_ = nullptr;
  CUfunction dot_ = nullptr;
  CUfunction step_ = nullptr;
  CUfunction turn_ = nullptr;
};

// A grid, and what is made for it once.
struct World {
  explicit World(int side) : solver({}, side), hand(solver) {
    std::vector<double> b(solver.b.size());
    Must(solver.stream.CopyToHost(b.data(), solver.b.data(), b.size()));
    double sum = 0;
    for (double value : b) sum += value * value;
    tolerance = kTolerance * std::sqrt(sum);
  }

  Plan Prepare(int iterations) {
    Batch batch = solver.stream.BeginBatch();
    for (int k = 0; k < iterations; ++k) solver.Add(batch, k);
    return Must(batch.Prepare());
  }
  void Submit(int first, int iterations) {
    Batch batch = solver.stream.BeginBatch();
    for (int k = 0; k < iterations; ++k) solver.Add(batch, first + k);
    Must(batch.Submit());
  }
  // plan_1 becomes that of iteration `k`.
  void Set(int k) {
    const double* const before = solver.rr[k % 2].data();
    const double* const now = solver.rr[(k + 1) % 2].data();
    Must(plan_1.Set(2, 2, before));
    Must(plan_1.Set(3, 2, before));
    Must(plan_1.Set(4, 2, now));
    Must(plan_1.Set(5, 2, now));
    Must(plan_1.Set(5, 3, before));
  }

  Solver solver;
  ByHand hand;
  double tolerance = 0;
  Plan plan_1 = Prepare(1);
  Plan plan_32 = Prepare(kBatch);
  std::unique_ptr<HandGraph> graph_1 = hand.Graph(1);
  std::unique_ptr<HandGraph> graph_32 = hand.Graph(kBatch);
};

World& TheWorld(int side) {
  static auto* const worlds = new std::map<int, std::unique_ptr<World>>;
  std::unique_ptr<World>& world = (*worlds)[side];
  if (world == nullptr) world = std::make_unique<World>(side);
  return *world;
}

struct Way {
  const char* name;
  bool by_hand;                      // its start too
  int iterations;                    // that one call enqueues
  std::function<void(int)> enqueue;  // from iteration k on
};

std::vector<Way> WaysOf(World& w) {
  return {
      {"plain", true, 1,
       [&w](int k) {
         for (RawLaunch& launch : w.hand.Iteration(k)) {
           launch.Enqueue(w.hand.driver(), w.hand.stream());
         }
       }},
      {"batch_1", false, 1, [&w](int k) { w.Submit(k, 1); }},
      {"batch_32", false, kBatch, [&w](int k) { w.Submit(k, kBatch); }},
      {"plan_1", false, 1,
       [&w](int k) {
         w.Set(k);
         Must(w.plan_1.Launch());
       }},
      {"plan_32", false, kBatch, [&w](int) { Must(w.plan_32.Launch()); }},
      {"hand_1", true, 1,
       [&w](int k) {
         w.hand.Patch(*w.graph_1, k);
         w.graph_1->Launch(w.hand.stream());
       }},
      {"hand_32", true, kBatch,
       [&w](int) { w.graph_32->Launch(w.hand.stream()); }},
  };
}

// Returns the iterations that it took.
int Solve(World& world, const Way& way, int check_every) {
  if (way.by_hand) {
    world.hand.Begin();
  } else {
    world.solver.Begin();
  }
  for (int k = 0; k < kMostIterations;) {
    way.enqueue(k);
    k += way.iterations;
    if (k % check_every == 0 && world.solver.Residual(k) <= world.tolerance) {
      return k;
    }
  }
  perf::Stop(std::string(way.name) + " does not converge");
}

void BM_ConjugateGradient_Solve(benchmark::State& state) {
  if (!perf::HasGpu(state)) return;
  World& world = TheWorld(static_cast<int>(state.range(0)));
  const auto check_every = static_cast<int>(state.range(1));
  const std::vector<Way> ways = WaysOf(world);

  // All ways have the bits of the first; batches have their plans afterwards.
  std::vector<double> expected;
  int iterations = 0;
  for (int round = 0; round < kWarmRounds; ++round) {
    for (const Way& way : ways) {
      iterations = Solve(world, way, check_every);
      const std::vector<double> found = world.solver.Solution();
      if (expected.empty()) expected = found;
      if (std::memcmp(found.data(), expected.data(),
                      found.size() * sizeof(double)) != 0) {
        state.SkipWithError((std::string(way.name) + ": other bits").c_str());
        return;
      }
      world.solver.stream.WaitForBuilds();
    }
  }

  std::vector<std::vector<double>> times(ways.size());  // [way][round], us
  size_t first = 0;
  for (auto _ : state) {
    for (size_t i = 0; i < ways.size(); ++i) {
      const size_t w = (first + i) % ways.size();
      times[w].push_back(
          perf::MicrosecondsOf([&] { Solve(world, ways[w], check_every); }));
    }
    ++first;
  }

  state.counters["iterations"] = iterations;
  std::map<std::string, size_t> index;
  for (size_t w = 0; w < ways.size(); ++w) {
    index[ways[w].name] = w;
    perf::Samples samples;
    for (double us : times[w]) samples.Add(us);
    state.counters[std::string(ways[w].name) + "_us"] = samples.median();
  }
  // How many times as long the one takes as the other.
  const auto report = [&](const std::string& one, const std::string& other) {
    perf::Samples ratios;
    for (size_t round = 0; round < times[0].size(); ++round) {
      ratios.Add(times[index.at(one)][round] / times[index.at(other)][round]);
    }
    state.counters[one + "_by_" + other] = ratios.median();
  };
  for (const char* way :
       {"batch_1", "batch_32", "plan_1", "plan_32", "hand_1", "hand_32"}) {
    report("plain", way);
  }
  report("batch_1", "hand_1");
  report("plan_1", "hand_1");
  report("batch_32", "hand_32");
  report("plan_32", "hand_32");
  std::string label;
  for (const PlanReport& plan : world.solver.stream.plans()) {
    label += std::string(label.empty() ? "" : "; ") + "batch of " +
             std::to_string(plan.launches) + " by " + perf::Describe(plan);
  }
  state.SetLabel(label);
}
BENCHMARK(BM_ConjugateGradient_Solve)
    ->ArgNames({"side", "check_every"})
    ->ArgsProduct({{32, 64}, {32, 128}})
    ->Iterations(kRounds)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace reprise
