// Runs random programs through sessions and, beside them, plainly.

#ifndef REPRISE_TESTS_SIM_TWIN_RUN_H_
#define REPRISE_TESTS_SIM_TWIN_RUN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tests/sim/random_program.h"
#include "tests/sim/run_options.h"

namespace reprise::sim {

// Runs the programs, each on a stream and in a session of its own, interleaved
// line by line, all against one cache of plans, one build queue, one device.
//
// Found wrong: bytes of any live tensor that differ from the plain run's where
// the host looks and at the end, a use count of a storage that differs at any
// op, work that touches memory that is not the framework's, a guard that was
// overwritten, memory, driver objects, programs of NVRTC's or a subscription to
// CUPTI that are left over at the end.
RunResult RunBeside(const std::vector<Program>& programs,
                    const RunOptions& options);

// The programs that a seed stands for, and how they run.
struct Scenario {
  std::vector<Program> programs;
  RunOptions options;
};
Scenario ScenarioOf(uint32_t seed, Executes executes);

// A failing scenario for people: its smallest program that still fails, the
// seed, and what is wrong.
std::string Explain(uint32_t seed, const Scenario& scenario);

}  // namespace reprise::sim

#endif  // REPRISE_TESTS_SIM_TWIN_RUN_H_
