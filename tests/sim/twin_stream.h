// The sessions of one simulated stream, and the device that streams share.

#ifndef REPRISE_TESTS_SIM_TWIN_STREAM_H_
#define REPRISE_TESTS_SIM_TWIN_STREAM_H_

#include <cuda.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/task.h"
#include "engine/device/launch_recorder.h"
#include "kernels/compare.h"
#include "kernels/nvrtc.h"
#include "scheduler/ops_under_way.h"
#include "scheduler/plan_cache.h"
#include "scheduler/stats.h"
#include "scheduler/stream_session.h"
#include "scheduler/stream_writes.h"
#include "tests/engine/base/manual_clock.h"
#include "tests/engine/base/manual_task_runner.h"
#include "tests/sim/failing_calls.h"
#include "tests/sim/fault.h"
#include "tests/sim/run_options.h"
#include "tests/sim/simulated_gpu.h"
#include "tests/sim/simulated_memory.h"
#include "tests/sim/simulated_nvrtc.h"
#include "tests/sim/simulated_program.h"
#include "tests/sim/stream_ops.h"

namespace reprise::sim {

// What all programs share.
struct TwinDevice {
  explicit TwinDevice(const RunOptions& options)
      : fault(options.fault), plans(options.plan_budget_bytes) {
    gpu.accessible = [this](uint64_t address, size_t size_bytes) {
      return memory.Accessible(address, size_bytes);
    };
    gpu.is_memory = [this](uint64_t address) { return memory.Owns(address); };
    gpu.order.emplace(options.seed);
    if (fault == Fault::kEdgeForgotten) gpu.forgets_edges = 16;
    times.seed(options.seed);
    // The host executor works on the thread that launches.
    if (options.executes == Executes::kOnDevice) {
      gpu.streams.SetPace(options.pace, options.seed);
    }
  }

  // As the allocator of a device does; that of the host tells nobody.
  void BeforeMemoryGoes() {
    for (scheduler::StreamSession* session : told) session->BeforeMemoryGoes();
  }
  void GiveBack() {
    BeforeMemoryGoes();
    gpu.streams.SynchronizeAll();
    memory.GiveBack();
  }

  // As a Runtime has it, but that the kernels are functions.
  base::Result<kernels::DeviceCompare*> Compare() {
    if (compiled == nullptr) {
      REPRISE_ASSIGN_OR_RETURN(const kernels::Nvrtc made,
                               kernels::Nvrtc::Create(nvrtc.entries));
      REPRISE_ASSIGN_OR_RETURN(
          compiled, kernels::DeviceCompare::Create(gpu.driver, 0, made));
    }
    return &compare;
  }

  // As a Runtime has them. kOthersUntold: to no session but one.
  void BeforeOp(scheduler::Session* session, const engine::OpView& op,
                bool waits) {
    if (fault != Fault::kOthersUntold) writes.BeforeOp(session, op, waits);
  }
  // `event`: the host waits for an event of its stream. Returns what AfterWait
  // is to be given.
  uint64_t BeforeWait(scheduler::Session* session, bool event) {
    if (!event) session->Interrupt("the host waits for the stream");
    if (fault == Fault::kOthersUntold) return 0;
    return writes.BeforeWait(event ? nullptr : session);
  }
  void AfterWait(uint64_t wait) {
    if (fault != Fault::kOthersUntold) writes.AfterWait(wait);
  }

  // Null where nobody is to look at it.
  const scheduler::OpsUnderWay* UnderWay() const {
    return fault == Fault::kUnderWayUnnoted ? nullptr : &under_way;
  }

  const Fault fault;
  scheduler::OpsUnderWay under_way;
  scheduler::StreamWrites writes;
  std::vector<scheduler::StreamSession*> begun;  // as `writes` has them
  std::vector<scheduler::StreamSession*> told;   // of memory that goes
  SimulatedGpu gpu;
  SimulatedMemory memory{size_t{3} << 20};
  ModelKernels kernels;
  SimulatedCompare compare{&gpu.streams};
  SimulatedNvrtc nvrtc;
  std::unique_ptr<kernels::DeviceCompare> compiled;
  std::unique_ptr<device::LaunchRecorder> recorder =
      device::LaunchRecorder::Create(gpu.driver, gpu.cupti);
#ifdef REPRISE_MEASURE
  std::atomic<bool> skip_launches{false};
#endif
  scheduler::PlanCache plans;
  BackendCounts counts;
  base::ManualTaskRunner builds;
  base::ManualClock clock;
  std::mt19937 times;  // that ops take by the clock
  FailingCalls host_calls;
  uint64_t orders = 0;  // of streams among each other
};

// As a process has several runtimes, one for each set of options, so that a
// stream has several sessions, all of them paused but one. `device` outlives
// it. Single-thread.
class TwinStream {
 public:
  // Ops aside go through `aside`, if they come.
  TwinStream(const RunOptions& options, TwinDevice* device, CUstream stream,
             StreamOps* aside);
  // It is one of those that are told of each other's writes: from its first op
  // on, as a Runtime has it.
  void Begin();
  ~TwinStream();
  TwinStream(const TwinStream&) = delete;
  TwinStream& operator=(const TwinStream&) = delete;

  StreamOps& ops() { return ops_; }
  CUstream stream() const { return stream_; }
  scheduler::StreamSession& session() { return *slots_[slot_].session; }

  void Pause(bool shows_ops_all_the_same);
  void Resume();
  void Reset();
  // Back and forth between two.
  void TakeOtherOptions();

  // What a library keeps for itself is freed.
  void ClearWorkspaces();

  // Of all its sessions there were since they were last reset.
  scheduler::Stats Stats();
  // Ends the sessions, not what tensors hold.
  void End(RunResult& result);

 private:
  struct Slot {
    std::unique_ptr<scheduler::StreamSession> session;
    StreamFrontend* frontend = nullptr;  // the session's
  };

  // From now on ops go through the session of that slot.
  void Take(size_t slot);
  void MakeSession(const RunOptions& options, Slot& slot);
  // A session whose stream has begun.
  void Add(scheduler::StreamSession* session);
  std::unique_ptr<engine::Backend> MakeBackend(const RunOptions& options,
                                               StreamFrontend* frontend);
  // What the journal holds, before it goes.
  void Collect(scheduler::StreamSession& session);

  const RunOptions options_;
  TwinDevice& device_;
  const CUstream stream_;
  StreamOps ops_;
  std::array<Slot, 2> slots_;
  size_t slot_ = 0;
  scheduler::Stats stats_;  // of what has ended
  std::vector<std::string> complaints_;
  bool begun_ = false;
};

}  // namespace reprise::sim

#endif  // REPRISE_TESTS_SIM_TWIN_STREAM_H_
