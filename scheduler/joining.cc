#include "scheduler/joining.h"

#include <algorithm>

namespace reprise::scheduler {

using State = TraceEntry::State;

namespace {

// Traces are joined whose plans are large when they came together so often.
// Their passes take long on the device, where a launch less is little, and to
// learn another one of them is much: it saves as much as it took, then.
constexpr uint32_t kTimesOfLarge = 1024;

// One that cannot be replayed would keep the other from it.
bool MayBeJoined(const TraceEntry& entry) {
  return entry.state == State::kReady ||
         (entry.state == State::kGivenUp && entry.summary.launches == 1);
}

}  // namespace

// It may become a part of what begins with the first one, as that itself may.
bool Joining::MayJoin(const TraceEntry& first, const TraceEntry& entry) const {
  return MayBeJoined(entry) && (first.succession.followed() >= kTimesOfLarge ||
                                !retention_.IsLarge(entry));
}

bool Joining::MayGoOn(const TraceEntry& entry, uint32_t ops) const {
  return entry.joined.may_go_on() && !entry.shared && MayBeJoined(entry) &&
         entry.ops + ops <= most_ops_;
}

std::vector<TraceEntry*> Joining::PartsOf(const TraceEntry& entry,
                                          TraceEntry* behind) const {
  if (!MayJoin(entry, entry) || !MayJoin(entry, *behind)) return {};
  std::vector<TraceEntry*> all = {behind};
  uint32_t ops = entry.ops + behind->ops;
  for (;;) {
    TraceEntry* next = nullptr;
    traces_.ForEach([&](TraceEntry& other) {
      if (other.id == all.back()->succession.follower()) next = &other;
    });
    if (next == nullptr || next == &entry || !MayJoin(entry, *next) ||
        std::ranges::find(all, next) != all.end() ||
        !boundaries_.GoTogether(*all.back(), *next)) {
      return all;
    }
    ops += next->ops;
    if (ops > most_ops_) return all;
    all.push_back(next);
  }
}

}  // namespace reprise::scheduler
