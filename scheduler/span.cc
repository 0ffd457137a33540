#include "scheduler/span.h"

#include <unistd.h>

#include <algorithm>

namespace reprise::scheduler {

void Track::Add(Doing doing, const cache::Signature& signature, uint32_t ops,
                Timeline::TimePoint begin, uint32_t left_at,
                std::string_view note) const {
  Timeline::Event event;
  event.doing = doing;
  event.track = id_;
  event.plans = plans_id_;
  event.thread = static_cast<uint32_t>(gettid());
  event.begin = begin;
  event.end = timeline_->Now();
  event.signature = signature;
  event.ops = ops;
  event.left_at = left_at;
  event.plan_bytes = plans_->stats().charge_bytes;
  std::ranges::copy(note.substr(0, event.note.size() - 1), event.note.begin());
  timeline_->Add(event);
}

void Span::BeginWatched(const Track& track, Doing doing,
                        const cache::Signature& signature, uint32_t ops) {
  track_ = &track;
  doing_ = doing;
  signature_ = signature;
  ops_ = ops;
  begin_ = track.timeline_->Now();
}

void Span::EndWatched(uint32_t left_at, std::string_view note) {
  track_->Add(doing_, signature_, ops_, begin_, left_at, note);
  track_ = nullptr;
}

}  // namespace reprise::scheduler
