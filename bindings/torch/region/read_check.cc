#include "bindings/torch/region/read_check.h"

#include <algorithm>
#include <utility>

#include "bindings/torch/base/ivalues.h"
#include "bindings/torch/region/result_words.h"
#include "bindings/torch/region/tape_ops.h"
#include "bindings/torch/runtime/op_policy.h"

namespace reprise::bindings {
namespace {

// Results that are none of its arguments.
bool GivesNew(const c10::FunctionSchema& schema) {
  return std::ranges::any_of(schema.returns(), [](const c10::Argument& result) {
    return result.alias_info() == nullptr || !result.alias_info()->isWrite();
  });
}

}  // namespace

void ReadCheck::Before(const c10::OperatorHandle& op,
                       std::span<const c10::IValue> arguments) {
  if (!Reads(op)) return fault_.Refuse(Refusal::kHandsDataOut, op);
  const std::optional<Refusal> why = WhyNoRead();
  if (!why.has_value()) {
    if (effects_.draws()) behind_draws_ = FullName(op.operator_name());
    return;
  }
  if (!effects_.calls_python() && numbers_.MayReadAhead(op, arguments)) return;
  fault_.Refuse(ReasonOf(op, Refusal::kHandsDataOut, *why,
                         numbers_.IsCounter(arguments[0])));
}

bool ReadCheck::BeforeOther(const c10::OperatorHandle& op,
                            std::span<const c10::IValue> arguments) {
  results_ = SizesByData(op, arguments)                ? Results::kSizes
             : IsOfOthers(op) && GivesNew(op.schema()) ? Results::kOthers
                                                       : Results::kNone;
  if (results_ == Results::kNone) return true;
  given_ = StoragesOf(arguments);
  why_no_read_ = WhyNoRead();
  return results_ == Results::kOthers || !why_no_read_.has_value();
}

void ReadCheck::SettleSizes(const c10::OperatorHandle& op, bool known) {
  results_ = Results::kNone;
  if (known) return;
  fault_.Refuse(ReasonOf(op, Refusal::kSizeDependsOnData, *why_no_read_));
}

void ReadCheck::After(size_t index, std::span<const c10::IValue> results) {
  TapeCall& call = record_.calls[index];
  const Results noted = std::exchange(results_, Results::kNone);
  if (call.read_ahead) {
    numbers_.NoteRead(results[0]);
  } else if (Reads(call.op) && results.size() == 1) {
    call.read = results[0];
    end_ = index + 1;
  } else if (noted != Results::kNone) {
    call.read = WordsOf(results, given_);
    call.reads_results = true;
    if (noted == Results::kOthers) {
      if (declared_.has_value() && SameValue(*declared_, call.read)) return;
      // It may be the first one that writes.
      if (!why_no_read_.has_value() && record_.first_effect <= index) {
        why_no_read_ = Refusal::kReadsBehindEffect;
      }
      if (why_no_read_.has_value()) {
        return fault_.Refuse(
            ReasonOf(call.op, Refusal::kFormMayDependOnData, *why_no_read_));
      }
    }
    end_ = index + 1;
    if (effects_.draws()) behind_draws_ = FullName(call.op.operator_name());
  }
}

std::string ReadCheck::ReasonOf(const c10::OperatorHandle& op, Refusal what,
                                Refusal why, bool of_counter) const {
  std::string reason = FullName(op.operator_name()) + SentenceOf(what);
  if (of_counter) reason += SentenceOf(Refusal::kReadsCounter);
  reason += SentenceOf(why);
  if (record_.first_effect < record_.calls.size()) {
    reason += FullName(record_.calls[record_.first_effect].op.operator_name());
  }
  return reason;
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
