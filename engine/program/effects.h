// What the ops of a trace do beside making values: when each may be launched,
// and what a squash has to run again.

#ifndef REPRISE_ENGINE_PROGRAM_EFFECTS_H_
#define REPRISE_ENGINE_PROGRAM_EFFECTS_H_

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/program/draws.h"
#include "engine/trace/trace.h"

namespace reprise::engine {

// By slot of an op, whether it is in the set. Empty where none is.
using SlotSet = std::vector<bool>;

// By op, which of its slots differ between the recordings. The others are taken
// for constants.
std::vector<SlotSet> ChangingSlots(const Trace& first, const Trace& second);

// One analysis, which segments, squashes and validations all go by.
//
// An op is launched ahead of the program, or, gated, when the program has asked
// for it. Where the program leaves the trace, an op that was launched ahead is
// undone: what it wrote over is made again by the ops that had made it. So one
// that writes over what could not be made again is gated; and one that writes
// externals, of which nothing is ever undone: it has been asked for.
//
// Immutable; borrows the trace. Cost, when made: some walks over the trace, and
// at each write of an external one over its values, and over its users.
class Effects {
 public:
  // What an op waits for; the first that holds.
  enum class Gate : uint8_t {
    kNone,
    kOutside,    // it writes memory of the program's, which nothing undoes
    kInput,      // where an input is, which only it tells
    kShared,     // it reads memory that others may write at any time
    kNumber,     // a number that changes
    kGenerator,  // where the generator is, or its turn at it (Draws)
    kSwitches,   // the program sets other switches before it
    kTrap,    // it stops the device for data that the program may never give it
    kRemake,  // what it writes over could not be made again
    // The op before it is nondeterministic: in a validation, what eager made
    // there is put in place of what the plan did before anything goes on.
    kSubstitute,
  };

  // What is made again where the program leaves the trace.
  enum class Remake : uint8_t {
    // Values that come from no input of the pass, from nothing that it writes
    // outside, and from no memory but that of the framework's allocator, which
    // tells before it goes: the program may be done with all other before it
    // leaves. Nor what nondeterministic ops made.
    kWhatLasts,
    // None: for executors whose memory may be anybody's as soon as the program
    // has freed it.
    kNothing,
  };

  // Without a trace: of a plan that is not built yet.
  Effects() = default;
  // `inputs`: externals that are another storage, or elsewhere, at each pass.
  // Those that the head does not use are late: where they are is known when
  // their first op comes, and launching that op earlier would read memory that
  // the program has not vouched for. `changing`: see ChangingSlots; empty where
  // no number changes.
  Effects(const Trace* trace, const std::vector<ValueId>& inputs,
          std::vector<SlotSet> changing, Remake remake, Draws draws = {},
          std::vector<ValueId> privates = {});
  // As two recordings tell. `private_bytes`: at most so much does a private
  // value take; 0: there is none. `named`: by value, recorded work names it by
  // its address, and can be pointed elsewhere.
  static Effects Of(const Trace& first, const Trace& second, Remake remake,
                    Draws draws, uint64_t private_bytes = 0,
                    const std::vector<bool>& named = {});

  // --- Ops ---

  Gate gate(uint32_t op) const { return gates_[op]; }
  // The op itself tells nothing that its launch waits for: who knows that it
  // comes may launch it without seeing it.
  bool foretold(uint32_t op) const { return foretold_[op]; }
  // It tells no more than where inputs are.
  bool tells_places(uint32_t op) const { return tells_places_[op]; }
  bool writes_outside(uint32_t op) const {
    return gates_[op] == Gate::kOutside;
  }
  // Which of its numbers may change.
  const SlotSet& changing(uint32_t op) const { return changing_[op]; }

  const Draws& draws() const { return draws_; }

  // --- Values ---

  bool input(ValueId value) const { return inputs_[value]; }
  // An input whose place is told by the op that uses it first.
  bool late(ValueId value) const {
    return inputs_[value] && trace_->values[value].birth_op > 0;
  }
  // Externals that the trace writes.
  const std::vector<ValueId>& written_outside() const { return outside_; }
  uint32_t last_writer(ValueId value) const { return last_writers_[value]; }
  // Externals of which each instance has a copy of its own: small state that
  // the pass writes, such as running statistics. The pass takes it at its
  // beginning, reads and writes the copy, ahead of the program, and gives back
  // what ops have written that the program has asked for. Ascending.
  const std::vector<ValueId>& privates() const { return privates_; }
  bool is_private(ValueId value) const { return private_[value]; }
  // The ops that write some, ascending.
  const std::vector<uint32_t>& private_writers() const {
    return private_writers_;
  }
  // Those that an op before `end_op` writes, ascending.
  std::vector<ValueId> PrivatesWrittenBefore(uint32_t end_op) const;

  // --- Squashes ---

  // What a squash does before it gives private values back: takes some of them
  // anew, then runs ops again, in program order.
  struct Restoration {
    std::vector<ValueId> taken;
    std::vector<uint32_t> ops;
  };
  // The program left the trace after op `verified` - 1, and ops up to
  // `launched` have been launched. A value made by a verified op, or a private
  // one written by one, and written by an op of [verified, launched), no longer
  // holds what the program must see. Returns the verified ops whose recorded
  // work run again makes every such value right, if `needed(value)` says that
  // the program can still see it; private ones it can.
  //
  // Running an op again needs its operands as they were: those that were
  // written since are made again, too, from their birth on (fixpoint); private
  // values from what the program has of them, which is what the pass has found.
  // No op that writes other externals is among them. Linear in the trace a
  // round.
  Restoration ToRestore(uint32_t verified, uint32_t launched,
                        const std::function<bool(ValueId)>& needed) const;

 private:
  void NotePrivateWriters();
  void NoteWrittenOutside();
  // The program sets other switches between the op before this one and it.
  bool OtherSwitches(uint32_t op) const;
  // What the op waits for. `tells`: it is the first to show where an input is.
  // `keeps`: what it writes over could not be made again.
  Gate GateOf(uint32_t op, bool tells, bool keeps) const;

  const Trace* trace_ = nullptr;
  std::vector<bool> inputs_;
  std::vector<SlotSet> changing_;  // by op
  Draws draws_;
  std::vector<Gate> gates_;
  std::vector<bool> foretold_;      // by op
  std::vector<bool> tells_places_;  // by op
  std::vector<ValueId> outside_;
  std::vector<uint32_t> last_writers_;
  std::vector<ValueId> privates_;
  std::vector<bool> private_;                    // by value
  std::vector<uint32_t> first_private_writers_;  // by value
  std::vector<uint32_t> private_writers_;
};

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_PROGRAM_EFFECTS_H_
