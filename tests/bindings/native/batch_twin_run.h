// Runs a program of the C++ API on the simulated driver and, beside it, on
// plain arrays.

#ifndef REPRISE_TESTS_BINDINGS_NATIVE_BATCH_TWIN_RUN_H_
#define REPRISE_TESTS_BINDINGS_NATIVE_BATCH_TWIN_RUN_H_

#include <cstdint>
#include <string>

#include "bindings/native/common.h"
#include "bindings/native/stream.h"
#include "tests/bindings/native/batch_program.h"
#include "tests/bindings/native/table_device.h"
#include "tests/sim/driver_fault.h"
#include "tests/sim/simulated_streams.h"

namespace reprise::native {

struct RunOptions {
  uint32_t seed = 0;  // of the streams' pace and of orders within graphs
  Patching patching = Patching::kSetParams;
  TableDevice::Which tables = TableDevice::Which::kNone;
  uint32_t plans_per_stream = 64;
  bool pool = true;
  bool refuses_updates = false;  // the driver
  sim::SimulatedStreams::Pace pace = sim::SimulatedStreams::Pace::kAtRandom;
  sim::DriverFault fault = sim::DriverFault::kNone;
  int fail_after = -1;  // driver calls of the program

  std::string ToString() const;
};

// Each mechanism, budget, pace and memory in turn.
RunOptions OptionsOf(uint32_t seed);

struct RunResult {
  std::string failure;  // empty: all as in the reference
  StreamStats stats;    // of all streams
  uint64_t plan_launches = 0;
  uint64_t tables = 0;
  uint64_t updates = 0;    // of nodes of executable graphs
  uint64_t takeovers = 0;  // of whole ones
  uint64_t launched_by_themselves =
      0;  // batches, in the program's last quarter
  std::string failed_call;
  uint64_t told = 0;  // calls that gave an error for it
};

RunResult RunBeside(const Program& program, const RunOptions& options);

// What there is to say of a program that fails: its seed, how it was run, and
// the smallest program that fails too.
std::string Explain(uint32_t seed, const Program& program,
                    const RunOptions& options);

}  // namespace reprise::native

#endif  // REPRISE_TESTS_BINDINGS_NATIVE_BATCH_TWIN_RUN_H_
