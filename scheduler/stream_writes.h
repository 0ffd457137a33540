// What is written on one stream, as the sessions of others must know it.

#ifndef REPRISE_SCHEDULER_STREAM_WRITES_H_
#define REPRISE_SCHEDULER_STREAM_WRITES_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "engine/base/mutex.h"
#include "engine/trace/op.h"
#include "scheduler/memory_ranges.h"
#include "scheduler/ops_under_way.h"
#include "scheduler/session.h"

namespace reprise::scheduler {

// A replay reads memory of the program's ahead of the program. Where another
// stream writes some of it meanwhile and an event orders the two, the reader's
// stream waits for the event, which its session is told of
// (Session::Interrupt). Where only the host orders them (it waits for the
// writer, then goes on), nothing tells it. So the pass that is under way on
// another stream is interrupted if it uses
//
//   - what a cut, or an op of a trace, is about to write;
//   - what these have written on whatever stream, when the host is about to
//     wait for one and when it has waited: the pass may have begun in between,
//     or during the wait, and events may have led from one stream to the other.
//     It is forgotten when the host has waited for the stream of the cut
//     itself.
//
// What ops of a trace write counts like what cuts do (Action::kTell), but for
// what that trace has made, which is nobody else's before a cut.
//
// Sessions must outlive it. Thread-safe; called under no session's lock. While
// there is one session, every call is one load.
class StreamWrites {
 public:
  // `book`, if given, tells of ops that others have been told of and that may
  // not be enqueued yet. It must outlive this. The streams are of that kind of
  // device.
  explicit StreamWrites(const OpsUnderWay* book = nullptr,
                        DeviceKind kind = DeviceKind::kHost)
      : book_(book), kind_(kind) {}

  void Add(Session* session) REPRISE_EXCLUDES(mutex_);
  // There are two sessions or more.
  bool several() const { return several_.load(std::memory_order_acquire); }

  // Session::Enter has answered kCut or kTell for `op`, which is run in a
  // moment and stands in the book (but for kTell of one that may write any
  // memory: Runtime remembers that such ops came). `may_wait`: by its end the
  // host may have waited for the session's stream.
  void BeforeOp(Session* session, const engine::OpView& op, bool may_wait) {
    if (several()) [[unlikely]]
      TellOthers(session, op, may_wait);
  }

  // The host is about to wait for all that the session's stream was given;
  // null: for something else. Returns what AfterWait is to be given.
  uint64_t BeforeWait(const Session* session) REPRISE_EXCLUDES(mutex_);
  // The host has waited, and the program has not gone on yet. What the wait's
  // stream had been given when BeforeWait returned `wait` is forgotten; 0:
  // nothing is.
  void AfterWait(uint64_t wait) REPRISE_EXCLUDES(mutex_);

 private:
  // Of what a stream has written, so many pieces are known apart; of more, no
  // piece is known not to be among them.
  static constexpr size_t kMostPieces = 1024;
  // Waits of a stream that are told apart. Where more are under way, what the
  // oldest is for counts for the one behind it.
  static constexpr size_t kMostWaits = 8;

  struct Written {
    MemoryRanges ranges{};
    bool anything = false;  // more than `ranges` says

    bool none() const { return ranges.empty() && !anything; }
    void Add(const Written& more);
  };
  // What was written before a wait began, and behind the one before it.
  struct Waited {
    Written written;
    uint64_t wait = 0;  // its number, unique in the process
  };
  struct Stream {
    Session* session = nullptr;
    std::deque<Waited> waits{};  // under way, the oldest first
    Written written{};           // since the last of them began

    Written all() const;
  };

  void TellOthers(Session* session, const engine::OpView& op, bool may_wait)
      REPRISE_EXCLUDES(mutex_);
  // Of what all streams have written.
  void TellAll() REPRISE_EXCLUDES(mutex_);
  std::vector<Session*> OthersThan(const Session* session) const
      REPRISE_EXCLUDES(mutex_);

  const OpsUnderWay* const book_;
  const DeviceKind kind_;
  mutable base::Mutex mutex_;
  std::vector<Stream> streams_ REPRISE_GUARDED_BY(mutex_);
  // Release: who sees it set sees the sessions, too.
  std::atomic<bool> several_{false};
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_STREAM_WRITES_H_
