// When a trace is recorded again whose plan can be used no more.

#ifndef REPRISE_SCHEDULER_RENEWAL_H_
#define REPRISE_SCHEDULER_RENEWAL_H_

#include <algorithm>
#include <cstdint>

namespace reprise::scheduler {

// What a plan names (a weight, a library's workspace) may be replaced or freed
// at any time, and a plan may give way to others, or to the program's memory;
// the trace is recorded again then. A plan that had replayed
// kReplaysThatPay times by then has paid for its recordings, and the next one
// is made at once. Others may be replaced as soon as they are there, for ever:
// after the second of them in a row the trace waits for one pass, and for twice
// as many each time; half as many where it had paid half. Single-thread.
class Renewal {
 public:
  // Recordings, a build and validations cost as much as some dozens of passes.
  static constexpr uint64_t kReplaysThatPay = 64;
  static constexpr uint32_t kLongestWait = 1 << 10;

  // A plan that had replayed so often is used no more.
  void Replaced(uint64_t replays) {
    if (replays >= kReplaysThatPay) {
      left_ = next_ = 0;
      return;
    }
    left_ = next_;
    next_ = replays >= kReplaysThatPay / 2
                ? next_ / 2
                : std::min(std::max(2 * next_, 1u), kLongestWait);
  }

  bool waiting() const { return left_ > 0; }
  // One pass of the trace goes by.
  void Pass() { --left_; }

 private:
  uint32_t left_ = 0;
  uint32_t next_ = 0;
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_RENEWAL_H_
