#include "bindings/torch/region/read_check.h"

#include <utility>

#include "bindings/torch/region/tape_ops.h"
#include "bindings/torch/runtime/op_policy.h"

namespace reprise::bindings {

void ReadCheck::Before(const c10::OperatorHandle& op,
                       std::span<const c10::IValue> arguments) {
  if (!Reads(op)) return fault_.Refuse(Refusal::kHandsDataOut, op);
  const std::optional<Refusal> why = WhyNoRead();
  if (!why.has_value()) {
    if (effects_.draws()) behind_draws_ = FullName(op.operator_name());
    return;
  }
  if (!effects_.calls_python() && numbers_.MayReadAhead(op, arguments)) return;
  std::string reason =
      FullName(op.operator_name()) + SentenceOf(Refusal::kHandsDataOut);
  if (numbers_.IsCounter(arguments[0])) {
    reason += SentenceOf(Refusal::kReadsCounter);
  }
  reason += SentenceOf(*why);
  if (record_.first_effect < record_.calls.size()) {
    reason += FullName(record_.calls[record_.first_effect].op.operator_name());
  }
  fault_.Refuse(std::move(reason));
}

void ReadCheck::After(size_t index, std::span<const c10::IValue> results) {
  TapeCall& call = record_.calls[index];
  if (call.read_ahead) {
    numbers_.NoteRead(results[0]);
  } else if (Reads(call.op) && results.size() == 1) {
    call.read = results[0];
    end_ = index + 1;
  }
}

std::string ReadCheck::WhyNoForwardPass() const {
  if (record_.level != TapeLevel::kAboveAutograd || behind_draws_.empty()) {
    return {};
  }
  return behind_draws_ + SentenceOf(Refusal::kHandsDataOut) +
         SentenceOf(Refusal::kReadsBehindDraws);
}

std::optional<Refusal> ReadCheck::WhyNoRead() const {
  if (effects_.writes_outside()) return Refusal::kReadsBehindWrite;
  if (!effects_.none()) return Refusal::kReadsBehindEffect;
  switch (record_.pass) {
    case TapePass::kWhole:
      break;
    case TapePass::kForward:
      // Where the callable runs again for its gradients, others are drawn.
      if (effects_.draws()) return Refusal::kReadsBehindDraws;
      break;
    case TapePass::kBackward:
      return Refusal::kReadsInBackward;
  }
  return std::nullopt;
}

}  // namespace reprise::bindings
