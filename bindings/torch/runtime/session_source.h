// Where hooks find their sessions.

#ifndef REPRISE_BINDINGS_TORCH_RUNTIME_SESSION_SOURCE_H_
#define REPRISE_BINDINGS_TORCH_RUNTIME_SESSION_SOURCE_H_

#include <c10/core/Device.h>

#include <atomic>
#include <cstdint>
#include <optional>

#include "scheduler/runtime.h"
#include "scheduler/session.h"

namespace reprise::bindings {

// The active runtime: the kind of device that it serves, and what is on while
// no op need be shown (scheduler::Runtime::asleep). None if there is none.
struct Watched {
  scheduler::DeviceKind kind;
  const scheduler::Skipping* asleep;
};
std::optional<Watched> WatchedNow();

// So many ops were not shown, by this thread.
void PassOver(uint64_t ops);

// The session of a stream (CUstream; null on the host); null where there is
// none, or no runtime for that kind of device is active. May take a lock: hooks
// keep what they get while g_runtime_epoch stands.
scheduler::Session* SessionFor(c10::Device device, void* stream);

// The session has answered Action::kCut or kTell, and the op is run in a
// moment: other sessions are told (scheduler::StreamWrites). `may_wait`: by its
// end the host may have waited for the stream, which `wait` is told. May take
// locks; under no session's lock.
void BeforeOp(scheduler::Session* session, const engine::OpView& op,
              bool may_wait, scheduler::HostWait& wait);

// There are other sessions that would be told.
bool OthersAreTold();

// The host may have waited for a stream or an event: a pass that has begun
// since is interrupted if it may have read what was waited for. Before the
// program goes on; under no session's lock.
void HostHasWaited(const scheduler::HostWait& wait);

// See scheduler::Interrupts::BeforeUnknownWrites. May take locks; under no
// session's lock.
void BeforeUnknownWrites(scheduler::Session* session,
                         const uint64_t* at = nullptr);

// An op is about to leave the book of ops that the sessions of the active
// runtime were not shown.
void NoteUnwatchedWork();

// An op that is not watched uses memory, on a stream (see
// scheduler::Runtime::MemoryIsUsedOn) or on any. May take a lock.
void InterruptSession(c10::Device device, void* stream, const char* what);
void InterruptSessions(const char* what);
// The same of one that stands in the book of ops and tells NoteUnwatchedWork at
// its end, so that what it writes later is found.
void InterruptAnyReplay(const char* what);

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_RUNTIME_SESSION_SOURCE_H_
