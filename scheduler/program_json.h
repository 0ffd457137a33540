// What a plan is made of, for programs.

#ifndef REPRISE_SCHEDULER_PROGRAM_JSON_H_
#define REPRISE_SCHEDULER_PROGRAM_JSON_H_

#include <string>

#include "engine/program/program.h"

namespace reprise::scheduler {

// JSON text, of which the package makes graphs:
//
//   segments  first_op, end_op, launches, gated
//   ops       name, gate (what it waits for; empty: for nothing), operands
//             (value, written), results (value, dtype, sizes), launches,
//             by_eager, draws, nondeterministic
//   values    external, input, late, private, bytes, and whether it lives_on:
//             the program had it still when the last op came
//
// Any thread. Cost: a walk over the trace.
std::string ProgramJson(const engine::Program& program);

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_PROGRAM_JSON_H_
