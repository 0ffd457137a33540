// Whether an op's own work gives the same bits again.

#ifndef REPRISE_ENGINE_RUN_TWICE_H_
#define REPRISE_ENGINE_RUN_TWICE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "engine/base/status.h"
#include "engine/executor.h"
#include "engine/frontend.h"
#include "kernels/compare.h"

namespace reprise::engine {

// What an op writes.
struct WrittenPlace {
  uint64_t address = 0;
  kernels::Layout layout;
  bool overwritten = false;  // it reads what was there: is put back in between
};

// Runs the op's recorded work twice from the same bits, and compares what it
// wrote under `tag`. `put_back` does for places of the program's what this does
// for those that are `overwritten`; it is called in between. In the order of
// the session's stream. kResourceExhausted, and nothing is run, where there is
// no memory for copies of what it writes.
base::Status RunTwice(Frontend& frontend, Executor& executor, size_t op,
                      std::span<const WrittenPlace> places,
                      const std::function<base::Status()>& put_back,
                      uint32_t tag);

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_RUN_TWICE_H_
