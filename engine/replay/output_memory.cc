#include "engine/replay/output_memory.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace reprise::engine {

OutputMemory::OutputMemory(PlanCore* plan, std::shared_ptr<Ledger> arena,
                           std::span<const uint64_t> places, Binding* binding)
    : plan_(plan),
      program_(plan->program().get()),
      binding_(binding),
      arena_(std::move(arena)),
      tenant_(arena_->Join()),
      shared_places_(*program_->trace, program_->segments, plan->outputs(),
                     places, program_->place_bytes),
      fresh_(program_->trace->values.size()) {}

bool OutputMemory::Enter() {
  moved_in_ = !arena_->IsIn(tenant_);
  return arena_->Enter(tenant_);
}

base::Status OutputMemory::Bind() {
  for (const ValueId v : outlived_) plan_->Escape(v);
  if (arena_->leased()) {
    for (const ValueId v : plan_->outputs()) {
      if (!arena_->leased(v)) continue;
      const std::span<const ValueId> neighbours = shared_places_.neighbours(v);
      if (!plan_->escapes(v) && !neighbours.empty()) outlived_.push_back(v);
      plan_->Escape(v);
      // Nor may others be written over it.
      for (const ValueId other : neighbours) plan_->Escape(other);
    }
  }
  for (const ValueId v : plan_->escaping()) {
    REPRISE_RETURN_IF_ERROR(BindFresh(v));
  }
  return {};
}

base::Status OutputMemory::BindFresh(ValueId value) {
  if (!fresh_[value]) {
    REPRISE_ASSIGN_OR_RETURN(fresh_[value], program_->trace->frontend->Allocate(
                                                program_->place_bytes[value]));
    ++escapes_;
  }
  binding_->BindOutput(value, fresh_[value].address());
  return {};
}

bool OutputMemory::WaitForBorrowers(Executor& executor) {
  std::optional<std::vector<device::UniqueEvent>> uses = arena_->TakeUses();
  if (!uses.has_value()) return false;
  for (const device::UniqueEvent& use : *uses) {
    if (executor.WaitFor(use.get())) continue;
    arena_->ReturnUses(*std::move(uses));
    return false;
  }
  return true;
}

bool OutputMemory::HasRoom(size_t segment, Executor& executor) {
  const std::span<const ValueId> followers = shared_places_.followers(segment);
  if (followers.empty()) return true;
  const size_t outlived = outlived_.size();
  for (const ValueId v : followers) {
    if (plan_->escapes(v)) continue;
    for (const ValueId other : shared_places_.neighbours(v)) {
      if (other >= v) break;
      if (arena_->leased(other)) outlived_.push_back(other);
    }
  }
  return outlived_.size() == outlived && WaitForBorrowers(executor);
}

bool OutputMemory::StaysFree(size_t segment, uint32_t cursor,
                             std::span<const ValueId> taken) const {
  const auto given_out = [&](ValueId other) {
    return arena_->leased(other) ||
           (program_->trace->values[other].birth_op >= cursor &&
            !plan_->escapes(other) && std::ranges::binary_search(taken, other));
  };
  const auto is_over_one = [&](ValueId v) {
    return !plan_->escapes(v) &&
           std::ranges::any_of(
               shared_places_.neighbours(v),
               [&](ValueId other) { return other < v && given_out(other); });
  };
  return std::ranges::none_of(shared_places_.followers(segment), is_over_one);
}

Block OutputMemory::Take(ValueId value) {
  if (plan_->escapes(value)) return std::move(fresh_[value]);
  return arena_->Lease(value, binding_->origin(value));
}

}  // namespace reprise::engine
