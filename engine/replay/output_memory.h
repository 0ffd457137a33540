// Which memory a launch gives the values that it makes.

#ifndef REPRISE_ENGINE_REPLAY_OUTPUT_MEMORY_H_
#define REPRISE_ENGINE_REPLAY_OUTPUT_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/base/status.h"
#include "engine/program/shared_places.h"
#include "engine/replay/binding.h"
#include "engine/replay/executor.h"
#include "engine/replay/ledger.h"
#include "engine/replay/plan_core.h"
#include "engine/trace/block.h"
#include "engine/trace/trace.h"

namespace reprise::engine {

// An output has a place in an arena, where the program leases it. One that the
// program still has when its plan comes again escapes (PlanCore): it is given
// fresh memory, in this launch and in all later ones.
//
// Others may be written over an output's place: instances that take turns in
// the arena, and values that follow it in the same pass (SharedPlaces). So who
// launches asks whether the program and other streams are done with it.
//
// Owns the arena until the last lease on it ends (Ledger). Borrows the plan,
// until MoveTo names another, and the binding. Under the session's lock.
class OutputMemory {
 public:
  // `places`: by value, where its place in the arena is.
  OutputMemory(PlanCore* plan, std::shared_ptr<Ledger> arena,
               std::span<const uint64_t> places, Binding* binding);
  OutputMemory(const OutputMemory&) = delete;
  OutputMemory& operator=(const OutputMemory&) = delete;

  // --- At the head ---

  // The arena is this one's from now on. False while another's values are alive
  // in it.
  bool Enter();
  // The last Enter has put it in another's place.
  bool moved_in() const { return moved_in_; }
  // Those that are alive in the arena escape from now on. Binds all that escape
  // to fresh memory; fails where there is none.
  base::Status Bind();
  // Behind Bind or HasRoom, because a place that was found free may have been
  // lent until just now, and its borrowers are told of before it is free: what
  // is launched from now on runs behind the streams that have read what the
  // program lent them and has dropped since. False if they cannot be waited
  // for.
  bool WaitForBorrowers(Executor& executor);

  // --- At a further segment ---

  // The program is done with what the segment's values are written over, and
  // other streams are waited for. Notes what the program still has (outlived).
  bool HasRoom(size_t segment, Executor& executor);
  // The same when the segment is launched at op `cursor` together with those
  // before it, of whose values only `taken` (ascending) are given out. Notes
  // nothing and waits for nobody.
  bool StaysFree(size_t segment, uint32_t cursor,
                 std::span<const ValueId> taken) const;

  // --- Values ---

  // The memory of a value, for the program. Once a launch.
  Block Take(ValueId value);
  // The program can see what is in the value's memory.
  bool IsSeen(ValueId value) const {
    return plan_->escapes(value) ? !fresh_[value] : arena_->leased(value);
  }
  // The program holds `value` of an earlier launch, or anything, in the arena.
  bool leased(ValueId value) const {
    return arena_->IsIn(tenant_) && arena_->leased(value);
  }
  bool leased() const { return arena_->IsIn(tenant_) && arena_->leased(); }
  // Values that the program still had when their followers came, or behind the
  // pass, though it had dropped them when they were recorded. They escape from
  // the next launch on.
  const std::vector<ValueId>& outlived() const { return outlived_; }
  // Times that an output was given fresh memory.
  uint64_t escapes() const { return escapes_; }

  const std::shared_ptr<Ledger>& arena() const { return arena_; }
  void MoveTo(PlanCore* plan) { plan_ = plan; }

 private:
  base::Status BindFresh(ValueId value);

  PlanCore* plan_;
  const Program* program_;  // the plan's
  Binding* binding_;
  std::shared_ptr<Ledger> arena_;
  const Ledger::Tenant tenant_;
  bool moved_in_ = false;
  const SharedPlaces shared_places_;
  std::vector<Block> fresh_;  // by value: memory of an escaping output
  std::vector<ValueId> outlived_;
  uint64_t escapes_ = 0;
};

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_REPLAY_OUTPUT_MEMORY_H_
