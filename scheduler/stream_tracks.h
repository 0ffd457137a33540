// The tracks of streams that come and go.

#ifndef REPRISE_SCHEDULER_STREAM_TRACKS_H_
#define REPRISE_SCHEDULER_STREAM_TRACKS_H_

#include <string>
#include <vector>

#include "engine/base/mutex.h"
#include "scheduler/span.h"
#include "scheduler/timeline.h"

namespace reprise::scheduler {

// Gives each stream a track, "stream 1" and so on, and that of a stream that
// has ended to the next one: there are never more than streams were at once.
// Borrows the timeline. Thread-safe.
class StreamTracks {
 public:
  enum class Ranges : bool { kHidden, kShown };  // to tools (Track::ShowRanges)

  StreamTracks(Timeline* timeline, Ranges ranges)
      : timeline_(timeline), ranges_(ranges) {}

  Track Take() REPRISE_EXCLUDES(mutex_) {
    const base::MutexLock lock(mutex_);
    if (!free_.empty()) {
      const Track track = free_.back();
      free_.pop_back();
      return track;
    }
    Track track(timeline_, nullptr, "stream " + std::to_string(++count_));
    if (ranges_ == Ranges::kShown) track.ShowRanges();
    return track;
  }
  // One that was taken. Builds that it began may still be under way.
  void Return(const Track& track) REPRISE_EXCLUDES(mutex_) {
    const base::MutexLock lock(mutex_);
    free_.push_back(track);
  }

 private:
  Timeline* const timeline_;
  const Ranges ranges_;
  base::Mutex mutex_;
  std::vector<Track> free_ REPRISE_GUARDED_BY(mutex_);
  int count_ REPRISE_GUARDED_BY(mutex_) = 0;
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_STREAM_TRACKS_H_
