// Which ops to run again so that a squashed replay leaves eager's bits.

#ifndef REPRISE_ENGINE_RESTORE_H_
#define REPRISE_ENGINE_RESTORE_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "engine/trace.h"

namespace reprise::engine {

// The program left the trace after op `verified` - 1, and ops up to `launched`
// have been launched. A value made by a verified op and written by an op of
// [verified, launched) no longer holds what the program must see. Returns the
// verified ops, in program order, whose recorded work run again makes every
// such value right, if `needed(value)` says that the program can still see it.
//
// Running an op again needs its operands as they were: those that were written
// since are rebuilt too, from their birth on (fixpoint). Externals are never
// written by a trace. Pure function; linear in the trace a round.
std::vector<uint32_t> OpsToRestore(const Trace& trace, uint32_t verified,
                                   uint32_t launched,
                                   const std::function<bool(ValueId)>& needed);

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_RESTORE_H_
