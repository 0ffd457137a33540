#include "bindings/native/patch_probe.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <functional>
#include <utility>

#include "engine/device/launch.h"
#include "engine/device/launch_graph.h"

namespace reprise::native {
namespace {

constexpr size_t kFewNodes = 8;
constexpr size_t kManyNodes = 64;
constexpr int kTimes = 9;

// A stream that ends with it.
class Stream {
 public:
  explicit Stream(const device::Driver& driver) : driver_(driver) {}
  ~Stream() {
    if (stream_ == nullptr) return;
    driver_.cuStreamSynchronize(stream_);
    driver_.cuStreamDestroy(stream_);
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  Status Make() {
    REPRISE_CU(driver_, cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING));
    return {};
  }
  CUstream get() const { return stream_; }

 private:
  const device::Driver& driver_;
  CUstream stream_ = nullptr;
};

device::Launch LaunchOf(const KernelCode& kernel) {
  device::Launch launch;
  launch.function = kernel.function();
  launch.params = kernel.params();
  const device::ParamSpan& last = launch.params->back();
  // All zero: one that writes a table writes no vector.
  launch.image.resize(last.offset_bytes + last.size_bytes);
  return launch;
}

// Launches of one kernel, one after another.
class Chain {
 public:
  static Result<std::unique_ptr<Chain>> Make(const device::Driver& driver,
                                             const KernelCode& kernel,
                                             size_t launches, CUstream stream) {
    auto chain = std::make_unique<Chain>();
    chain->launches_.assign(launches, LaunchOf(kernel));
    std::vector<const device::Launch*> pointers;
    for (const device::Launch& launch : chain->launches_) {
      pointers.push_back(&launch);
    }
    REPRISE_ASSIGN_OR_RETURN(
        chain->graph_, device::LaunchGraph::Create(driver, pointers, stream));
    return chain;
  }

  device::LaunchGraph& graph() { return *graph_; }
  // All of it is other bytes.
  void Change() {
    for (device::Launch& launch : launches_) launch.image[0] ^= std::byte{1};
  }
  Status Each(Status (device::LaunchGraph::*call)(size_t)) {
    for (size_t i = 0; i < launches_.size(); ++i) {
      REPRISE_RETURN_IF_ERROR((graph_.get()->*call)(i));
    }
    return {};
  }

 private:
  std::vector<device::Launch> launches_;
  std::unique_ptr<device::LaunchGraph> graph_;
};

// Nanoseconds of `call` with the graph in flight: the median.
Result<double> Time(const device::Driver& driver, CUstream stream, Chain& chain,
                    const std::function<Status()>& call) {
  using Clock = std::chrono::steady_clock;
  std::array<double, kTimes> times;
  for (double& time : times) {
    chain.Change();
    REPRISE_RETURN_IF_ERROR(chain.graph().Launch(stream));
    const Clock::time_point begin = Clock::now();
    REPRISE_RETURN_IF_ERROR(call());
    time =
        std::chrono::duration<double, std::nano>(Clock::now() - begin).count();
    REPRISE_CU(driver, cuStreamSynchronize(stream));
  }
  std::nth_element(times.begin(), times.begin() + kTimes / 2, times.end());
  return times[kTimes / 2];
}

// What grows by `slope` from `at_few` on: what it is at none.
double AtNone(double few, double at_few, double slope) {
  return std::max(0.0, at_few - few * slope);
}

}  // namespace

Result<PatchCosts> PatchProbe::Measure(const device::Driver& driver,
                                       const Kernels& kernels) {
  Stream stream(driver);
  REPRISE_RETURN_IF_ERROR(stream.Make());
  PatchCosts costs;
  const auto begin = std::chrono::steady_clock::now();
  REPRISE_ASSIGN_OR_RETURN(auto many, Chain::Make(driver, *kernels.nothing,
                                                  kManyNodes, stream.get()));
  costs.build_node = std::chrono::duration<double, std::nano>(
                         std::chrono::steady_clock::now() - begin)
                         .count() /
                     kManyNodes;
  REPRISE_ASSIGN_OR_RETURN(
      auto few, Chain::Make(driver, *kernels.nothing, kFewNodes, stream.get()));

  const auto time = [&](Chain& chain, const std::function<Status()>& call) {
    return Time(driver, stream.get(), chain, call);
  };
  REPRISE_ASSIGN_OR_RETURN(const double sets, time(*many, [&] {
                             return many->Each(&device::LaunchGraph::Update);
                           }));
  costs.set = sets / kManyNodes;
  REPRISE_ASSIGN_OR_RETURN(const double stages, time(*many, [&] {
                             return many->Each(&device::LaunchGraph::Stage);
                           }));
  costs.stage = stages / kManyNodes;
  std::array<double, 2> updates{};
  size_t i = 0;
  for (Chain* chain : {few.get(), many.get()}) {
    REPRISE_ASSIGN_OR_RETURN(updates[i++], time(*chain, [&] {
                               return chain->graph().TakeStaged();
                             }));
  }
  costs.update_node =
      std::max(0.0, (updates[1] - updates[0]) / (kManyNodes - kFewNodes));
  costs.update = AtNone(kFewNodes, updates[0], costs.update_node);

  costs.table = HUGE_VAL;
  if (kernels.writers.size() != 2) return costs;
  std::array<double, 2> tables{};
  for (size_t w = 0; w < 2; ++w) {
    REPRISE_ASSIGN_OR_RETURN(
        auto chain, Chain::Make(driver, *kernels.writers[w], 1, stream.get()));
    REPRISE_ASSIGN_OR_RETURN(
        tables[w], time(*chain, [&] { return chain->graph().Update(0); }));
  }
  costs.table_byte =
      std::max(0.0, (tables[1] - tables[0]) / (kManyBytes - kFewBytes));
  costs.table = AtNone(kFewBytes, tables[0], costs.table_byte);
  return costs;
}

}  // namespace reprise::native
