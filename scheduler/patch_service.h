// What patching needs of one runtime: times, twins and table writers.

#ifndef REPRISE_SCHEDULER_PATCH_SERVICE_H_
#define REPRISE_SCHEDULER_PATCH_SERVICE_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/task.h"
#include "engine/batch/batch_device.h"
#include "engine/batch/batch_record.h"
#include "engine/batch/compile_service.h"
#include "scheduler/patch_policy.h"

namespace reprise::scheduler {

// What measuring gave, once for a runtime.
struct PatchMeasurement {
  std::optional<PatchCosts> costs = {};  // without them graphs stay as they are
  std::string failure = {};  // why there are none, or none of a table; or empty
};

// Thread-safe, but for TableFor, which is the queue's thread's.
class PatchService {
 public:
  // All outlive it; its tasks must have ended before it does. `measured`, for
  // tests: what need not be measured then.
  PatchService(engine::BatchDevice* device, engine::CompileService* compiler,
               base::TaskRunner* queue, base::Patching wanted,
               std::optional<PatchMeasurement> measured = std::nullopt);

  base::Patching wanted() const { return wanted_; }

  // Null until there is one, which the first call begins. Never changes then.
  const PatchMeasurement* Measured();

  // As far as can be told before anything is compiled.
  PatchShape ShapeOf(const std::vector<engine::Node>& nodes) const;

  // Twins for as many nodes as a table holds. Compiles and loads what is not
  // yet there. kUnavailable where no node has a twin.
  base::Result<engine::Mechanism> TableFor(
      const std::vector<engine::Node>& nodes);

 private:
  void Measure();
  base::Result<PatchCosts> Probe(std::string& why_no_table);
  // Of a table of so many bytes.
  base::Result<std::shared_ptr<engine::KernelCode>> Writer(uint32_t bytes);
  // Of kernels/table_source.h.
  base::Result<std::shared_ptr<engine::KernelCode>> TableKernel(
      const std::string& name, std::vector<device::ParamSpan> params);
  base::Result<std::shared_ptr<engine::KernelCode>> TwinOf(
      const engine::KernelCode& kernel);

  engine::BatchDevice* const device_;
  engine::CompileService* const compiler_;
  base::TaskRunner* const queue_;
  const base::Patching wanted_;

  PatchMeasurement measurement_;  // written before `measured_` is released
  std::atomic<bool> measured_;
  std::atomic<bool> measuring_;
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_PATCH_SERVICE_H_
