// Which mechanism gives a graph its arguments soonest.

#ifndef REPRISE_BINDINGS_NATIVE_PATCH_POLICY_H_
#define REPRISE_BINDINGS_NATIVE_PATCH_POLICY_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "bindings/native/patching.h"

namespace reprise::native {

// Times of the submitting thread, measured while graphs are in flight, in
// nanoseconds.
struct PatchCosts {
  double set = 0;          // one launch by SetParams
  double table = 0;        // a table, however small
  double table_byte = 0;   // and each of its bytes
  double stage = 0;        // one launch, for an update
  double update = 0;       // an update of the executable graph
  double update_node = 0;  // and each of its nodes
  double build_node = 0;   // making a graph anew, each node; in the background
};

// What a plan would be under each mechanism.
struct PatchShape {
  size_t launches = 0;
  size_t in_table = 0;     // of them; 0: no table can be had
  size_t table_bytes = 0;  // that the launch carries which writes the table
  bool updates = true;     // the driver has not refused an ExecUpdate
};

// What it costs to change `changed` of the launches, as many of them in the
// table as there are in all of them.
double CostOf(Patching patching, const PatchCosts& costs,
              const PatchShape& shape, double changed);

// Follows one plan. Single-thread at a time.
class PatchPolicy {
 public:
  // A replay has changed so many launches.
  void Saw(size_t changed);

  // What to go over to from `now`: only where the last replays have lost more
  // by `now` than a graph costs to build, and at least a tenth.
  std::optional<Patching> Better(Patching now, const PatchCosts& costs,
                                 const PatchShape& shape);

  // Launches a replay, of the last ones.
  double changed() const { return changed_; }

  static std::string Explain(Patching patching, const PatchCosts& costs,
                             const PatchShape& shape, double changed);

 private:
  double changed_ = 0;
  uint64_t replays_ = 0;
  double lost_ns_ = 0;
};

}  // namespace reprise::native

#endif  // REPRISE_BINDINGS_NATIVE_PATCH_POLICY_H_
