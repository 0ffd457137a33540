// One copy of a plan, able to run.

#ifndef REPRISE_ENGINE_REPLAY_INSTANCE_H_
#define REPRISE_ENGINE_REPLAY_INSTANCE_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/base/status.h"
#include "engine/replay/binding.h"
#include "engine/replay/draw_cursor.h"
#include "engine/replay/executor.h"
#include "engine/replay/external_binder.h"
#include "engine/replay/ledger.h"
#include "engine/replay/output_memory.h"
#include "engine/replay/plan_core.h"
#include "engine/replay/private_copies.h"
#include "engine/replay/readiness.h"
#include "engine/trace/block.h"
#include "engine/trace/op.h"
#include "engine/trace/storage_holds.h"
#include "engine/trace/trace.h"

namespace reprise::engine {

// One instance of a plan: its executable segments, its arena and what is bound
// in the launch that is under way.
//
//   idle ─Resolve─► resolved ─Launch*─► … ─Finish or Squash─► idle
//
// Externals and outputs that escaped are the program's: it may free them in
// mid-pass, and their memory may go. So a segment is launched only while all
// that it touches of them is where it was bound (RetainMemory). Their memory
// must not go before a squash that may have to rebuild from it (Stands).
//
// Owns the arena until the last lease on it ends (Ledger); its plan owns it.
// All calls under the session's lock; destruction on any thread once idle.
class Instance {
 public:
  // `plan` outlives the instance, or is replaced by MoveTo before it ends.
  Instance(PlanCore* plan, InstanceParts parts);
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  using Readiness = engine::Readiness;
  // Binds every value for a launch at `head`: externals to where they are,
  // outputs that escape to fresh memory. Those that are still alive in the
  // arena escape from now on. Late externals are left to BindLate. `holds` must
  // outlive the pass, and its EndPass is called at the end.
  Readiness Resolve(const OpView& head, StorageHolds& holds);
  // Behind kUnproven, of Resolve or BindLate: the externals that it was for.
  std::span<const ValueId> unproven() const { return externals_.unproven(); }

  // Before anything is launched in a pass: takes the private values
  // (Effects::privates) as the program has them.
  base::Status TakePrivates();
  // All ops were followed: gives the private values back. That is tried again
  // where it fails; the error says so, and whether it was in vain.
  base::Status GivePrivates();

  // See ExternalBinder.
  using KnownOperand = engine::KnownOperand;
  bool Tell(uint32_t cursor, uint32_t end_op,
            std::span<const KnownOperand> operands);
  bool told_late() const { return externals_.told_late(); }
  void ForgetTold() { externals_.ForgetTold(); }

  // Before LaunchNext: holds what the next segment touches of the program's
  // memory. False if some of it has been freed or moved since it was bound, so
  // that the program cannot want that segment, or if what launches name has
  // been freed (broken).
  bool RetainMemory();
  // Program::broken: nothing of it may be launched but what makes a squash
  // right. That may, where it is memory that is still the process's, because
  // the program cannot have written there since: it would have used another op,
  // or an address. Where it is kernels, passes have been ended before
  // (LibraryFrees), but for those that docs/limits.md names.
  bool broken() const { return program_->broken(); }

  // Before LaunchNext at a further segment: what the program and other streams
  // have of places that are written over by values that come with it. False if
  // the program still has one that it had dropped when it was recorded
  // (outlived), or if such a stream cannot be waited for: the pass is to be
  // left there, and nothing of that segment has been launched.
  bool HasRoom();
  // The same, and notes nothing, and waits for nobody.
  bool HasRoomNow() const;

  // Launches the next segment: the first one at the head, each further one when
  // the op next_launch_op() is reached, before its results are handed out.
  // That is half-way through the segment before, so that the device does not
  // run dry and at most one and a half segments run unverified; a gated segment
  // waits for its own first op.
  //
  // On an error the ops below launched_ops() have run, and of the others
  // nothing has: the pass may go on, and the launch with it, when the program
  // asks for the next one.
  base::Status LaunchNext();
  // The same at op `cursor`, where ops before `end_op` are known to come, and
  // of what they make nothing is given out but `taken` (ascending): launches at
  // once what they wait for, as far as none of them has to be shown for it.
  // Moves the generator as those draw that come before the last of it.
  struct Foretold {
    uint32_t end_op = 0;
    std::span<const ValueId> taken = {};
  };
  base::Status LaunchForetold(uint32_t cursor, const Foretold& foretold);
  // The same without launching, for a pass that launches op by op.
  void SkipNext() { GoOnFrom(program_->segments[next_segment_].first_op); }
  // At such an op, LaunchNext needs no more than that it comes.
  bool foretold() const { return IsForetold(next_segment_); }
  // Before LaunchNext at such an op: if its segment is gated, binds the late
  // externals and the numbers that the op brings, and where the generator is.
  // kReady too if this is another op (Matches says so). kUnproven: an external
  // lies where no recording has seen it move to. kElsewhere, kUntold: as at the
  // head. kOtherOp: the op may be another one with such a number.
  Readiness BindLate(const OpView& op);
  // The last BindLate has bound late externals.
  bool bound_late() const { return bound_late_; }
  static constexpr uint32_t kNoLaunch = ~uint32_t{0};
  uint32_t next_launch_op() const { return next_launch_op_; }
  // The next op that draws what was bound before it came (Draws::ahead), ...
  uint32_t next_draw_op() const { return draws_.next_op(); }
  // ... and the first of these two: at all others there is nothing to do.
  uint32_t next_stop_op() const { return next_stop_op_; }
  uint32_t launched_ops() const { return launched_ops_; }

