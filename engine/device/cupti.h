// The part of CUPTI that Reprise uses, loaded at run time.

#ifndef REPRISE_ENGINE_DEVICE_CUPTI_H_
#define REPRISE_ENGINE_DEVICE_CUPTI_H_

#include <cuda.h>
#include <cupti.h>

#include "engine/base/status.h"

namespace reprise::device {

#define REPRISE_CUPTI_ENTRIES(X) \
  X(cuptiSubscribe_v2)           \
  X(cuptiUnsubscribe)            \
  X(cuptiEnableDomain)           \
  X(cuptiFinalize)               \
  X(cuptiGetResultString)

// A table of entry points, so that tests can put a simulated CUPTI in its
// place. Immutable once made; thread-safe to call.
struct Cupti {
#define REPRISE_CUPTI_MEMBER(name) decltype(&::name) name = nullptr;
  REPRISE_CUPTI_ENTRIES(REPRISE_CUPTI_MEMBER)
#undef REPRISE_CUPTI_MEMBER

  // Loads libcupti.so.13 once for the process: the copy that torch brought, or
  // another. kUnavailable where there is none. The table lives for ever.
  static base::Result<const Cupti*> Load();
};

}  // namespace reprise::device

#endif  // REPRISE_ENGINE_DEVICE_CUPTI_H_
