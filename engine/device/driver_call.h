// Which driver calls matter to a recording, and how.

#ifndef REPRISE_ENGINE_DEVICE_DRIVER_CALL_H_
#define REPRISE_ENGINE_DEVICE_DRIVER_CALL_H_

#include <cuda.h>
#include <cupti.h>

#include <cstdint>

namespace reprise::device {

// One entry of the driver's interface, in the eyes of the recorder. A call that
// this table does not know counts as work on every stream, so that nothing that
// enqueues is ever lost; a harmless new call costs a refusal until it is
// listed.
struct DriverCall {
  enum class Use : uint8_t {
    kIgnored,   // enqueues nothing and hands nothing to the host
    kUnloads,   // the same, and a function's handle may name another afterwards
    kLaunch,    // a kernel, a fill or a copy that may be recorded
    kEnqueues,  // puts anything else into a stream, or orders streams
    kOpOnly,    // no work, but an op that makes it cannot be replayed
  };

  Use use = Use::kEnqueues;
  // A null stream means this thread's own default stream.
  bool per_thread_default = false;
  // Where the parameters hold the stream, or one of the two values below.
  int16_t stream_offset = kNoStream;
  // Why it is refused, as a phrase; null where it is not. A literal.
  const char* reason = "a call that Reprise does not know";

  static constexpr int16_t kNoStream = -1;  // acts on every stream
  static constexpr int16_t kInConfig = -2;  // in a launch's CUlaunchConfig
};

// The entry of a callback id of CUPTI's driver domain. Thread-safe.
const DriverCall& ClassifyDriverCall(CUpti_CallbackId id);

}  // namespace reprise::device

#endif  // REPRISE_ENGINE_DEVICE_DRIVER_CALL_H_
