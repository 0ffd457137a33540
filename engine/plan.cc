#include "engine/plan.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/restore.h"

namespace reprise::engine {

Plan::Plan(std::shared_ptr<const Trace> trace, BuiltPlan built)
    : trace_(std::move(trace)),
      built_(std::move(built)),
      ledger_(Ledger::Create(std::move(built_.arena), trace_->values.size())),
      origins_(trace_->values.size(), 0),
      shadow_(trace_->values.size(), 0),
      last_writers_(trace_->values.size(), 0),
      late_(trace_->values.size(), false),
      escaping_(trace_->values.size(), false),
      fresh_(trace_->values.size()) {
  for (ValueId v : built_.late) late_[v] = true;
  for (ValueId v = 0; v < trace_->values.size(); ++v) {
    const Value& value = trace_->values[v];
    last_writers_[v] = value.birth_op;
    origins_[v] = value.external ? value.origin : built_.places[v];
    if (!value.external) {
      outputs_.push_back(v);
    } else if (value.birth_op > 0 && !late_[v]) {
      others_.push_back(v);
    }
  }
  for (uint32_t k = 0; k < trace_->ops.size(); ++k) {
    for (const ValueRef& operand : trace_->ops[k].operands) {
      if (operand.written) last_writers_[operand.value] = k;
    }
  }
}

Plan::~Plan() = default;

void Plan::BindAt(ValueId value, uint64_t origin) {
  if (origins_[value] == origin) return;
  origins_[value] = origin;
  built_.executor->Bind(value, origin);
}

bool Plan::SameWords(uint32_t index, const OpView& op) const {
  const TracedOp& expected = trace_->ops[index];
  return op.op == expected.op && op.words.size() == expected.words.size() &&
         op.operands.size() == expected.operands.size() &&
         std::memcmp(op.words.data(), expected.words.data(),
                     op.words.size_bytes()) == 0;
}

bool Plan::Matches(uint32_t index, const OpView& op) const {
  if (!SameWords(index, op)) return false;
  const TracedOp& expected = trace_->ops[index];
  for (size_t i = 0; i < op.operands.size(); ++i) {
    const ValueRef& ref = expected.operands[i];
    if (op.operands[i].address() != origins_[ref.value] + ref.offset_bytes) {
      return false;
    }
  }
  return true;
}

bool Plan::MatchesShadow(uint32_t index, const OpView& op) const {
  if (!SameWords(index, op)) return false;
  const TracedOp& expected = trace_->ops[index];
  for (size_t i = 0; i < op.operands.size(); ++i) {
    const ValueRef& ref = expected.operands[i];
    const uint64_t origin = trace_->values[ref.value].external
                                ? origins_[ref.value]
                                : shadow_[ref.value];
    if (op.operands[i].address() != origin + ref.offset_bytes) return false;
  }
  return true;
}

Plan::Readiness Plan::Resolve(const OpView& head) {
  Readiness readiness = ResolveHead(head);
  if (readiness == Readiness::kReady) readiness = ResolveOthers();
  if (readiness != Readiness::kReady) return readiness;
  next_segment_ = 0;
  next_launch_op_ = kNoOp;
  return ResolveOutputs();
}

Plan::Readiness Plan::ResolveHead(const OpView& head) {
  if (!SameWords(0, head)) return Readiness::kOtherOp;
  const TracedOp& expected = trace_->ops[0];
  for (size_t i = 0; i < head.operands.size(); ++i) {
    const ValueRef& ref = expected.operands[i];
    const uint64_t origin = head.operands[i].address() - ref.offset_bytes;
    if (!built_.movable[ref.value] &&
        origin != trace_->values[ref.value].origin) {
      return Readiness::kUnproven;
    }
  }
  for (size_t i = 0; i < head.operands.size(); ++i) {
    const ValueRef& ref = expected.operands[i];
    BindAt(ref.value, head.operands[i].address() - ref.offset_bytes);
  }
  // A value that the head uses twice must be one value now as well.
  return Matches(0, head) ? Readiness::kReady : Readiness::kOtherOp;
}

Plan::Readiness Plan::ResolveOthers() {
  const Frontend& frontend = *trace_->frontend;
  for (ValueId v : others_) {
    const Value& value = trace_->values[v];
    if (!frontend.Alive(value.storage) ||
        frontend.Base(value.storage) != value.base) {
      return Readiness::kReplaced;
    }
  }
  return Readiness::kReady;
}

bool Plan::BindLate(const OpView& op) {
  const Segment& segment = built_.segments[next_segment_];
  if (!segment.gated || !SameWords(segment.first_op, op)) return true;
  const TracedOp& expected = trace_->ops[segment.first_op];
  for (size_t i = 0; i < op.operands.size(); ++i) {
    const ValueRef& ref = expected.operands[i];
    const Value& value = trace_->values[ref.value];
    if (!late_[ref.value] || value.birth_op != segment.first_op) continue;
    const uint64_t origin = op.operands[i].address() - ref.offset_bytes;
    if (!built_.movable[ref.value] && origin != value.origin) return false;
    BindAt(ref.value, origin);
  }
  return true;
}

Plan::Readiness Plan::ResolveOutputs() {
  Frontend& frontend = *trace_->frontend;
  for (ValueId v : outputs_) {
    if (trace_->values[v].size_bytes == 0) continue;
    if (!escaping_[v]) {
      if (!ledger_->leased(v)) continue;
      escaping_[v] = true;
    }
    if (!fresh_[v]) {
      auto block = frontend.Allocate(built_.place_bytes[v]);
      if (!block) return Readiness::kNoMemory;
      fresh_[v] = *std::move(block);
      ++escapes_;
    }
    BindAt(v, fresh_[v].address());
  }
  return Readiness::kReady;
}

base::Status Plan::LaunchNext() {
  REPRISE_RETURN_IF_ERROR(built_.executor->LaunchSegment(next_segment_));
  SkipNext();
  return {};
}

void Plan::SkipNext() {
  const Segment& segment = built_.segments[next_segment_];
  ++next_segment_;
  if (next_segment_ == built_.segments.size()) {
    next_launch_op_ = kNoOp;
  } else if (built_.segments[next_segment_].gated) {
    next_launch_op_ = segment.end_op;
  } else {  // behind the op at which this one was launched
    next_launch_op_ =
        std::max((segment.first_op + segment.end_op) / 2, segment.first_op + 1);
  }
}

Block Plan::TakeBlock(ValueId value) {
  if (escaping_[value]) return std::move(fresh_[value]);
  return ledger_->Lease(value, origins_[value]);
}

void Plan::Finish() { next_segment_ = 0; }

base::Status Plan::Squash(uint32_t verified) {
  const uint32_t launched =
      next_segment_ == 0 ? 0 : built_.segments[next_segment_ - 1].end_op;
  next_segment_ = 0;
  const auto needed = [this](ValueId v) {
    return escaping_[v] ? !fresh_[v] : ledger_->leased(v);
  };
  for (uint32_t k : OpsToRestore(*trace_, verified, launched, needed)) {
    REPRISE_RETURN_IF_ERROR(built_.executor->LaunchOp(k));
  }
  return {};
}

}  // namespace reprise::engine
