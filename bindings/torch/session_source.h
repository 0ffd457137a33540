// Where hooks find their sessions.

#ifndef REPRISE_BINDINGS_TORCH_SESSION_SOURCE_H_
#define REPRISE_BINDINGS_TORCH_SESSION_SOURCE_H_

#include <c10/core/Device.h>

#include <optional>

#include "scheduler/runtime.h"
#include "scheduler/session.h"

namespace reprise::bindings {

// The kind of device that the active runtime serves; none if there is none.
std::optional<scheduler::DeviceKind> WatchedKind();

// The session of a stream (CUstream; null on the host); null where there is
// none. May take a lock: hooks keep what they get while g_runtime_epoch stands.
scheduler::Session* SessionFor(c10::Device device, void* stream);

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_SESSION_SOURCE_H_
