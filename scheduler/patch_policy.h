// Which mechanism gives a graph its arguments at the least cost.

#ifndef REPRISE_SCHEDULER_PATCH_POLICY_H_
#define REPRISE_SCHEDULER_PATCH_POLICY_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "engine/base/patching.h"

namespace reprise::scheduler {

// In nanoseconds. Times of the submitting thread, measured while graphs are in
// flight, and of the device.
struct PatchCosts {
  double set = 0;          // one launch by SetParams
  double table = 0;        // a table, however small
  double table_byte = 0;   // and each of its bytes
  double stage = 0;        // one launch, for an update
  double update = 0;       // an update of the executable graph
  double update_node = 0;  // and each of its nodes
  double build_node = 0;   // making a graph anew, each node; in the background

  double device_table = 0;  // of the device: writing a table, however small
  double device_read = 0;   // and each launch that reads its arguments there
};

// What a plan would be under each mechanism.
struct PatchShape {
  size_t launches = 0;
  size_t in_table = 0;     // of them; 0: no table can be had
  size_t table_bytes = 0;  // that the launch carries which writes the table
  bool updates = true;     // the driver has not refused an ExecUpdate
};

// What a plan's last replays were like, on average.
struct PatchUse {
  double changed = 0;  // launches
  double busy = 0;     // replays that came while the stream had work in flight
};

// What it costs the thread to change `changed` of the launches, as many of them
// in the table as there are in all of them.
double ThreadCostOf(base::Patching patching, const PatchCosts& costs,
                    const PatchShape& shape, double changed);
// What a replay takes longer on the device than with SetParams.
double DeviceCostOf(base::Patching patching, const PatchCosts& costs,
                    const PatchShape& shape, double changed);
// What counts: the thread's time, and the device's where a replay waits for it.
// Neither is free: a thread that is ahead of the device has other work to do.
double CostOf(base::Patching patching, const PatchCosts& costs,
              const PatchShape& shape, const PatchUse& use);

// Follows one plan. Single-thread at a time.
class PatchPolicy {
 public:
  // A replay is about to come of which SawStream is to be told. Few are.
  bool AsksForStream() const;
  void SawStream(bool busy);
  // A replay has changed so many launches.
  void Saw(size_t changed);

  // What to go over to from `now`: only where the last replays have lost more
  // by `now` than a graph costs to build, and at least a tenth. It takes twice
  // as much each time: what a plan goes over to may change whether its stream
  // is busy, and with that what is best.
  std::optional<base::Patching> Better(base::Patching now,
                                       const PatchCosts& costs,
                                       const PatchShape& shape);

  const PatchUse& use() const { return use_; }

  static std::string Explain(base::Patching patching, const PatchCosts& costs,
                             const PatchShape& shape, const PatchUse& use);

 private:
  PatchUse use_;
  uint64_t replays_ = 0;
  uint64_t looks_ = 0;  // at the stream
  double lost_ns_ = 0;
  double patience_ = 1;
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_PATCH_POLICY_H_
