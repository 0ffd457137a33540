// What a Timeline holds.

#ifndef REPRISE_BINDINGS_NATIVE_NOTED_TIMELINE_H_
#define REPRISE_BINDINGS_NATIVE_NOTED_TIMELINE_H_

#include <memory>
#include <utility>

#include "bindings/native/runtime_core.h"
#include "scheduler/timeline.h"

namespace reprise::native {

// Events of a runtime from its making to its Stop. Single-thread at a time.
class NotedTimeline {
 public:
  explicit NotedTimeline(std::shared_ptr<RuntimeCore> runtime)
      : runtime_(std::move(runtime)), begin_(runtime_->timeline().Start()) {}
  ~NotedTimeline() { Stop(); }
  NotedTimeline(const NotedTimeline&) = delete;
  NotedTimeline& operator=(const NotedTimeline&) = delete;

  void Stop() {
    if (runtime_ == nullptr) return;
    noted_ = runtime_->timeline().Since(begin_);
    runtime_->timeline().Stop();
    runtime_.reset();
  }
  scheduler::Timeline::Excerpt Read() const {
    return runtime_ == nullptr ? noted_ : runtime_->timeline().Since(begin_);
  }

 private:
  std::shared_ptr<RuntimeCore> runtime_;  // null once stopped
  const scheduler::Timeline::Position begin_;
  scheduler::Timeline::Excerpt noted_;
};

}  // namespace reprise::native

#endif  // REPRISE_BINDINGS_NATIVE_NOTED_TIMELINE_H_
