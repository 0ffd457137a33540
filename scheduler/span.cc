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
  if (plans_ != nullptr) event.plan_bytes = plans_->stats().charge_bytes;
  std::ranges::copy(note.substr(0, event.note.size() - 1), event.note.begin());
  timeline_->Add(event);
}

void Span::BeginWatched(const Track& track, Doing doing,
                        const cache::Signature& signature, uint32_t ops,
                        std::string_view name) {
  track_ = &track;
  doing_ = doing;
  signature_ = signature;
  ops_ = ops;
  if (track.has_ranges_) {
    constexpr size_t kShown = 8;
    range_ = device::NvtxRange(
        (ToString(doing) +
         (" " + (name.empty() ? signature.ToHex().substr(0, kShown)
                              : std::string(name))))
            .c_str());
  }
  if (track.noted()) begin_ = track.timeline_->Now();
}

void Span::EndWatched(uint32_t left_at, std::string_view note) {
  if (begin_) track_->Add(doing_, signature_, ops_, *begin_, left_at, note);
  *this = Span();
}

}  // namespace reprise::scheduler
