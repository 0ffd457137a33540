#include "scheduler/patch_probe.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <utility>

#include "engine/device/exiting.h"
#include "engine/device/launch.h"
#include "engine/device/launch_graph.h"
#include "engine/device/unique_handle.h"

namespace reprise::scheduler {

using base::Result;
using base::Status;

namespace {

constexpr size_t kFewNodes = 8;
constexpr size_t kManyNodes = 64;
constexpr int kTimes = 9;
constexpr unsigned kCount = 128;  // elements of a vector, threads of a block
constexpr int kInFlight = 4;      // launches that the device is timed over

// A stream, two points of it, a small table and two vectors behind it; the work
// in flight has ended before they do.
class Bench {
 public:
  explicit Bench(const device::Driver& driver) : driver_(driver) {}
  ~Bench() {
    if (device::Exiting()) return;
    if (stream_) driver_.cuStreamSynchronize(stream_.get());
    if (table_ != 0) driver_.cuMemFree(table_);
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;
  Status Make() {
    CUstream stream = nullptr;
    REPRISE_CU(driver_, cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    stream_ = device::UniqueStream(driver_, stream);
    for (device::UniqueEvent* point : {&begin_, &end_}) {
      CUevent event = nullptr;
      REPRISE_CU(driver_, cuEventCreate(&event, CU_EVENT_DEFAULT));
      *point = device::UniqueEvent(driver_, event);
    }
    constexpr size_t kBytes =
        PatchProbe::kFewBytes + 2 * kCount * sizeof(float);
    REPRISE_CU(driver_, cuMemAlloc(&table_, kBytes));
    REPRISE_CU(driver_, cuMemsetD8Async(table_, 0, kBytes, stream_.get()));
    return {};
  }
  const device::Driver& driver() const { return driver_; }
  CUstream stream() const { return stream_.get(); }
  CUdeviceptr table() const { return table_; }
  CUdeviceptr x() const { return table_ + PatchProbe::kFewBytes; }
  CUdeviceptr y() const { return x() + kCount * sizeof(float); }
  // Nanoseconds of the device for what `work` enqueues.
  Result<double> DeviceTime(const std::function<Status()>& work) {
    REPRISE_CU(driver_, cuEventRecord(begin_.get(), stream()));
    REPRISE_RETURN_IF_ERROR(work());
    REPRISE_CU(driver_, cuEventRecord(end_.get(), stream()));
    REPRISE_CU(driver_, cuStreamSynchronize(stream()));
    float milliseconds = 0;
    REPRISE_CU(driver_,
               cuEventElapsedTime(&milliseconds, begin_.get(), end_.get()));
    return 1e6 * static_cast<double>(milliseconds);
  }

 private:
  const device::Driver& driver_;
  device::UniqueStream stream_;
  device::UniqueEvent begin_;
  device::UniqueEvent end_;
  CUdeviceptr table_ = 0;
};

device::Launch LaunchOf(const engine::KernelCode& kernel) {
  device::Launch launch;
  launch.function = kernel.function();
  launch.params = kernel.params();
  const device::ParamSpan& last = launch.params->back();
  // All zero: one that writes a table writes no vector.
  launch.image.resize(last.offset_bytes + last.size_bytes);
  return launch;
}

// Launches, one after another.
class Chain {
 public:
  static Result<std::unique_ptr<Chain>> Make(
      const Bench& bench, std::vector<device::Launch> launches) {
    auto chain = std::make_unique<Chain>();
    chain->launches_ = std::move(launches);
    std::vector<const device::Launch*> pointers;
    for (const device::Launch& launch : chain->launches_) {
      pointers.push_back(&launch);
    }
    REPRISE_ASSIGN_OR_RETURN(
        chain->graph_,
        device::LaunchGraph::Create(bench.driver(), pointers, bench.stream()));
    return chain;
  }
  static Result<std::unique_ptr<Chain>> Make(const Bench& bench,
                                             const engine::KernelCode& kernel,
                                             size_t launches) {
    return Make(bench, std::vector<device::Launch>(launches, LaunchOf(kernel)));
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

using Times = std::array<double, kTimes>;

double Median(Times& times) {
  std::nth_element(times.begin(), times.begin() + kTimes / 2, times.end());
  return times[kTimes / 2];
}

// Nanoseconds of `call` with the graph in flight.
Result<double> Time(const Bench& bench, Chain& chain,
                    const std::function<Status()>& call) {
  using Clock = std::chrono::steady_clock;
  Times times;
  for (double& time : times) {
    chain.Change();
    REPRISE_RETURN_IF_ERROR(chain.graph().Launch(bench.stream()));
    const Clock::time_point begin = Clock::now();
    REPRISE_RETURN_IF_ERROR(call());
    time =
        std::chrono::duration<double, std::nano>(Clock::now() - begin).count();
    REPRISE_CU(bench.driver(), cuStreamSynchronize(bench.stream()));
  }
  return Median(times);
}

// Nanoseconds of the device for one launch of the graph, behind others.
Result<double> DeviceTime(Bench& bench, Chain& chain) {
  Times times;
  for (double& time : times) {
    REPRISE_ASSIGN_OR_RETURN(time, bench.DeviceTime([&]() -> Status {
      for (int i = 0; i < kInFlight; ++i) {
        REPRISE_RETURN_IF_ERROR(chain.graph().Launch(bench.stream()));
      }
      return {};
    }));
    time /= kInFlight;
  }
  return Median(times);
}

// A straight line through two points, nowhere below zero.
struct Line {
  double at_none = 0;
  double slope = 0;

  static Line Through(double x0, double y0, double x1, double y1) {
    const double slope = std::max(0.0, (y1 - y0) / (x1 - x0));
    return {.at_none = std::max(0.0, y0 - x0 * slope), .slope = slope};
  }
};

// The thread's part of a table, and the device's, compared with launches that
// have their arguments.
Status MeasureTable(Bench& bench, const PatchProbe::Kernels& kernels,
                    PatchCosts& costs) {
  std::array<double, 2> tables{};
  for (size_t w = 0; w < 2; ++w) {
    REPRISE_ASSIGN_OR_RETURN(auto chain,
                             Chain::Make(bench, *kernels.writers[w], 1));
    REPRISE_ASSIGN_OR_RETURN(tables[w], Time(bench, *chain, [&] {
                               return chain->graph().Update(0);
                             }));
  }
  device::Launch axpy = LaunchOf(*kernels.axpy);
  axpy.block.x = kCount;
  axpy.SetWord((*axpy.params)[1].offset_bytes, bench.x());
  axpy.SetWord((*axpy.params)[2].offset_bytes, bench.y());
  std::memcpy(axpy.image.data() + (*axpy.params)[3].offset_bytes, &kCount,
              sizeof kCount);
  device::Launch by_table = LaunchOf(*kernels.by_table);
  by_table.block.x = kCount;
  by_table.SetWord(0, bench.table());
  device::Launch write = LaunchOf(*kernels.writers[0]);
  constexpr unsigned kVectors = PatchProbe::kFewBytes / 16;
  write.block.x = kVectors;
  std::copy(axpy.image.begin(), axpy.image.end(), write.image.begin());
  write.SetWord((*write.params)[1].offset_bytes, bench.table());
  std::memcpy(write.image.data() + (*write.params)[2].offset_bytes, &kVectors,
              sizeof kVectors);
  const auto longer = [&](size_t nodes) -> Result<double> {
    std::vector<device::Launch> launches = {write};
    launches.resize(1 + nodes, by_table);
    REPRISE_ASSIGN_OR_RETURN(auto reading,
                             Chain::Make(bench, std::move(launches)));
    REPRISE_ASSIGN_OR_RETURN(
        auto plain,
        Chain::Make(bench, std::vector<device::Launch>(nodes, axpy)));
    REPRISE_ASSIGN_OR_RETURN(const double with, DeviceTime(bench, *reading));
    REPRISE_ASSIGN_OR_RETURN(const double without, DeviceTime(bench, *plain));
    return with - without;
  };
  REPRISE_ASSIGN_OR_RETURN(const double few, longer(kFewNodes));
  REPRISE_ASSIGN_OR_RETURN(const double many, longer(kManyNodes));
  const Line thread = Line::Through(PatchProbe::kFewBytes, tables[0],
                                    PatchProbe::kManyBytes, tables[1]);
  costs.table = thread.at_none;
  costs.table_byte = thread.slope;
  const Line device = Line::Through(kFewNodes, few, kManyNodes, many);
  costs.device_table = device.at_none;
  costs.device_read = device.slope;
  return {};
}

}  // namespace

Result<PatchCosts> PatchProbe::Measure(const device::Driver& driver,
                                       const Kernels& kernels) {
  Bench bench(driver);
  REPRISE_RETURN_IF_ERROR(bench.Make());
  PatchCosts costs;
  const auto begin = std::chrono::steady_clock::now();
  REPRISE_ASSIGN_OR_RETURN(auto many,
                           Chain::Make(bench, *kernels.axpy, kManyNodes));
  costs.build_node = std::chrono::duration<double, std::nano>(
                         std::chrono::steady_clock::now() - begin)
                         .count() /
                     kManyNodes;
  REPRISE_ASSIGN_OR_RETURN(auto few,
                           Chain::Make(bench, *kernels.axpy, kFewNodes));

  REPRISE_ASSIGN_OR_RETURN(const double sets, Time(bench, *many, [&] {
                             return many->Each(&device::LaunchGraph::Update);
                           }));
  costs.set = sets / kManyNodes;
  REPRISE_ASSIGN_OR_RETURN(const double stages, Time(bench, *many, [&] {
                             return many->Each(&device::LaunchGraph::Stage);
                           }));
  costs.stage = stages / kManyNodes;
  std::array<double, 2> updates{};
  size_t i = 0;
  for (Chain* chain : {few.get(), many.get()}) {
    REPRISE_ASSIGN_OR_RETURN(updates[i++], Time(bench, *chain, [&] {
                               return chain->graph().TakeStaged();
                             }));
  }
  const Line update =
      Line::Through(kFewNodes, updates[0], kManyNodes, updates[1]);
  costs.update = update.at_none;
  costs.update_node = update.slope;

  costs.table = HUGE_VAL;
  if (kernels.writers.size() == 2) {
    REPRISE_RETURN_IF_ERROR(MeasureTable(bench, kernels, costs));
  }
  return costs;
}

}  // namespace reprise::scheduler
