// Which sessions are told that memory is used without an op.

#ifndef REPRISE_SCHEDULER_INTERRUPTS_H_
#define REPRISE_SCHEDULER_INTERRUPTS_H_

#include <atomic>
#include <cstdint>

#include "engine/trace/op.h"
#include "scheduler/host_wait.h"
#include "scheduler/session.h"
#include "scheduler/session_table.h"
#include "scheduler/stream_key.h"
#include "scheduler/stream_writes.h"
#include "scheduler/unwatched_work.h"

namespace reprise::scheduler {

// A program may write memory that a replay reads ahead without an op that a
// session is shown: through an address, by work that nobody watched, by an op
// that may write anything. It uses what it wrote after the host has waited. So
// passes end at such a use, and at waits that it may be behind.
//
// Of one runtime. Thread-safe; called under no session's lock.
class Interrupts {
 public:
  struct Parts {  // all borrowed
    const SessionTable* sessions = nullptr;
    StreamWrites* writes = nullptr;
    UnwatchedWork* unwatched = nullptr;
  };
  explicit Interrupts(const Parts& parts) : parts_(parts) {}

  // --- Sessions ---

  // Becomes true when a session begins a trace. Set relaxed: a thread that has
  // begun something finds it, and others that have not been ordered behind that
  // need not.
  std::atomic<bool>* opened() { return &opened_; }
  // False if no trace has been begun on any session since the last All, and
  // that call has ended: there is nothing to interrupt.
  bool may_have_opened() const {
    return opened_.load(std::memory_order_acquire) ||
           interrupting_.load(std::memory_order_acquire) != 0;
  }
  // Session::Interrupt of all, or of all but that one.
  void All(const char* what);
  void Others(const Session* session, const char* what);

  // --- Writes of which nobody tells ---

  // Memory was used without an op: what writes it from now on, on whatever
  // stream, is not seen. Relaxed: the thread that did it goes on to order
  // others behind that itself.
  void NoteUnseen() { unseen_.store(true, std::memory_order_relaxed); }
  // That, and All: the program takes an address.
  void MemoryIsUsed(const char* what) {
    NoteUnseen();
    All(what);
  }
  // The same as NoteUnseen of an op that may write any memory. It counts once
  // there are several streams: its own stream's session knows of the op.
  void NoteUnknownWrites() {
    if (unknown_writes_.load(std::memory_order_relaxed)) return;
    unknown_writes_.store(true, std::memory_order_relaxed);
  }
  bool unseen() const {
    return unseen_.load(std::memory_order_relaxed) ||
           (unknown_writes_.load(std::memory_order_relaxed) &&
            parts_.writes->several());
  }
  // An op that stands in the book of ops may write memory of which its operands
  // do not tell, from now on. Interrupts all sessions but its own, which has
  // nothing run ahead if it is at that op still. `at`: the op's words, if it
  // stood in the book as another one before and `session` may have gone on.
  // Null session: the op's own is not known, and all are interrupted.
  void BeforeUnknownWrites(Session* session, const uint64_t* at = nullptr);
  // See StreamWrites. `wait`: what AfterWait is to be given if the host has
  // waited by the end of the op. A `session` that is none of this runtime's may
  // wait for anything.
  void BeforeOp(Session* session, const engine::OpView& op, bool may_wait,
                HostWait& wait);

  // There are sessions that these would tell.
  bool has_several_streams() const { return parts_.writes->several(); }

  // --- Waits of the host ---

  // The host is about to wait for a stream, or for an event of whatever stream,
  // maybe inside of an op: `wait` is what AfterWait is to be given.
  void NoteWait(const StreamKey& stream, HostWait& wait) const;
  void NoteWaitForEvent(const void* event, HostWait& wait) const;
  void NoteWaitForDevice(int device, HostWait& wait) const;
  // The same outside of ops. Interrupts that stream's session, and others whose
  // pass uses what has been written on other streams (StreamWrites).
  void BeforeWait(const StreamKey& stream, const char* what, HostWait& wait);
  void BeforeWaitForEvent(const void* event, HostWait& wait);
  // The host has waited, for whatever it was, and the program goes on in a
  // moment: interrupts the passes that have begun during the wait and may have
  // read what it was for. `noted`: what was noted of it, maybe by the runtime
  // that was active when it began.
  void AfterWait(const HostWait& noted);
  // False: AfterWait does nothing.
  bool tells_of_waits() const {
    return unseen() || parts_.unwatched->any() || parts_.writes->several();
  }

 private:
  // One of another runtime does not know what was waited for before.
  void Renew(HostWait& wait) const;

  const Parts parts_;
  std::atomic<bool> opened_{false};
  std::atomic<int> interrupting_{0};  // threads in All
  std::atomic<bool> unseen_{false};
  std::atomic<bool> unknown_writes_{false};
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_INTERRUPTS_H_
