// Whether the other threads of the process have gone on since some moment.

#ifndef REPRISE_ENGINE_BASE_THREAD_PROGRESS_H_
#define REPRISE_ENGINE_BASE_THREAD_PROGRESS_H_

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string_view>
#include <vector>

namespace reprise::base {

// Code that neither waits in the kernel nor takes longer than some time of a
// processor was left by every thread that has since waited, or has run for that
// time. However long a thread was kept from running, that does not count. So
// this tells when what such code uses may be freed, where the code cannot be
// made to say so itself: it is another library's. The time must be generous,
// because Linux may count interrupts in.
//
// Of one thread. Asks Linux, some microseconds a thread: /proc/self/task, and
// the processor's time of each.
class ThreadProgress {
 public:
  // The moment is now.
  ThreadProgress();

  // Linux has said which threads there are. It never does where /proc is
  // missing, or another container's.
  bool known() const { return known_; }
  // It could not say now: another moment may be known.
  bool failed() const { return failed_; }

  // Each other thread that there was has waited, has run for `time`, or has
  // ended. Those are not asked again. False where nothing is known.
  bool AllRanFor(std::chrono::nanoseconds time);

 private:
  struct Other {
    pid_t id;
    std::chrono::nanoseconds ran;  // until that moment
  };

  bool known_ = false;
  bool failed_ = false;
  std::vector<Other> others_;
};

// What /proc/self/task/ID/stat says of a thread: R, S, ... None where it is
// something else.
std::optional<char> StateOfThread(std::string_view stat);

}  // namespace reprise::base

#endif  // REPRISE_ENGINE_BASE_THREAD_PROGRESS_H_
