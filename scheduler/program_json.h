// What a plan is made of, for programs.

#ifndef REPRISE_SCHEDULER_PROGRAM_JSON_H_
#define REPRISE_SCHEDULER_PROGRAM_JSON_H_

#include <string>

#include "engine/program/program.h"

namespace reprise::scheduler {

// JSON text: `segments`, `ops` and `values`, as docs/report.md has them. Any
// thread. Cost: a walk over the trace.
std::string ProgramJson(const engine::Program& program);

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_PROGRAM_JSON_H_
