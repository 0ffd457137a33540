// Sees what eager enqueues for each op of a pass that is recorded.

#ifndef REPRISE_ENGINE_TRACE_WORK_RECORDER_H_
#define REPRISE_ENGINE_TRACE_WORK_RECORDER_H_

#include <cstdint>
#include <optional>
#include <string>

#include "engine/base/status.h"
#include "engine/trace/op.h"
#include "engine/trace/trace.h"

namespace reprise::engine {

// Of one session, one pass at a time:
//
//   StartRecording ─► { BeginOp … eager runs … EndOp }* ─► StopRecording
//
// On a GPU it keeps launches, on the host nothing: there the frontend gives
// each op's call (wants_call). Calls come from the op's thread.
class WorkRecorder {
 public:
  enum class Recording : uint8_t { kFirst, kRelocated };

  virtual ~WorkRecorder() = default;

  // What the pass makes takes about so many bytes at once; 0: nobody knows.
  virtual base::Status StartRecording(Recording recording,
                                      uint64_t pass_bytes) = 0;
  virtual void StopRecording() = 0;
  // Failing, nothing can be recorded now, which says nothing about the op; no
  // op is open then.
  virtual base::Status BeginOp(const OpView& op) = 0;
  // Puts what the op enqueued into `op`; says why it cannot be replayed, or
  // nothing.
  virtual std::string EndOp(TracedOp& op) = 0;
  // The frontend is to give each op's call before it runs (host).
  virtual bool wants_call() const = 0;
  // What values hold may be read where they lie (host).
  virtual bool sees_memory() const { return false; }
  // While recording, between ops: the first device work of the stream since the
  // last call that no op made, by the name of its driver call.
  virtual std::optional<std::string> TakeForeignWork() { return std::nullopt; }
  // A head has come and its trace is not recorded.
  virtual void Resting() {}
  // The user is capturing the stream: stand aside.
  virtual bool Capturing() const = 0;
};

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_TRACE_WORK_RECORDER_H_
