// How many times in a row a trace comes.

#ifndef REPRISE_SCHEDULER_RUN_LENGTH_H_
#define REPRISE_SCHEDULER_RUN_LENGTH_H_

#include <cstdint>

namespace reprise::scheduler {

// Of one trace: how long its last whole run was, and how many runs in a row
// were as long. A single-thread value.
class RunLength {
 public:
  // A whole run has ended.
  void Count(uint32_t length) {
    alike_ = length_ == length ? alike_ + 1 : 1;
    length_ = length;
  }
  // A run was interrupted.
  void Break() { alike_ = 0; }

  // Zero: none has ended.
  uint32_t length() const { return length_; }
  // So many runs in a row were as long.
  uint32_t alike() const { return alike_; }

 private:
  uint32_t length_ = 0;
  uint32_t alike_ = 0;
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_RUN_LENGTH_H_
