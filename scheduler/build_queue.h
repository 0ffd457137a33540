// Builds run here, off the program's threads. The only place with TBB.

#ifndef REPRISE_SCHEDULER_BUILD_QUEUE_H_
#define REPRISE_SCHEDULER_BUILD_QUEUE_H_

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>

#include "engine/base/task.h"

namespace reprise::scheduler {

// Runs one task at a time on a TBB arena of its own: instantiating a graph
// holds a driver lock that the program's launches need too, so builds follow
// each other. Thread-safe. The destructor waits for what was posted.
class BuildQueue final : public base::TaskRunner {
 public:
  BuildQueue();
  ~BuildQueue() override;

  void Post(base::Task task) override;

  // Until nothing is queued or running; false if `timeout` passed first.
  bool WaitIdle(std::optional<std::chrono::milliseconds> timeout);

  // Of all tasks that were posted, how many have ended.
  struct Counts {
    size_t ended = 0;
    size_t posted = 0;
  };
  Counts counts() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_BUILD_QUEUE_H_
