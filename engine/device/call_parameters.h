// Which stream and which event the parameters of a driver call name.

#ifndef REPRISE_ENGINE_DEVICE_CALL_PARAMETERS_H_
#define REPRISE_ENGINE_DEVICE_CALL_PARAMETERS_H_

#include <cuda.h>
#include <cupti.h>

#include <optional>

#include "engine/device/driver_call.h"

namespace reprise::device {

// `params` are the parameters of such a call, as CUPTI shows them.

// One name for each stream: the legacy default stream has two.
CUstream Normalized(CUstream stream);

// The stream that a call with these parameters acts on, by that name; not for
// calls that act on every stream.
CUstream StreamOf(const DriverCall& call, const void* params);

// An event is recorded, or waited for, without flags.
struct EventCall {
  CUevent event;
  bool wait;
};
std::optional<EventCall> EventCallOf(CUpti_CallbackId id, const void* params);

// Whether a call with these parameters acts on `stream`. The legacy default
// stream may go by either of its two names.
bool TouchesStream(const DriverCall& call, const void* params, CUstream stream);

}  // namespace reprise::device

#endif  // REPRISE_ENGINE_DEVICE_CALL_PARAMETERS_H_
