// Which memory of the program a launch uses.

#ifndef REPRISE_ENGINE_REPLAY_EXTERNAL_BINDER_H_
#define REPRISE_ENGINE_REPLAY_EXTERNAL_BINDER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "engine/program/program.h"
#include "engine/replay/binding.h"
#include "engine/replay/readiness.h"
#include "engine/trace/op.h"
#include "engine/trace/storage_holds.h"
#include "engine/trace/trace.h"

namespace reprise::engine {

// An operand of an op that is known to come: which value it is, and where it
// lies.
struct KnownOperand {
  ValueRef ref;
  Operand at;  // its storage, and where in it
};

// Binds externals to where ops of the stream show them: the head, the op that
// brings a late one, or who knows of that op before it comes. An external may
// be bound elsewhere only if the recorded work can be pointed there, and apart
// from what the pass makes. Storages that are asked after later in the pass are
// watched.
//
// Borrows the program and the binding. `holds` are the pass's. `elsewhere`: the
// values that are bound outside the arena. Under the session's lock.
class ExternalBinder {
 public:
  ExternalBinder(const Program* program, Binding* binding);
  ExternalBinder(const ExternalBinder&) = delete;
  ExternalBinder& operator=(const ExternalBinder&) = delete;

  // Of an op with the head's words: binds its operands. False if one may not be
  // bound there (unproven).
  bool BindHead(const OpView& head, StorageHolds& holds);
  // Once all is bound: the head's operands are apart from it (Binding::Apart).
  bool IsApart(const OpView& head, std::span<const ValueId> elsewhere) const;

  // Of an op with the words of the trace's op `index`: binds the late externals
  // that it brings. kUnproven, or kOtherOp if one is not apart; then none is
  // bound.
  struct Late {
    Readiness readiness = Readiness::kReady;
    bool bound = false;  // it has brought some
  };
  Late BindLate(uint32_t index, const OpView& op,
                std::span<const ValueId> elsewhere, StorageHolds& holds);
  // Behind BindHead or BindLate: those that may not lie where they do.
  std::span<const ValueId> unproven() const { return unproven_; }

  // Ops of [cursor, end_op) are known to come, and these are their operands,
  // but what they make themselves. Binds the inputs that they tell. False if
  // one lies where it may not, or is not where it is bound: the ops are to be
  // shown.
  bool Tell(uint32_t cursor, uint32_t end_op,
            std::span<const KnownOperand> operands,
            std::span<const ValueId> elsewhere, StorageHolds& holds);
  // What was told has bound late externals.
  bool told_late() const { return !told_.empty(); }
  // The op's late externals are bound by what was told.
  bool IsTold(uint32_t op) const { return op < told_end_; }
  // No op is told any more.
  void EndTold() { told_end_ = 0; }
  // Each op is shown, as if nothing had been told.
  void ForgetTold() {
    told_end_ = 0;
    told_.clear();
  }

  // Those that are the same at each pass are alive and where they were bound.
  bool Stand() const;

 private:
  void NoteIfUnproven(const ValueRef& ref, const Operand& operand);
  void Bind(const ValueRef& ref, const Operand& operand, StorageHolds& holds);

  const Program* program_;
  const Trace* trace_;  // the program's
  Binding* binding_;
  // By value: all that are no inputs, and inputs that ops behind the one that
  // brings them use as well. Their storages must not be taken for others that
  // are made meanwhile.
  std::vector<bool> watched_;
  std::vector<ValueId> lasting_;       // those that are no inputs
  std::vector<uint32_t> late_births_;  // ops that tell inputs, ascending
  std::vector<ValueId> unproven_;
  std::vector<ValueId> told_;
  uint32_t told_end_ = 0;  // inputs of ops before it are bound
};

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_REPLAY_EXTERNAL_BINDER_H_
