// Small state of the program's that a pass keeps to itself until it is sure.

#ifndef REPRISE_ENGINE_PROGRAM_PRIVATE_VALUES_H_
#define REPRISE_ENGINE_PROGRAM_PRIVATE_VALUES_H_

#include <cstdint>
#include <vector>

#include "engine/trace/trace.h"

namespace reprise::engine {

// Externals that an instance may have a copy of (Effects::privates), ascending:
//
// - ops of the trace write it, all of its storage each: no byte that may be
//   another's is given back. Whatever else they write outside is private, too:
//   else they have to wait for the program anyway. Nor is each of them right in
//   front of one that does;
// - it takes `most_bytes` at most, all of them together 64 times that;
// - it is the same storage at each pass, in memory of the framework's
//   allocator, shares none with another external, and only recorded work uses
//   it; each op that writes it names it by its address (`named`, by value).
//
// Writers that may be nondeterministic, or that draw, are none. Pure function.
// Cost: linear in the trace, and in the externals for each that it finds.
std::vector<ValueId> PrivateValues(const Trace& trace,
                                   const std::vector<ValueId>& inputs,
                                   const std::vector<bool>& named,
                                   uint64_t most_bytes);

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_PROGRAM_PRIVATE_VALUES_H_
