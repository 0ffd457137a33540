// The sessions of a runtime.

#ifndef REPRISE_SCHEDULER_SESSION_TABLE_H_
#define REPRISE_SCHEDULER_SESSION_TABLE_H_

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "engine/base/mutex.h"
#include "scheduler/stream_key.h"
#include "scheduler/stream_session.h"
#include "scheduler/stream_writes.h"

namespace reprise::scheduler {

// Owns one session for each stream, made when it is first asked for and kept.
// Thread-safe. Sessions are called without the table's lock. The exception is
// when one is made: it is paused under the lock, and the first session is told
// that it is not alone any more.
class SessionTable {
 public:
  enum class Place : uint8_t { kFirst, kLater };
  // Makes the session of a stream; null: none can be had. Called under the
  // table's lock.
  using Make =
      std::function<std::unique_ptr<StreamSession>(const StreamKey&, Place)>;

  // `writes`, which must outlive this, is told of each session.
  SessionTable(StreamWrites* writes, Make make)
      : writes_(*writes), make_(std::move(make)) {}

  // Null: none can be had, now or later.
  StreamSession* FindOrMake(const StreamKey& key) REPRISE_EXCLUDES(mutex_);
  // Null: there is none.
  StreamSession* Find(const StreamKey& key) const REPRISE_EXCLUDES(mutex_);
  // The stream of one of the sessions; none: it is another runtime's.
  std::optional<StreamKey> KeyOf(const Session* session) const
      REPRISE_EXCLUDES(mutex_);

  std::vector<StreamSession*> All() const REPRISE_EXCLUDES(mutex_) {
    return Those([](const StreamKey&) { return true; });
  }
  std::vector<StreamSession*> Of(const Devices& devices) const
      REPRISE_EXCLUDES(mutex_) {
    return Those([&devices](const StreamKey& key) { return devices.Has(key); });
  }
  // Those of a device. None if another thread has the lock: never waits.
  std::vector<StreamSession*> TryOf(int device) const REPRISE_EXCLUDES(mutex_);

  // Pauses all, also those to come until Resume (StreamSession::Pause).
  void Pause() REPRISE_EXCLUDES(mutex_);
  void Resume() REPRISE_EXCLUDES(mutex_);

 private:
  struct Slot {
    StreamKey key;
    std::unique_ptr<StreamSession> session;  // null: none can be had
  };

  template <typename Predicate>
  std::vector<StreamSession*> Those(const Predicate& has) const
      REPRISE_EXCLUDES(mutex_) {
    const base::MutexLock lock(mutex_);
    return ThoseLocked(has);
  }
  template <typename Predicate>
  std::vector<StreamSession*> ThoseLocked(const Predicate& has) const
      REPRISE_REQUIRES(mutex_) {
    std::vector<StreamSession*> sessions;
    for (const Slot& slot : slots_) {
      if (slot.session != nullptr && has(slot.key)) {
        sessions.push_back(slot.session.get());
      }
    }
    return sessions;
  }
  void SetPaused(bool paused) REPRISE_EXCLUDES(mutex_);

  StreamWrites& writes_;
  const Make make_;
  mutable base::Mutex mutex_;
  std::vector<Slot> slots_ REPRISE_GUARDED_BY(mutex_);
  bool paused_ REPRISE_GUARDED_BY(mutex_) = false;
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_SESSION_TABLE_H_
