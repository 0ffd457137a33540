// Something that Reprise does, from its beginning to its end.

#ifndef REPRISE_SCHEDULER_SPAN_H_
#define REPRISE_SCHEDULER_SPAN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "cache/signature.h"
#include "engine/device/nvtx_range.h"
#include "scheduler/plan_cache.h"
#include "scheduler/timeline.h"

namespace reprise::scheduler {

// Where a stream's spans go, and those of its builds. A value; borrows the
// timeline and the cache of plans. Thread-safe.
class Track {
 public:
  // Nobody looks.
  Track() = default;
  // Of the cache itself: what is evicted stands there. Null: of no cache.
  Track(Timeline* timeline, const PlanCache* plans, std::string name)
      : timeline_(timeline),
        plans_(plans),
        id_(timeline->AddTrack(std::move(name))),
        plans_id_(id_) {}
  // Of a stream whose plans are in the same cache.
  Track Of(std::string name) const {
    Track track = *this;
    if (timeline_ != nullptr) track.id_ = timeline_->AddTrack(std::move(name));
    return track;
  }

  // From now on spans are shown to a tool, too, if one is attached.
  void ShowRanges() { has_ranges_ = device::NvtxRange::Attached(); }

  TrackId id() const { return id_; }
  // Somebody looks at the timeline, or at anything.
  bool noted() const { return timeline_ != nullptr && timeline_->on(); }
  bool watched() const { return noted() || has_ranges_; }

  // Something that has no length.
  void Tell(Doing doing, const cache::Signature& signature, uint32_t ops,
            std::string_view note) const {
    if (noted()) [[unlikely]]
      Add(doing, signature, ops, timeline_->Now(), Timeline::kNoOp, note);
  }

 private:
  friend class Span;

  void Add(Doing doing, const cache::Signature& signature, uint32_t ops,
           Timeline::TimePoint begin, uint32_t left_at,
           std::string_view note) const;

  Timeline* timeline_ = nullptr;
  const PlanCache* plans_ = nullptr;
  TrackId id_ = {};
  TrackId plans_id_ = {};
  bool has_ranges_ = false;
};

// Written down at its end, if somebody looked at its beginning; never, if it is
// begun anew or destroyed before. A tool sees that, too. Move-only;
// thread-compatible. The track must outlive it.
// Cost while nobody looks: one relaxed load at its beginning.
class Span {
 public:
  // A tool shows `name`, or, without one, how the signature begins.
  void Begin(const Track& track, Doing doing, const cache::Signature& signature,
             uint32_t ops, std::string_view name = {}) {
    Drop();
    if (track.watched()) [[unlikely]]
      BeginWatched(track, doing, signature, ops, name);
  }
  void End(std::string_view note = {}) { EndAt(Timeline::kNoOp, note); }
  // Before that op, for which another one came.
  void EndAt(uint32_t left_at, std::string_view note = {}) {
    if (track_ != nullptr) [[unlikely]]
      EndWatched(left_at, note);
  }
  // Nothing came of it.
  void Drop() {
    if (track_ != nullptr) [[unlikely]]
      *this = Span();
  }

 private:
  void BeginWatched(const Track& track, Doing doing,
                    const cache::Signature& signature, uint32_t ops,
                    std::string_view name);
  void EndWatched(uint32_t left_at, std::string_view note);

  const Track* track_ = nullptr;  // null: nobody looks
  Doing doing_ = Doing::kReplaying;
  uint32_t ops_ = 0;
  cache::Signature signature_;
  std::optional<Timeline::TimePoint> begin_;  // for the timeline
  device::NvtxRange range_;                   // for a tool
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_SPAN_H_
