// Whose turn it is to be tried, after it has failed.

#ifndef REPRISE_SCHEDULER_TURNS_H_
#define REPRISE_SCHEDULER_TURNS_H_

#include <cstdint>

#include "engine/base/backoff.h"

namespace reprise::scheduler {

// What is tried at a trace's head rests for some turns after it has failed,
// twice as many each time, until it succeeds. A single-thread value.
class Turns {
 public:
  // Another turn has come. False: it rests.
  bool Take() { return backoff_.Ready(count_++); }

  void Fail() { backoff_.Fail(count_); }
  void Succeed() { backoff_.Succeed(); }
  // It has, and has not succeeded since.
  bool failed() const { return backoff_.failed(); }

 private:
  static constexpr base::Backoff::Schedule kRests = {
      .first = 1, .factor = 2, .longest = 64};

  uint64_t count_ = 0;
  base::Backoff backoff_ = base::Backoff(kRests);
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_TURNS_H_
