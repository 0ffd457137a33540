// Measures what patching costs on this machine.

#ifndef REPRISE_SCHEDULER_PATCH_PROBE_H_
#define REPRISE_SCHEDULER_PATCH_PROBE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/base/status.h"
#include "engine/batch/kernel_code.h"
#include "engine/device/driver.h"
#include "scheduler/patch_policy.h"

namespace reprise::scheduler {

// Graphs of small kernels, on a stream and in memory of their own, patched
// while they are in flight. Takes some ten milliseconds of a small part of the
// device.
class PatchProbe {
 public:
  static constexpr uint32_t kFewBytes = 256;
  static constexpr uint32_t kManyBytes = 16384;

  struct Kernels {
    std::shared_ptr<engine::KernelCode> axpy;      // of kernels/table_source.h
    std::shared_ptr<engine::KernelCode> by_table;  // its twin
    // Of few and of many bytes; without them no table is measured, and none
    // looks cheap.
    std::vector<std::shared_ptr<engine::KernelCode>> writers;
  };

  // Needs a current context.
  static base::Result<PatchCosts> Measure(const device::Driver& driver,
                                          const Kernels& kernels);
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_PATCH_PROBE_H_
