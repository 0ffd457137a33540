// Whether the stream is in a part of the program that has not come before.

#ifndef REPRISE_SCHEDULER_FIRST_PASS_H_
#define REPRISE_SCHEDULER_FIRST_PASS_H_

#include <algorithm>
#include <cstddef>

namespace reprise::scheduler {

// Counts the ops between two cuts, and those of them that had never come
// before. Where most are new a first pass goes on behind the cut, too: that an
// op is new there tells nothing. A single-thread value.
class FirstPass {
 public:
  // An op is met. Those of replays are not.
  void Met(bool never_met) {
    ++ops_;
    ++of_trace_;
    if (never_met) ++never_met_;
  }
  // A trace of so many ops has ended, met or replayed.
  void TraceEnded(size_t ops) {
    ops_ += ops - std::min(ops, of_trace_);
    of_trace_ = 0;
  }
  void CutPassed() {
    if (ops_ > 0) most_was_new_ = 2 * never_met_ > ops_;
    ops_ = never_met_ = of_trace_ = 0;
  }

  // Of the ops between the last two cuts that had any between them.
  bool most_was_new() const { return most_was_new_; }

 private:
  size_t ops_ = 0;
  size_t never_met_ = 0;
  size_t of_trace_ = 0;  // that were met since the last trace ended
  bool most_was_new_ = false;
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_FIRST_PASS_H_
