// Whether a stream's ops are shown to its session at all.

#ifndef REPRISE_SCHEDULER_STREAM_SLEEP_H_
#define REPRISE_SCHEDULER_STREAM_SLEEP_H_

#include "scheduler/attention.h"
#include "scheduler/skipping.h"
#include "scheduler/unwatched_work.h"

namespace reprise::scheduler {

// A stream sleeps while watching it gains nothing, or while that is being
// measured (Attention). Where it is the only stream, threads then skip its ops
// without a session (Skipping). When it wakes up, work that nobody watched may
// be left (UnwatchedWork).
//
// Of one session, under its lock.
class StreamSleep {
 public:
  using Duration = Attention::Duration;

  // Both may be null and are borrowed: no op is skipped; nobody asks what was
  // enqueued meanwhile.
  StreamSleep(Skipping* skipping, UnwatchedWork* unwatched)
      : skipping_(skipping), unwatched_(unwatched) {}

  // The stream is to sleep. Ops that are shown all the same are let pass.
  bool wanted() const { return attention_.asleep(); }
  // Threads skip ops of the stream, which no replay would be told of.
  bool skips() const { return skipping_ != nullptr && skipping_->on(); }

  // An op has come to be let pass: those behind it may be skipped.
  void Begin() {
    if (skipping_ != nullptr && is_alone_) skipping_->Begin();
  }
  // All ops are shown from now on. It may have to sleep on (Skipping::End).
  void End();
  // There is another session: none of this one's ops is skipped any more.
  void NotAlone() {
    is_alone_ = false;
    End();
  }

  // Replays have saved so much.
  void Earn(Duration saved) { saved_ += saved; }
  Duration saved() const { return saved_; }
  // Called every so many ops (Attention::kOps). `seen`: what came of watching,
  // without what was saved. Returns a sentence for the report if the stream has
  // fallen asleep now, else null.
  const char* Look(Attention::Seen seen, Attention::Clock::time_point now);

  void Reset() {
    saved_ = {};
    attention_ = Attention{};
    End();
  }

 private:
  Skipping* const skipping_;
  UnwatchedWork* const unwatched_;
  bool is_alone_ = true;
  Duration saved_{};
  Attention attention_;
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_STREAM_SLEEP_H_
