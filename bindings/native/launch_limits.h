// What a device lets a launch be.

#ifndef REPRISE_BINDINGS_NATIVE_LAUNCH_LIMITS_H_
#define REPRISE_BINDINGS_NATIVE_LAUNCH_LIMITS_H_

#include <cuda.h>

#include <array>

#include "bindings/native/batch_record.h"
#include "bindings/native/common.h"
#include "engine/device/driver.h"

namespace reprise::native {

// Of one device. Thread-compatible value.
struct LaunchLimits {
  static constexpr int kAny = 1 << 30;

  std::array<int, 3> grid{kAny, kAny, kAny};
  std::array<int, 3> block{kAny, kAny, kAny};
  int threads = kAny;  // of a block
  int shared_bytes = kAny;
  int multiprocessors = 1;
  bool cooperative = true;
  bool clusters = true;    // and programmatic launches
  int priority_least = 0;  // a larger number
  int priority_greatest = 0;

  // Needs a current context of `device`.
  static Result<LaunchLimits> Of(const device::Driver& driver, CUdevice device);
};

// kInvalidArgument, with a sentence, for a launch that the device would not
// take; its kernel is ready. Lets a kernel have as much dynamic shared memory
// and as large clusters as the device has, the first time that it asks for more
// than is allowed without asking. Needs a current context.
Status Admit(const device::Driver& driver, const LaunchLimits& limits,
             const Node& node);

}  // namespace reprise::native

#endif  // REPRISE_BINDINGS_NATIVE_LAUNCH_LIMITS_H_
