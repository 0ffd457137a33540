// Ops that may be nondeterministic.

#ifndef REPRISE_SCHEDULER_SUSPECTS_H_
#define REPRISE_SCHEDULER_SUSPECTS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "engine/base/tries.h"
#include "engine/program/effects.h"
#include "engine/replay/executor.h"
#include "engine/trace/op.h"
#include "engine/trace/trace.h"

namespace reprise::scheduler {

// Judges the validations of a trace's plan. An op that gave other bits than
// eager was put in the wrong place, or is nondeterministic: two runs on the
// same bits give different bits. An op that may be so becomes a suspect. The
// next validations run each suspect twice, and see whether it is.
//
// Of one trace; a single-thread value.
class Suspects {
 public:
  enum class Compared : uint8_t { kOpByOp, kWhole };

  struct Finding {
    enum class Kind : uint8_t {
      kEqual,  // each op gave eager's bits
      // `op` gave other bits than nondeterminism explains. It cannot be
      // nondeterministic, or differs by more than its two runs do, or is a
      // suspect whose runs never differed.
      kDiffers,
      kNotKnown,   // validate again, op by op: there are suspects
      kConfirmed,  // all suspects were seen to be nondeterministic
    };
    Kind kind = Kind::kEqual;
    uint32_t op = 0;
  };

  // What a validation of the trace found. `effects` are those of its plan.
  // `may_be`: the operator may be nondeterministic.
  Finding Judge(const engine::Trace& trace, const engine::Effects& effects,
                const engine::Verdict& verdict, Compared compared,
                const std::function<bool(engine::OpId)>& may_be);

  bool contains(uint32_t op) const { return ops_.contains(op); }
  bool empty() const { return ops_.empty(); }
  // Ascending.
  std::vector<uint32_t> ops() const;

  // The trace is recorded anew.
  void Clear();

 private:
  // Notes what the second runs showed. True: something new.
  bool NoteSecondRuns(const engine::Verdict& verdict, size_t ops);
  bool all_confirmed() const;
  // Drops those that are not confirmed. Returns the first one.
  uint32_t DropOthers();

  std::map<uint32_t, bool> ops_;  // whether it was seen to be nondeterministic
  // Validations that may find nothing new: some ops give other bits only now
  // and then.
  base::Tries fruitless_{2};
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_SUSPECTS_H_
