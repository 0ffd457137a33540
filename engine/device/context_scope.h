// A context that is current for a while.

#ifndef REPRISE_ENGINE_DEVICE_CONTEXT_SCOPE_H_
#define REPRISE_ENGINE_DEVICE_CONTEXT_SCOPE_H_

#include <cuda.h>

#include "engine/base/status.h"
#include "engine/device/driver.h"

namespace reprise::device {

// Makes `context` current on this thread while it lives, if another one (or
// none, as on a thread that has not used CUDA yet) is: a null stream names the
// default stream of whichever context is current. 10 ns where it is.
class ContextScope {
 public:
  ContextScope(const Driver& driver, CUcontext context) : driver_(driver) {
    status_ =
        Check(driver_, driver_.cuCtxGetCurrent(&before_), "cuCtxGetCurrent");
    if (!status_ || before_ == context) [[likely]]
      return;
    status_ =
        Check(driver_, driver_.cuCtxSetCurrent(context), "cuCtxSetCurrent");
    changed_ = status_.has_value();
  }
  ~ContextScope() {
    if (changed_) driver_.cuCtxSetCurrent(before_);
  }
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;

  const base::Status& status() const { return status_; }

 private:
  const Driver& driver_;
  CUcontext before_ = nullptr;
  bool changed_ = false;
  base::Status status_;
};

}  // namespace reprise::device

#endif  // REPRISE_ENGINE_DEVICE_CONTEXT_SCOPE_H_
