// What a thread keeps between the ops that it issues.

#ifndef REPRISE_BINDINGS_TORCH_THREAD_STATE_H_
#define REPRISE_BINDINGS_TORCH_THREAD_STATE_H_

#include <c10/core/Device.h>

#include <array>
#include <atomic>
#include <cstdint>

#include "scheduler/runtime.h"
#include "scheduler/session.h"

namespace reprise::bindings {

// Plain data, so that it may be used until the thread's last instruction.
struct ThreadState {
  struct KnownSession {
    int device = -1;
    int64_t stream = 0;  // c10::StreamId
    scheduler::Session* session = nullptr;
  };

  // Hooked calls that this thread is inside of and that were shown to a
  // session (or kept from it): what they call belongs to them.
  int depth = 0;
  // Pairs of AllocatorTrace's Begin and Take that are open: an op is recorded.
  size_t open_notes = 0;

  // Of g_runtime_epoch `epoch`.
  uint64_t epoch = ~uint64_t{0};
  bool watched = false;
  scheduler::DeviceKind kind = scheduler::DeviceKind::kHost;
  const std::atomic<bool>* asleep = nullptr;
  uint64_t skipped = 0;  // ops that were not shown since PassOver
  std::array<KnownSession, 2> known{};
  uint32_t next = 0;

  // Reads the kind of the active runtime again if another became active.
  // False if none is active.
  bool Refresh();
  // An op is not shown.
  void SkipOp();
  // The session of the device's current stream. Null where there is none.
  scheduler::Session* FindSession(int device);
  // Interrupts it (scheduler::Session::Interrupt); makes none.
  void Interrupt(int device, const char* what);
};

inline thread_local constinit ThreadState t_thread_state;

// While it lives, hooks on this thread only pass on: what runs is part of an op
// that is known already, or of Reprise.
class DepthGuard {
 public:
  DepthGuard() { ++t_thread_state.depth; }
  ~DepthGuard() { --t_thread_state.depth; }
  DepthGuard(const DepthGuard&) = delete;
  DepthGuard& operator=(const DepthGuard&) = delete;
};

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_THREAD_STATE_H_
