// What a device lets a launch be.

#ifndef REPRISE_ENGINE_BATCH_LAUNCH_LIMITS_H_
#define REPRISE_ENGINE_BATCH_LAUNCH_LIMITS_H_

#include <cuda.h>

#include <array>
#include <cstdint>
#include <memory>

#include "engine/base/status.h"
#include "engine/batch/node.h"
#include "engine/device/driver.h"

namespace reprise::engine {

// A multiprocessor of LaunchLimits::OfHost.
inline constexpr int kHostThreads = 2048;
inline constexpr int kHostSharedBytes = 228 << 10;

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
  static base::Result<LaunchLimits> Of(const device::Driver& driver,
                                       CUdevice device);
  // Of a GPU of compute capability 9.0 with 132 multiprocessors, for who runs
  // on the host what is to run there.
  static LaunchLimits OfHost();
};

// What the device's driver says of one kernel. Thread-compatible.
class Occupancy {
 public:
  virtual ~Occupancy() = default;
  // Shared memory of a block that the kernel declares by itself.
  virtual base::Result<int> OwnSharedBytes(KernelCode& kernel) const = 0;
  // Threads of a block that its registers let it have.
  virtual base::Result<int> MostThreads(KernelCode& kernel) const = 0;
  // Lets the kernel have so much dynamic shared memory, or clusters larger
  // than every device has.
  virtual base::Status AllowShared(KernelCode& kernel, int bytes) const = 0;
  virtual base::Status AllowLargeClusters(KernelCode& kernel) const = 0;
  // Of that launch, at a time on the device and on one of its multiprocessors.
  virtual base::Result<uint64_t> MostClusters(const Node& node) const = 0;
  virtual base::Result<uint64_t> MostBlocks(const Node& node) const = 0;
};

// Needs a current context, as its methods do.
std::unique_ptr<Occupancy> MakeCudaOccupancy(const device::Driver& driver);
// For LaunchLimits::OfHost and functions of the host, which declare nothing.
std::unique_ptr<Occupancy> MakeHostOccupancy();

// kInvalidArgument, with a sentence, for one that the device does not take.
base::Status AdmitPriority(const LaunchLimits& limits, int32_t priority);

// kInvalidArgument, with a sentence, for a launch that the device would not
// take; its kernel is ready. Lets a kernel have as much dynamic shared memory
// and as large clusters as the device has, the first time that it asks for more
// than is allowed without asking.
base::Status Admit(const Occupancy& occupancy, const LaunchLimits& limits,
                   const Node& node);

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_BATCH_LAUNCH_LIMITS_H_
