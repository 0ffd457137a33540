#include "scheduler/session_table.h"

namespace reprise::scheduler {

StreamSession* SessionTable::FindOrMake(const StreamKey& key) {
  const base::MutexLock lock(mutex_);
  for (const Slot& slot : slots_) {
    if (slot.key == key) return slot.session.get();
  }
  auto session = make_(key, slots_.empty() ? Place::kFirst : Place::kLater);
  if (paused_ && session != nullptr) session->Pause();
  // The first one may have its ops passed over only while it is alone.
  if (slots_.size() == 1 && slots_[0].session != nullptr) {
    slots_[0].session->ShowAll();
  }
  if (session != nullptr) writes_.Add(session.get());
  slots_.push_back({key, std::move(session)});
  return slots_.back().session.get();
}

StreamSession* SessionTable::Find(const StreamKey& key) const {
  const base::MutexLock lock(mutex_);
  for (const Slot& slot : slots_) {
    if (slot.key == key) return slot.session.get();
  }
  return nullptr;
}

std::optional<StreamKey> SessionTable::KeyOf(const Session* session) const {
  const base::MutexLock lock(mutex_);
  for (const Slot& slot : slots_) {
    if (slot.session.get() == session) return slot.key;
  }
  return std::nullopt;
}

std::vector<StreamSession*> SessionTable::TryOf(int device) const {
  if (!mutex_.TryLock()) return {};
  std::vector<StreamSession*> sessions = ThoseLocked(
      [device](const StreamKey& key) { return key.device == device; });
  mutex_.Unlock();
  return sessions;
}

// A session that is made meanwhile is paused, too: `paused_` is written before,
// and read after, under the lock under which sessions are made.
void SessionTable::Pause() {
  SetPaused(true);
  for (StreamSession* session : All()) session->Pause();
}

void SessionTable::Resume() {
  SetPaused(false);
  for (StreamSession* session : All()) session->Resume();
}

void SessionTable::SetPaused(bool paused) {
  const base::MutexLock lock(mutex_);
  paused_ = paused;
}

}  // namespace reprise::scheduler
