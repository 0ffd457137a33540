// Traces that always come together are one.

#ifndef REPRISE_SCHEDULER_JOINED_H_
#define REPRISE_SCHEDULER_JOINED_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "cache/signature.h"
#include "scheduler/trace_id.h"

namespace reprise::scheduler {

// Of a trace: how it goes on to become a longer one, once; and of a longer one
// what it was joined of.
//
//   beginning: GoOn ─► (its head comes, and more ops) ─► StopGoingOn
//   longer one:                                              └─► Become
//
// A single-thread value.
class Joined {
 public:
  // What became a part, and how often it had come by itself when that was last
  // looked at.
  struct Part {
    TraceId id = TraceId::kNone;
    uint64_t seen = 0;
  };
  using Parts = std::vector<Part>;

  // --- The beginning ---

  // It has not yet gone on.
  bool may_go_on() const { return !went_on_; }
  // From its next head on it goes on for so many ops.
  void GoOn(uint32_t ops) {
    went_on_ = true;
    goes_on_for_ = ops;
  }
  // Zero: it does not.
  uint32_t goes_on_for() const { return goes_on_for_; }
  // It goes on with itself, time and again: a loop.
  void GoOnAsRun() { becomes_.run = true; }
  // It goes on with that one, behind those that were told before.
  void GoOnWith(Part part, const Joined& joined) {
    becomes_.run |= is_.run || joined.is_.run;
    becomes_.several |=
        at_.has_value() || joined.at_.has_value() || ++follow_ > 1;
    parts_.insert(parts_.end(), joined.parts_.begin(), joined.parts_.end());
    parts_.push_back(part);
  }
  // The longer one has come, or a cut in its place. Returns its parts.
  Parts StopGoingOn() {
    goes_on_for_ = 0;
    return std::exchange(parts_, {});
  }

  // --- The longer one ---

  // This is it, behind that beginning.
  void Become(const cache::Signature& signature, const Joined& beginning,
              Parts parts) {
    at_ = signature;
    is_ = beginning.becomes_;
    parts_ = std::move(parts);
  }
  // Its parts are traces again.
  void ComeApart() { at_.reset(); }
  // What it begins with; none: it was not joined.
  const std::optional<cache::Signature>& at() const { return at_; }
  bool is_joined() const { return at_.has_value(); }
  // A loop, which may be left at each time round.
  bool is_run() const { return is_joined() && is_.run; }
  // Or more than two parts, which may be left between any.
  bool may_be_left_anywhere() const {
    return is_joined() && (is_.run || is_.several);
  }

  // --- Its parts, whose plans may be in nobody's use any more ---

  // It was replayed so often: they, and others, may be looked at again.
  bool AreDue(uint64_t replays) const {
    return replays - looked_at_ >= kReplaysWithoutPart;
  }
  bool has_parts() const { return !parts_.empty(); }
  void AddPart(Part part) { parts_.push_back(part); }
  // They are looked at now; those that stay are to be added again.
  Parts TakeParts(uint64_t replays) {
    looked_at_ = replays;
    return std::exchange(parts_, {});
  }
  // The same loop, rotated, counts as a part. It is looked for once.
  bool MayLookForRotated(uint64_t replays) {
    if (std::exchange(looked_for_rotated_, true)) return false;
    looked_at_ = replays;
    return true;
  }

 private:
  // So many replays between which a part has not come show that it comes no
  // more by itself.
  static constexpr uint64_t kReplaysWithoutPart = 64;

  struct Form {
    bool run = false;
    bool several = false;
  };

  bool went_on_ = false;
  uint32_t goes_on_for_ = 0;
  uint32_t follow_ = 0;  // traces, each with its own parts
  Form becomes_;

  std::optional<cache::Signature> at_;
  Form is_;
  Parts parts_;
  uint64_t looked_at_ = 0;  // after so many replays
  bool looked_for_rotated_ = false;
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_JOINED_H_
