// How often the program leaves a trace in the middle.

#ifndef REPRISE_SCHEDULER_LEAVINGS_H_
#define REPRISE_SCHEDULER_LEAVINGS_H_

#include <cstdint>

namespace reprise::scheduler {

// Counts the runs of a trace's plan (replays and validations) that the program
// left before their end. Says when it leaves so many of them that the trace is
// better split. A single-thread value.
class Leavings {
 public:
  // Which runs are counted together, and how many are too many.
  enum class Where : uint8_t {
    kAtOneOp,
    // Also at one op. A run that is left near its end loses little, and a split
    // loses the plan until its parts are learned. So it takes more.
    kNearTheEnd,
    // A loop is left at any time round, and joined traces between any two.
    kAnywhere,
  };

  // A run of the plan has begun.
  void RunBegan() { ++runs_; }
  uint64_t runs() const { return runs_; }
  // The program left a run before `op`. True: this happens too often.
  bool Left(uint32_t op, Where where) {
    const Limit limit = LimitOf(where);
    if ((op_ != op && where != Where::kAnywhere) ||
        runs_ - since_ > limit.runs_each * (times_ + 1)) {
      op_ = op;
      times_ = 0;
      since_ = runs_;
    }
    return ++times_ >= limit.times;
  }

 private:
  // So many times are too many, if at most so many runs have begun for each.
  struct Limit {
    uint32_t times;
    uint64_t runs_each;
  };
  static constexpr Limit LimitOf(Where where) {
    switch (where) {
      case Where::kAtOneOp:
        break;
      case Where::kNearTheEnd:
        return {.times = 16, .runs_each = 2};
      case Where::kAnywhere:
        return {.times = 4, .runs_each = 32};
    }
    return {.times = 4, .runs_each = 8};
  }

  uint64_t runs_ = 0;
  uint32_t op_ = 0;     // where it was left when the count began,
  uint32_t times_ = 0;  // how often since,
  uint64_t since_ = 0;  // and the runs that had begun by then
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_LEAVINGS_H_
