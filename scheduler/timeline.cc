#include "scheduler/timeline.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

namespace reprise::scheduler {
namespace {

// So many are read at once: who adds one meanwhile waits no longer.
constexpr uint64_t kReadAtOnce = 256;

}  // namespace

std::chrono::nanoseconds ToUnixEpoch() {
  using std::chrono::nanoseconds;
  using std::chrono::steady_clock;
  constexpr int kLooks = 8;  // the quickest tells best
  nanoseconds shortest = nanoseconds::max();
  nanoseconds found{};
  for (int look = 0; look < kLooks; ++look) {
    const auto before = steady_clock::now();
    const auto system = std::chrono::system_clock::now();
    const nanoseconds took = steady_clock::now() - before;
    if (took >= shortest) continue;
    shortest = took;
    found = system.time_since_epoch() - (before.time_since_epoch() + took / 2);
  }
  return found;
}

const char* ToString(Doing doing) {
  switch (doing) {
    case Doing::kRecording:
      return "recording";
    case Doing::kRecordingAgain:
      return "recording again";
    case Doing::kBuilding:
      return "build";
    case Doing::kValidatingOps:
      return "validation op by op";
    case Doing::kValidatingWhole:
      return "validation of whole segments";
    case Doing::kReplaying:
      return "replay";
    case Doing::kSquashing:
      return "squash";
    case Doing::kLaunching:
      return "launches";
    case Doing::kTakingOver:
      return "takeover";
    case Doing::kRejected:
      return "rejection";
    case Doing::kEvicted:
      return "eviction";
  }
  return "?";
}

Timeline::Position Timeline::Start() {
  const base::MutexLock lock(mutex_);
  std::vector<Event> ring;
  if (++starts_ == 1) ring.resize(most_events_);
  events_lock_.Lock();
  if (!ring.empty()) ring_.swap(ring);
  const Position position{added_};
  events_lock_.Unlock();
  on_.store(true, std::memory_order_relaxed);
  return position;
}

void Timeline::Stop() {
  const base::MutexLock lock(mutex_);
  if (--starts_ > 0) return;
  on_.store(false, std::memory_order_relaxed);
  std::vector<Event> ring;
  events_lock_.Lock();
  ring_.swap(ring);
  events_lock_.Unlock();
}

TrackId Timeline::AddTrack(std::string name) {
  const base::MutexLock lock(mutex_);
  tracks_.push_back(std::move(name));
  return TrackId{static_cast<uint32_t>(tracks_.size() - 1)};
}

void Timeline::Add(const Event& event) {
  events_lock_.Lock();
  if (!ring_.empty()) ring_[added_++ % ring_.size()] = event;
  events_lock_.Unlock();
}

Timeline::Excerpt Timeline::Since(Position position) const {
  Excerpt excerpt;
  {
    const base::MutexLock lock(mutex_);
    excerpt.tracks = tracks_;
  }
  auto next = static_cast<uint64_t>(position);
  events_lock_.Lock();
  const uint64_t end = ring_.empty() ? next : added_;
  events_lock_.Unlock();
  excerpt.events.reserve(std::min<uint64_t>(end - next, most_events_));
  while (next < end) {
    std::array<Event, kReadAtOnce> read;
    uint64_t count = 0;
    events_lock_.Lock();
    const uint64_t kept = ring_.size();
    const uint64_t oldest = added_ - std::min(added_, kept);
    const uint64_t from = std::min(std::max(next, oldest), end);
    while (count < kReadAtOnce && from + count < end && kept > 0) {
      read[count] = ring_[(from + count) % kept];
      ++count;
    }
    events_lock_.Unlock();
    // What was written over while it was being read is gone with all before it.
    if (from > next) {
      excerpt.lost += from - next;
      excerpt.lost += excerpt.events.size();
      excerpt.events.clear();
    }
    if (kept == 0) break;
    next = from + count;
    excerpt.events.insert(excerpt.events.end(), read.begin(),
                          read.begin() + static_cast<ptrdiff_t>(count));
  }
  return excerpt;
}

std::string TimelineJson(const Timeline::Excerpt& excerpt) {
  using nlohmann::json;
  const std::chrono::nanoseconds epoch = ToUnixEpoch();
  const auto nanoseconds = [&epoch](Timeline::TimePoint time) {
    return (time.time_since_epoch() + epoch).count();
  };
  json timeline = {{"events", json::array()},
                   {"lost", excerpt.lost},
                   {"tracks", excerpt.tracks}};
  for (size_t i = 0; i < excerpt.events.size(); ++i) {
    const Timeline::Event& event = excerpt.events[i];
    json row = {{"doing", ToString(event.doing)},
                {"track", static_cast<uint32_t>(event.track)},
                {"plans", static_cast<uint32_t>(event.plans)},
                {"thread", event.thread},
                {"begin_ns", nanoseconds(event.begin)},
                {"end_ns", nanoseconds(event.end)},
                {"signature", event.signature.ToHex()},
                {"ops", event.ops},
                {"plan_bytes", event.plan_bytes}};
    if (event.left_at != Timeline::kNoOp) row["left_at"] = event.left_at;
    if (!event.text().empty()) row["note"] = event.text();
    if (const auto found = excerpt.places.find(i);
        found != excerpt.places.end()) {
      row["places"] = found->second;
    }
    timeline["events"].push_back(std::move(row));
  }
  // What was cut short may end within a character.
  return timeline.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace reprise::scheduler
