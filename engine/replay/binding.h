// All that is known late of one launch of a program.

#ifndef REPRISE_ENGINE_REPLAY_BINDING_H_
#define REPRISE_ENGINE_REPLAY_BINDING_H_

#include <cstdint>
#include <span>
#include <vector>

#include "engine/program/program.h"
#include "engine/replay/executor.h"
#include "engine/trace/frontend.h"
#include "engine/trace/op.h"
#include "engine/trace/trace.h"

namespace reprise::engine {

// Where each value is and what the numbers are in the launch of a program that
// is under way, or comes next; and whether an op of a stream is the trace's op
// on just these. What is bound here its executor is told at once, and launches
// from then on.
//
// Until something else is bound, all is as it was recorded, and values that the
// trace makes are in the arena. What is bound stays so over the end of a
// launch. Knows neither segments nor who drives the launch. Borrows the program
// and the executor; asks the framework only for storages' addresses. Under the
// session's lock.
class Binding {
 public:
  // `places`: by value, where its place in the arena is (Program::PlacesIn).
  Binding(const Program* program, std::vector<uint64_t> places,
          Executor* executor);
  Binding(const Binding&) = delete;
  Binding& operator=(const Binding&) = delete;

  // --- Values ---

  // Where recorded work finds it.
  uint64_t origin(ValueId value) const {
    return program_->effects.is_private(value) ? places_[value]
                                               : bound_[value].origin;
  }
  // Of an external, the storage that was bound; of what the program was given
  // outside the arena, the one that it has over it; else null.
  const StoragePlace& place(ValueId value) const { return bound_[value].place; }
  // It has no such storage, or that is alive and where it was.
  bool Stands(ValueId value) const;

  // An external is where the operand says.
  void BindExternal(const ValueRef& ref, const Operand& operand);
  // A value that the trace makes is at `origin`: in the arena, or elsewhere.
  void BindOutput(ValueId value, uint64_t origin);
  // The program has a storage over it.
  void Own(ValueId value, const StoragePlace& place) {
    bound_[value].place = place;
  }
  // Of a private value, its bytes in the program's memory and in the copy: from
  // the one to the other.
  kernels::RangeCopy Taking(ValueId value) const;

  // An external is another storage, or elsewhere, than it was recorded.
  bool IsMoved(ValueId value) const;
  // An external of the recording is gone, or moved, whatever is bound.
  bool IsReplaced(ValueId value) const;

  // --- Numbers ---

  // The numbers of the trace's op `index` that may change are those of `op`.
  Executor::Fit BindNumbers(uint32_t index, const OpView& op);

  // --- Beside eager ---

  // Eager has made the value, in that storage: the pass that is under way runs
  // beside it.
  void Shadow(ValueId value, const StoragePlace& place);
  // That pass has ended.
  void EndShadows();

  // --- Ops of a stream ---

  // The same op but for operands, which may be any, and numbers that change.
  bool SameWords(uint32_t index, const OpView& op) const;
  // What an op uses lies where the value is bound.
  bool IsAt(const ValueRef& ref, StorageToken storage, uint64_t address) const {
    const Bound& bound = bound_[ref.value];
    // Freed memory may be another storage's by now.
    return address == bound.origin + ref.offset_bytes &&
           (storage == bound.place.storage || bound.place.storage == nullptr);
  }
  // The op is the trace's op `index` on what is bound.
  bool Matches(uint32_t index, const OpView& op) const;
  // The same for a pass beside eager: own values are where eager put them.
  bool MatchesShadow(uint32_t index, const OpView& op) const;
  // The op's numbers are all that keeps it from being the trace's op `index`,
  // as far as its operands are bound, and those that differ were the same
  // whenever it was recorded.
  bool OtherNumbers(uint32_t index, const OpView& op) const;

  // --- Memory that is shared ---

  // The operand's storage, which is `value`, is apart from the memory of all
  // values that this pass makes or keeps private, as externals were when it was
  // recorded. `elsewhere`: those that are bound outside the arena.
  bool Apart(const Operand& operand, ValueId value,
             std::span<const ValueId> elsewhere) const;
  // An operand of the head that never moved before shares memory with what the
  // pass writes outside: nothing can be made again from it behind that.
  bool MovesOntoWrites(const OpView& head) const;
  // Of an op that writes outside: no operand that it writes shares memory with
  // one that is another value. The op might raise, or give other bits.
  bool WritesApart(uint32_t index, const OpView& op) const;
  // The same of an op that has not come, all of whose operands are bound.
  bool WritesApart(uint32_t index) const;
  // Operand `operand` of what may be the trace's op `index` is in memory that
  // this pass has made.
  bool Made(uint32_t index, size_t operand, const Operand& given) const;
  // It reads memory, or may, that is not its own and of which
  // `overlaps(begin, end)` is true.
  template <typename Overlaps>
  bool Uses(Overlaps overlaps) const {
    for (ValueId v = 0; v < bound_.size(); ++v) {
      const Value& value = trace_->values[v];
      const Bound& bound = bound_[v];
      if (value.external &&
          overlaps(bound.place.base, bound.origin + value.size_bytes)) {
        return true;
      }
    }
    return false;
  }

 private:
  // Of an op with as many operands: each lies where its value does. Those that
  // the op itself tells are let pass.
  bool SameBound(uint32_t index, const OpView& op) const;
  struct Extent {
    uint64_t begin = 0;
    uint64_t end = 0;
  };
  // By operand.
  bool WritesApart(const std::vector<ValueRef>& refs,
                   const std::vector<Extent>& extents) const;
  bool WritesWhereItMoved(uint32_t index) const;
  // Of an op with as many words and operands: all but the numbers that may
  // change (null: any of its slots).
  bool SameWordsAround(const TracedOp& expected, const SlotSet* changing,
                       const OpView& op) const;
  void BindAt(ValueId value, uint64_t origin);

  const Program* program_;
  const Trace* trace_;  // the program's
  Executor* executor_;
  std::vector<uint64_t> places_;
  struct Bound {
    uint64_t origin = 0;  // of a private value, the program's
    StoragePlace place;
    uint64_t end = 0;  // of an external's storage
  };
  std::vector<Bound> bound_;  // by value
  // By value, where eager put it in the pass that runs beside eager; none in
  // others.
  std::vector<StoragePlace> shadow_;
  bool shadowed_ = false;
  std::vector<ValueId> outputs_;  // that have memory
  uint64_t arena_begin_ = 0;      // of the places in it
  uint64_t arena_end_ = 0;
  std::vector<uint64_t> numbers_;  // room for an op's
};

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_REPLAY_BINDING_H_
