// Where a trace that is watched goes round in a loop.

#ifndef REPRISE_SCHEDULER_LOOP_FINDER_H_
#define REPRISE_SCHEDULER_LOOP_FINDER_H_

#include <cstdint>
#include <optional>
#include <span>

#include "engine/trace/op.h"
#include "engine/trace/open_trace.h"
#include "engine/trace/trace.h"
#include "scheduler/loop_code.h"
#include "scheduler/repetition.h"

namespace reprise::scheduler {

// Traces of a loop begin and end where its body does. That is told by ops that
// have repeated (Repetition), or, of a loop whose passes have several sizes, by
// the operators that were learned of earlier ones (LoopCode).
//
//   Clear ─► (asked about the op that is due ─► Add or not ─► FollowBody)*
//
// Single-thread. Cost of an op: that of Repetition::Add, and two look-ups.
class LoopFinder {
 public:
  // `code` is borrowed.
  explicit LoopFinder(LoopCode* code) : code_(*code) {}

  // A trace is opened.
  void Clear() {
    repetition_.Clear();
    Forget();
    LeaveBody();
  }

  // Of the op that is due.

  // It begins a body once more: a whole period has repeated.
  bool Repeats() const { return repeated_ != Repetition::Found::kNothing; }
  // The same of an op without operands, which no weight tells.
  bool ComesRound(uint64_t hash) { return repetition_.ComesRound(hash); }
  // It comes behind the end of a body, or begins one, as was learned.
  bool BodyIsOver() const { return left_of_body_ == 0u; }
  bool BeginsBody(const engine::OpView& op,
                  const engine::OpenTrace& open) const {
    return FindCode(LoopCode::Edge::kBegin, op, open) != nullptr;
  }
  // A trace ends before it. What repeated only as code is known from now on.
  void Learn(const engine::OpView& op);

  // The op has come, and nothing told that it would; `values` are its operands
  // as the open trace numbers them.
  void Add(const engine::OpView& op, uint64_t hash,
           std::span<const engine::ValueRef> values,
           const engine::OpenTrace& open) {
    repeated_ = repetition_.Add(op.op, hash, op.operands, values, open);
  }
  // The op has come: it may end a body, or be one of those behind such an op.
  void FollowBody(const engine::OpView& op, const engine::OpenTrace& open);
  // Nothing ends with the body that is under way.
  void LeaveBody() { left_of_body_.reset(); }
  // Nothing has repeated.
  void Forget() { repeated_ = Repetition::Found::kNothing; }

 private:
  // A loop whose passes have several sizes begins or ends with this op, or ends
  // soon behind it; null: none does.
  const LoopCode::Op* FindCode(LoopCode::Edge edge, const engine::OpView& op,
                               const engine::OpenTrace& open) const;

  LoopCode& code_;
  Repetition repetition_;
  Repetition::Found repeated_ = Repetition::Found::kNothing;
  // How many ops come until the body of a loop that is told by its code ends.
  std::optional<uint32_t> left_of_body_;
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_LOOP_FINDER_H_
