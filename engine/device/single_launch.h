// One launch by itself, outside any graph.

#ifndef REPRISE_ENGINE_DEVICE_SINGLE_LAUNCH_H_
#define REPRISE_ENGINE_DEVICE_SINGLE_LAUNCH_H_

#include <cuda.h>

#include "engine/base/status.h"
#include "engine/device/driver.h"
#include "engine/device/launch.h"

namespace reprise::device {

// Enqueues it on `stream`, hidden from a LaunchRecorder. Needs a current
// context. Captured work is none: it is launched as part of a graph only.
base::Status Enqueue(const Driver& driver, const Launch& launch,
                     CUstream stream);

}  // namespace reprise::device

#endif  // REPRISE_ENGINE_DEVICE_SINGLE_LAUNCH_H_
