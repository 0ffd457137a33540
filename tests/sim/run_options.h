// How programs run beside sessions, and what came of it.

#ifndef REPRISE_TESTS_SIM_RUN_OPTIONS_H_
#define REPRISE_TESTS_SIM_RUN_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/options.h"
#include "scheduler/stats.h"
#include "tests/sim/failing_calls.h"
#include "tests/sim/fault.h"
#include "tests/sim/simulated_streams.h"

namespace reprise::sim {

enum class Executes : uint8_t { kOnHost, kOnDevice };

// Whether the session is told where passes begin and end: of three in four, or
// anywhere.
enum class Edges : uint8_t { kUntold, kTold, kToldAtRandom };

struct RunOptions {
  Executes executes = Executes::kOnDevice;
  uint32_t seed = 0;  // of the device's pace and of how programs interleave
  SimulatedStreams::Pace pace = SimulatedStreams::Pace::kAtRandom;
  size_t plan_budget_bytes = size_t{1} << 20;
  size_t trace_budget_bytes = base::Options{}.trace_budget_bytes;
  double validate_share = 0;
  uint32_t segment_launches = 3;
  size_t max_instances = 2;
  bool shares_arenas = false;  // of any size
  uint64_t private_bytes = 0;  // engine::Effects::Of
  // kMeasured: by a clock that goes on at random.
  base::Policy policy = base::Policy::kAlways;
  Fault fault = Fault::kNone;
  uint32_t foretold_percent = 0;  // StreamOps
  Edges edges = Edges::kUntold;
  // Now and then a driver call or, on the host executor, a recorded call that
  // has done its work fails.
  bool fails_at_random = false;
  int fail_after = -1;  // as SimulatedGpu::FailAfter, from the first op on
  // The same for CUPTI and NVRTC.
  int fail_cupti_after = -1;
  int fail_nvrtc_after = -1;
  FailingCalls::Lasts lasts = FailingCalls::Lasts::kOnce;
};

struct RunResult {
  // What went wrong, in words; empty if nothing did.
  std::string failure;

  uint64_t ops = 0;        // of the programs, shown or not
  scheduler::Stats stats;  // of all sessions together
  BackendCounts backend;
  uint64_t evictions = 0;
  uint64_t driver_calls = 0;
  std::string failed_call;              // the (first) one that was made to fail
  std::vector<std::string> complaints;  // reasons and notes of the journals
  // Whether all of the last pass of each program, but for at most
  // `unfollowed_ops` ops, was followed.
  uint64_t unfollowed_ops = 0;
};

}  // namespace reprise::sim

#endif  // REPRISE_TESTS_SIM_RUN_OPTIONS_H_
