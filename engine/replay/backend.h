// How recorded work is kept, explained and run again: on a GPU as graphs of
// eager's launches, on the host by calling the ops.

#ifndef REPRISE_ENGINE_REPLAY_BACKEND_H_
#define REPRISE_ENGINE_REPLAY_BACKEND_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "engine/base/status.h"
#include "engine/program/program.h"
#include "engine/replay/executor.h"
#include "engine/replay/ledger.h"
#include "engine/trace/trace.h"
#include "engine/trace/work_recorder.h"

namespace reprise::engine {

// What a backend's options say of private values.
inline uint64_t MostPrivate(const std::function<uint64_t()>& private_bytes) {
  return private_bytes ? private_bytes() : 0;
}

// Records and builds for one session. Explain and Instantiate are called from
// any thread, one at a time.
class Backend : public WorkRecorder {
 public:
  // Of two recordings of one signature. kFailedPrecondition when they do not
  // explain each other.
  using Explained = tl::expected<std::shared_ptr<const Program>, BuildFailure>;
  virtual Explained Explain(std::shared_ptr<const Trace> first,
                            const Trace& second) = 0;
  // Of a program that this backend has explained; the instance holds on to it.
  // `arena` is one that others have, too, of MakeArena and large enough; null:
  // it has one to itself. kResourceExhausted when memory is short.
  virtual base::Result<InstanceParts> Instantiate(
      std::shared_ptr<const Program> program,
      std::shared_ptr<Ledger> arena) = 0;
  // For programs whose layouts take no more, and that have no more values.
  virtual base::Result<Ledger::Handle> MakeArena(uint64_t size_bytes,
                                                 size_t values) = 0;
};

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_REPLAY_BACKEND_H_
