// What may be wrong with a batch, found before anything of it runs.

#ifndef REPRISE_SCHEDULER_BATCH_CHECKS_H_
#define REPRISE_SCHEDULER_BATCH_CHECKS_H_

#include <cstddef>
#include <vector>

#include "engine/base/status.h"
#include "engine/batch/batch_device.h"
#include "engine/batch/batch_record.h"

namespace reprise::scheduler {

// Checks batches of one device, which must outlive it. Each error names the
// launch, and says what to do. Immutable.
class BatchChecks {
 public:
  explicit BatchChecks(engine::BatchDevice* device)
      : device_(*device), on_host_(device->on_host()) {}

  // Everything about the record that can be wrong but the two below; waits for
  // its kernels. Cost: a walk over the launches, each with a virtual call.
  base::Status Check(const engine::BatchRecord& record) const;
  // kInvalidArgument for memory that a launch names and the device, as far as
  // it can tell, has not (BatchDevice::AdmitMemory): the addresses are those in
  // `image`, and what `accesses` says of it. On the host only; elsewhere it
  // costs nothing.
  base::Status CheckMemory(const std::vector<engine::Node>& nodes,
                           const std::vector<engine::Access>& accesses,
                           const std::vector<std::byte>& image) const;
  // kFailedPrecondition where it waits for what nobody has recorded.
  static base::Status CheckWaits(const engine::BatchRecord& record);

 private:
  engine::BatchDevice& device_;
  const bool on_host_;
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_BATCH_CHECKS_H_
