// What the host waits for.

#ifndef REPRISE_SCHEDULER_HOST_WAIT_H_
#define REPRISE_SCHEDULER_HOST_WAIT_H_

#include <cstdint>

#include "scheduler/stream_key.h"
#include "scheduler/unwatched_work.h"

namespace reprise::scheduler {

class Interrupts;

// From before a wait until Interrupts::AfterWait. Several waits of a thread may
// be noted in one.
struct HostWait {
  enum class For : uint8_t { kUnknown, kOp, kStream, kDevice, kEvent };

  const Interrupts* noted_by = nullptr;  // a runtime's; null: none did
  For what = For::kUnknown;              // the last of them
  // Work that no session was shown may be among what is waited for.
  bool unwatched = false;
  StreamKey stream{};           // of kStream; its device, of kDevice
  UnwatchedWork::Time began{};  // the last of them
  uint64_t number = 0;          // StreamWrites', of the last wait for a stream
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_HOST_WAIT_H_
