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

  // A pass is timed, and has not ended.
  bool runs() const { return entry_ != nullptr && !end_.has_value(); }

  void Forget(const TraceEntry& entry) {
    if (entry_ == &entry) entry_ = nullptr;
  }

 private:
  TraceEntry* entry_ = nullptr;
  Profit::Mode mode_ = Profit::Mode::kOther;
  TimePoint head_;
  std::optional<TimePoint> end_;
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_PASS_TIMER_H_
