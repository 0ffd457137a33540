// Whose time it is: a stream's time goes to the traces that it is in.

#ifndef REPRISE_SCHEDULER_PASS_TIMER_H_
#define REPRISE_SCHEDULER_PASS_TIMER_H_

#include <chrono>
#include <optional>
#include <utility>

#include "scheduler/profit.h"
#include "scheduler/trace_entry.h"

namespace reprise::scheduler {

// Times a pass from its head to the next head of the stream, whichever trace
// that begins, and gives this to the Profit of its trace alone. So two traces
// of one loop, and two programs in turn, do not answer for each other. What no
// trace has (cuts, and the waiting within them) belongs to the pass before it.
//
// It also tells how much of the time the stream is in no trace at all.
//
//   idle ─Begin─► timed ─End─► ended ─NextHead─► idle: the pass is told
//                   └────────NextHead─────────► idle: it was left, and tells
//                                               nothing
//
// Under the session's lock.
class PassTimer {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // A trace begins, perhaps one that is not timed. Returns what a replay has
  // saved the program if one has ended here; else zero.
  Profit::Duration NextHead(TimePoint now) {
    CountGap(now);
    TraceEntry* const entry = std::exchange(entry_, nullptr);
    if (entry == nullptr) return {};
    if (!end_.has_value()) {
      entry->profit.Passed(mode_, std::nullopt);
      return {};
    }
    entry->profit.Passed(mode_, PassTime{*end_ - head_, now - head_});
    return mode_ == Profit::Mode::kReplay ? entry->profit.saving()
                                          : Profit::Duration{};
  }
  // It is that entry's, which is ready, and the pass is to be of that mode.
  void Begin(TraceEntry* entry, Profit::Mode mode, TimePoint now) {
    entry_ = entry;
    mode_ = mode;
    head_ = now;
    end_.reset();
  }
  // All ops of the pass have come, and the last one is done.
  void End(TimePoint now) { end_ = now; }

  // The pass that has begun tells nothing.
  void Disregard() { entry_ = nullptr; }

  // The stream is at a cut, and in no trace until the next head: what it does
  // then, waiting for the device perhaps, no replay shortens.
  void Cut(TimePoint now) {
    if (!cut_.has_value()) cut_ = now;
  }
  bool in_gap() const { return cut_.has_value(); }
  // In most of the last while it was in none.
  bool waits() const { return 2 * gaps_ > time_; }

  // A pass is timed, and has not ended.
  bool runs() const { return entry_ != nullptr && !end_.has_value(); }

  void Forget(const TraceEntry& entry) {
    if (entry_ == &entry) entry_ = nullptr;
  }

 private:
  // After so long what was before counts half.
  static constexpr Profit::Duration kWhile = std::chrono::milliseconds(500);

  void CountGap(TimePoint now) {
    if (last_head_.has_value()) time_ += now - *last_head_;
    if (cut_.has_value()) gaps_ += now - *cut_;
    last_head_ = now;
    cut_.reset();
    if (time_ < kWhile) return;
    time_ /= 2;
    gaps_ /= 2;
  }

  TraceEntry* entry_ = nullptr;
  Profit::Mode mode_ = Profit::Mode::kOther;
  TimePoint head_;
  std::optional<TimePoint> end_;

  std::optional<TimePoint> last_head_;
  std::optional<TimePoint> cut_;
  Profit::Duration time_{};
  Profit::Duration gaps_{};  // of it
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_PASS_TIMER_H_
