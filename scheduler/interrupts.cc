#include "scheduler/interrupts.h"

#include <optional>

namespace reprise::scheduler {

void Interrupts::All(const char* what) {
  // Cleared first: a trace that is begun meanwhile is not missed. Whoever finds
  // it cleared before this has ended finds this (may_have_opened).
  interrupting_.fetch_add(1, std::memory_order_relaxed);
  opened_.store(false, std::memory_order_release);
  Others(nullptr, what);
  interrupting_.fetch_sub(1, std::memory_order_release);
}

void Interrupts::Others(const Session* session, const char* what) {
  for (StreamSession* other : parts_.sessions->All()) {
    if (other != session) other->Interrupt(what);
  }
}

void Interrupts::BeforeUnknownWrites(Session* session, const uint64_t* at) {
  constexpr char kWhat[] = "an op may write any memory";
  NoteUnknownWrites();
  if (session == nullptr || parts_.writes->several()) Others(session, kWhat);
  if (session != nullptr && at != nullptr) {
    session->InterruptUnlessAt(at, kWhat);
  }
}

void Interrupts::BeforeOp(Session* session, const engine::OpView& op,
                          bool may_wait, HostWait& wait) {
  if (!parts_.writes->several()) return;
  if (may_wait) {
    const UnwatchedWork& unwatched = *parts_.unwatched;
    wait = {.noted_by = this, .what = HostWait::For::kOp};
    wait.began = unwatched.Now();
    if (unwatched.any()) {
      const std::optional<StreamKey> stream = parts_.sessions->KeyOf(session);
      wait.unwatched = !stream.has_value() || unwatched.MayBeOn(*stream);
    }
    if (unseen() || wait.unwatched) {
      Others(session, "the host waits for another stream");
    }
  }
  parts_.writes->BeforeOp(session, op, may_wait);
}

void Interrupts::Renew(HostWait& wait) const {
  if (wait.noted_by == this) return;
  wait = {.noted_by = this, .unwatched = wait.noted_by != nullptr};
}

void Interrupts::NoteWait(const StreamKey& stream, HostWait& wait) const {
  Renew(wait);
  wait.what = HostWait::For::kStream;
  wait.stream = stream;
  wait.began = parts_.unwatched->Now();
  wait.unwatched |= parts_.unwatched->MayBeOn(stream);
}

void Interrupts::NoteWaitForEvent(const void* event, HostWait& wait) const {
  Renew(wait);
  wait.what = HostWait::For::kEvent;
  wait.began = parts_.unwatched->Now();
  wait.unwatched |= parts_.unwatched->MayBeBehind(event);
}

void Interrupts::NoteWaitForDevice(int device, HostWait& wait) const {
  Renew(wait);
  wait.what = HostWait::For::kDevice;
  wait.stream.device = device;
  wait.began = parts_.unwatched->Now();
  wait.unwatched |= parts_.unwatched->any();
}

void Interrupts::BeforeWait(const StreamKey& stream, const char* what,
                            HostWait& wait) {
  NoteWait(stream, wait);
  wait.number = 0;
  if (unseen()) {
    All(what);
    return;
  }
  Session* const session = parts_.sessions->Find(stream);
  if (wait.unwatched) {
    All(what);
  } else if (session != nullptr) {
    (void)session->Interrupt(what);
  }
  // Also where it has no session: events may have led there from others.
  wait.number = parts_.writes->BeforeWait(session);
}

void Interrupts::BeforeWaitForEvent(const void* event, HostWait& wait) {
  NoteWaitForEvent(event, wait);
  if (unseen() || wait.unwatched) {
    All("the host waits for an event");
  } else {
    (void)parts_.writes->BeforeWait(nullptr);
  }
}

void Interrupts::AfterWait(const HostWait& noted) {
  using For = HostWait::For;
  UnwatchedWork& unwatched = *parts_.unwatched;
  const HostWait wait = noted.noted_by == this ? noted : HostWait{};
  // Such work may have come during the wait.
  const bool may_be_unwatched =
      wait.unwatched ||
      (unwatched.any() && (wait.what == For::kUnknown ||
                           wait.began.additions != unwatched.Now().additions));
  if (unseen() || may_be_unwatched) All("the host has waited");
  if (!unseen()) parts_.writes->AfterWait(wait.number);
  if (wait.what == For::kStream) {
    unwatched.HasWaitedFor(wait.stream, wait.began);
  } else if (wait.what == For::kDevice) {
    unwatched.HasWaitedForDevice(wait.stream.device, wait.began);
  }
}

}  // namespace reprise::scheduler
