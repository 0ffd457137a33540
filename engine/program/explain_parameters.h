// From two recordings of a trace to one program whose values can be moved.

#ifndef REPRISE_ENGINE_PROGRAM_EXPLAIN_PARAMETERS_H_
#define REPRISE_ENGINE_PROGRAM_EXPLAIN_PARAMETERS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/program/launch_program.h"
#include "engine/program/program.h"
#include "engine/program/unwritten_words.h"
#include "engine/trace/trace.h"

namespace reprise::engine {

struct ExplainedProgram {
  LaunchProgram program;
  // By value of the trace: every address of it in the program is known, so
  // that it can live elsewhere. False for externals that did not move.
  std::vector<bool> movable;
  // By value, temporaries included: the bytes that its place needs. More than
  // its own where buffers of the op reuse its memory.
  std::vector<uint64_t> place_bytes;
  // Addresses in memory of the allocator that launches name and that is no
  // value: it lay where it lies in both recordings.
  std::vector<uint64_t> lasting;
  std::vector<std::string> notes;
};

// Explains every word of every launch of `first` with the help of `second`, op
// by op. Temporaries become values too, numbered on from the trace's own in
// order of op and allocation. kFailedPrecondition, naming the op, when the
// recordings do not explain each other. What `unwritten`, if given, knows is
// nobody's address; it learns from all ops, also from those behind one whose
// words could not be explained.
tl::expected<ExplainedProgram, BuildFailure> ExplainParameters(
    const Trace& first, const Trace& second,
    const std::function<bool(uint64_t)>& is_device_address,
    const std::function<bool(uint64_t)>& may_have_been_address = nullptr,
    UnwrittenWords* unwritten = nullptr);

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_PROGRAM_EXPLAIN_PARAMETERS_H_
