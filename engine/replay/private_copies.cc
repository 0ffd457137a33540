#include "engine/replay/private_copies.h"

#include <algorithm>

namespace reprise::engine {

PrivateCopies::PrivateCopies(const Program* program, const Binding* binding)
    : program_(program),
      binding_(binding),
      eager_allocates_(
          std::ranges::any_of(program->trace->ops, &TracedOp::by_eager)) {
  for (const ValueId v : program_->effects.privates()) {
    takings_.push_back(binding_->Taking(v));
  }
}

std::vector<kernels::RangeCopy> PrivateCopies::GivingsBefore(
    uint32_t end_op) const {
  std::vector<kernels::RangeCopy> givings;
  for (const ValueId v : program_->effects.PrivatesWrittenBefore(end_op)) {
    // A value whose storage is gone may be seen through another one (DLPack).
    // Nobody has taken its memory if eager allocates nothing in the pass: the
    // session's ops are all that take memory in the order of its stream.
    if (eager_allocates_ && !binding_->Stands(v)) continue;
    const kernels::RangeCopy taking = binding_->Taking(v);
    givings.push_back({taking.from, taking.to, taking.bytes});
  }
  return givings;
}

}  // namespace reprise::engine