  // At next_draw_op, which is followed; see DrawCursor.
  bool Draw();
  void TakeBackDraw();
  bool DrawsBesideEager();
  bool DrewBesideEager(uint32_t op) const { return draws_.DrewBesideEager(op); }
  // Where the op drew that was the last to do so in this launch.
  const GeneratorState& drawn() const { return draws_.last(); }

  // Where all is in the launch that is under way, and whether an op is the one
  // that is due.
  const Binding& binding() const { return binding_; }
  // In a pass that runs beside eager, under way: eager has made the value, in
  // that storage.
  void Shadow(ValueId value, const StoragePlace& place);

  // The memory of a value made by a followed op. Once a launch. Where it is
  // no lease, Own tells which storage has it then.
  Block TakeBlock(ValueId value) { return outputs_.Take(value); }
  void Own(ValueId value, StorageToken storage);

  // All ops were followed, or nothing of the launch is wanted.
  void Finish();
  // The program left before op `verified`: what it can see is made right. That
  // is tried again where it fails; the error says so, and whether it was in
  // vain.
  base::Status Squash(uint32_t verified);

  // While a pass is under way: externals that are the same at each pass, and
  // outputs that escaped in this one, are alive and where they were, and no
  // memory that launches name is freed. (Nothing is rebuilt from inputs: see
  // Effects.) Asks the framework for nothing that takes a lock.
  bool Stands() const;

  // See OutputMemory.
  bool leased(ValueId value) const { return outputs_.leased(value); }
  bool leased() const { return outputs_.leased(); }
  bool moved_in() const { return outputs_.moved_in(); }
  const std::vector<ValueId>& outlived() const { return outputs_.outlived(); }
  uint64_t escapes() const { return outputs_.escapes(); }
  // Its arena, which other instances may have, too.
  const std::shared_ptr<Ledger>& arena() const { return outputs_.arena(); }

  // `plan` belongs to the plan that owns the instance from now on. Both plans
  // are of one program.
  void MoveTo(PlanCore* plan) {
    plan_ = plan;
    outputs_.MoveTo(plan);
  }
  const PlanCore& plan() const { return *plan_; }
  const Program& program() const { return *program_; }
  const Trace& trace() const { return *trace_; }
  Executor& executor() { return *parts_.executor; }
  // Externals that keep it from being resolved (kReplaced).
  std::vector<ValueId> Replaced() const;

 private:
  Readiness BindNumbers(uint32_t index, const OpView& op);
  Readiness BindDraws(uint32_t source);
  Readiness ResolveHead(const OpView& head);
  Readiness ResolveOthers();
  // The segment waits for no more than that its first op comes, or is told the
  // rest.
  bool IsForetold(size_t segment) const;
  // Holds what segments in a row touch of the program's memory that there is
  // before op `cursor`.
  bool RetainMemory(size_t first, size_t end, uint32_t cursor);
  // The next segment has been launched; `op` is the last of its ops to be the
  // first of a launch.
  void GoOnFrom(uint32_t op);
  // The next launch or draw has changed.
  void NoteNextStop() {
    next_stop_op_ = std::min(next_launch_op_, draws_.next_op());
  }

  PlanCore* plan_;
  const Program* program_;  // the plan's
  const Trace* trace_;      // the program's
  InstanceParts parts_;
  OutputMemory outputs_;  // before `binding_`, which takes the places
  Binding binding_;
  ExternalBinder externals_;
  PrivateCopies privates_;
  DrawCursor draws_;
  StorageHolds* holds_ = nullptr;  // while a pass is under way
  bool bound_late_ = false;
  std::vector<StoragePlace> touched_;  // RetainMemory's
  uint32_t next_segment_ = 0;
  uint32_t launched_ops_ = 0;
  uint32_t next_launch_op_ = kNoLaunch;
  uint32_t next_stop_op_ = kNoLaunch;
};

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_REPLAY_INSTANCE_H_
