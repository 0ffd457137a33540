// Whether an op's own work gives the same bits again, and how far eager's are
// from them.

#ifndef REPRISE_ENGINE_REPLAY_RUN_TWICE_H_
#define REPRISE_ENGINE_REPLAY_RUN_TWICE_H_

#include <cstdint>
#include <functional>
#include <span>

#include "engine/base/status.h"
#include "engine/replay/executor.h"
#include "engine/trace/frontend.h"
#include "kernels/strided_layout.h"

namespace reprise::engine {

// What an op has written, or is to write.
struct WrittenPair {
  uint64_t eager = 0;  // where eager has written it
  uint64_t replayed = 0;
  kernels::Layout layout;
  bool outside = false;  // `replayed` is the program's memory
};

// Runs the op's recorded work twice, each time upon the same bits in all that
// it writes, and compares: under `repeated`, both runs bit by bit; under `op`,
// eager with the second one, to within how far the two are apart
// (Executor::Alike). What is outside `put_back` puts back in between. In the
// order of the session's stream. kResourceExhausted, and nothing is run, where
// there is no memory for copies of what it writes.
struct TwiceTags {
  uint32_t op = 0;
  uint32_t repeated = 0;

  // Of an op of a trace of so many (Executor::kTagsAnOp).
  static TwiceTags Of(uint32_t op, uint32_t ops) { return {op, ops + op}; }
};
base::Status RunTwice(Frontend& frontend, Executor& executor, TwiceTags tags,
                      std::span<const WrittenPair> pairs,
                      const std::function<base::Status()>& put_back);

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_REPLAY_RUN_TWICE_H_
