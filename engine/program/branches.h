// Which ops of a plan run side by side.

#ifndef REPRISE_ENGINE_PROGRAM_BRANCHES_H_
#define REPRISE_ENGINE_PROGRAM_BRANCHES_H_

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/device/launch.h"
#include "engine/device/launch_graph.h"
#include "engine/program/effects.h"
#include "engine/program/layout.h"
#include "engine/program/reach.h"
#include "engine/trace/trace.h"

namespace reprise::engine {

// Ops run in kLanes lanes. Those of a lane run one behind the other; each waits
// besides for the ops of other lanes that use memory of which one of the two
// writes some: by bytes, where values follow each other in one place. All
// memory of libraries is one value that ops write.
//
// An op of which not all is known runs alone: it waits for all before it, and
// all behind it wait for it. So does one that writes outside (where is told
// late, and it may overlap other externals), draws, is nondeterministic, is run
// by eager, or is none of the framework's own (Frontend::MayRunBeside).
//
// Lanes, then, once they have decided the layout, Place. Immutable after that.
class Branches {
 public:
  static constexpr uint32_t kLanes = 4;

  // Of ops that run one behind the other.
  Branches() = default;
  // By op, `reach` and how many `launches` it has; those without any are in
  // nobody's way. In program order each op gets the lane where it can begin
  // first, if all ops take equally long; of several, one whose last op it waits
  // for.
  Branches(const Trace& trace, const Effects& effects,
           std::span<const Reach> reach, std::span<const uint32_t> launches);

  // By op; empty where all are in one.
  const std::vector<uint8_t>& lanes() const { return lanes_; }
  // That have ops, at least one.
  uint32_t size() const { return size_; }

  // It runs beside no other.
  bool alone(uint32_t op) const { return !alone_.empty() && alone_[op]; }

  // All that use `earlier` are over when the first op begins that uses `later`,
  // wherever the two lie.
  bool MayFollow(ValueId earlier, ValueId later) const;

  // Says which values share memory. `place_bytes` as LayOut has it.
  void Place(const Trace& trace, const Effects& effects,
             const ArenaLayout& layout, std::span<const uint64_t> place_bytes);

  // Of the ops from `first_op` on that are launched as one graph, whom each
  // waits for; no edge that others imply.
  std::vector<std::vector<uint32_t>> Waits(uint32_t first_op,
                                           uint32_t end_op) const;

  // The same of their launches, counted from the first one; `op_begin` as
  // LaunchProgram has it. Within an op they keep their order. None where all
  // ops wait for each other: the graph is a line, but for what ops fork.
  std::optional<device::Dependencies> Order(
      uint32_t first_op, uint32_t end_op,
      std::span<const device::Launch> launches,
      std::span<const uint32_t> op_begin) const;

 private:
  // By lane, an op or none; what that is says who has it.
  using ByLane = std::array<uint32_t, kLanes>;
  // Of memory by one op. A value of its own, before Place.
  struct Use {
    ValueId value = 0;
    bool written = false;
  };
  // Bytes that the same values use.
  struct Cells {
    uint32_t begin = 0;
    uint32_t end = 0;
  };
  class Walk;

  // By op, what it uses and whether it runs alone.
  void NoteUses(const Trace& trace, const Effects& effects,
                std::span<const Reach> reach,
                std::span<const uint32_t> launches);
  // Each op goes to the lane in which it can begin first.
  void ChooseLanes();
  // By value, who uses it first and last.
  void NoteUsers();

  // By op of those from `first_op` on, of each lane: ops before this one are
  // over when it begins.
  std::vector<std::vector<uint32_t>> Waits(uint32_t first_op, uint32_t end_op,
                                           std::vector<ByLane>& over) const;

  std::vector<uint8_t> lanes_;
  uint32_t size_ = 1;
  std::vector<bool> idle_;              // by op: it launches nothing
  std::vector<bool> alone_;             // by op
  std::vector<std::vector<Use>> uses_;  // by op
  std::vector<ByLane> over_;            // by op of the whole plan
  // By value: behind its last user in each lane, and the first one of all.
  std::vector<ByLane> ends_;
  std::vector<uint32_t> begins_;
  // By value, by temporary, and of libraries' memory.
  std::vector<Cells> cells_;
  uint32_t cell_count_ = 0;
};

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_PROGRAM_BRANCHES_H_
