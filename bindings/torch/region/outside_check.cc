#include "bindings/torch/region/outside_check.h"

#include <algorithm>
#include <cstddef>

namespace reprise::bindings {
namespace {

using Origin = TapeRegister::Origin;

}  // namespace

bool OutsideCheck::CheckRegisters(const BackwardInside& backward) {
  bool tracks_gradients = false;
  const bool below = record_.level == TapeLevel::kBelowAutograd;
  const auto check = [&](size_t reg, const at::Tensor& tensor) {
    const TapeRegister& came = record_.registers[reg];
    if (NodeOf(tensor) != names_.HistoryOf(reg)) {
      if (below && record_.pass == TapePass::kWhole) {
        tracks_gradients = true;
        return;
      }
      fault_.Refuse(Refusal::kOutsideOtherHistory);
    }
    if (HasTangent(*tensor.unsafeGetTensorImpl())) {
      fault_.Refuse(Refusal::kHasTangent);
    }
    const TensorForm now = TensorForm::Of(tensor);
    if (now.hooks != came.form.hooks) {
      fault_.Refuse(Refusal::kOutsideHooks);
    }
    if (!below && tensor.requires_grad()) return;  // as its history says
    if (tensor.storage().unsafeGetStorageImpl() != names_.storages()[reg] ||
        now != came.form) {
      fault_.Refuse(Refusal::kOutsideOtherForm);
    }
    if (backward.any() && came.form.hooks != 0) {
      fault_.Refuse(Refusal::kOutsideHooksRun);
    }
  };
  for (size_t reg = 0; reg < record_.registers.size(); ++reg) {
    const TapeRegister& came = record_.registers[reg];
    if (came.origin == Origin::kInput) {
      check(reg, inputs_[came.index]);
    } else if (came.origin == Origin::kForeign) {
      if (auto tensor = came.foreign->lock()) check(reg, at::Tensor(tensor));
      if (std::ranges::any_of(inputs_, [&](const at::Tensor& input) {
            return input.storage().unsafeGetStorageImpl() ==
                   names_.storages()[reg];
          })) {
        fault_.Refuse(Refusal::kOutsideSharesMemory);
      }
    }
  }
  for (size_t i = 0; i < gradients_.size(); ++i) {
    const LeafGradients::Leaf& leaf = gradients_[i];
    const TapeRegister* const reg =
        leaf.before != nullptr ? names_.Find(leaf.before) : nullptr;
    if (reg == nullptr || reg->origin != Origin::kGradient) continue;
    if (auto tensor = leaf.kept->lock()) {
      check(static_cast<size_t>(reg - record_.registers.data()),
            at::Tensor(tensor));
    }
  }
  return tracks_gradients;
}

void OutsideCheck::CheckWatched(std::span<const at::Tensor> watched,
                                WatchedBefore before) {
  for (const at::Tensor& tensor : watched) {
    const auto found = before.extract(tensor.unsafeGetTensorImpl());
    if (found.empty()) continue;  // given twice
    const TapeRegister* const reg = names_.Find(found.key());
    const bool is_register = reg != nullptr && reg->foreign.has_value() &&
                             reg->foreign->_unsafe_get_target() == found.key();
    const TensorBefore& then = found.mapped();
    if (is_register ? reg->form != then.tensor.form : !then.tensor.Holds()) {
      fault_.Refuse(Refusal::kWatchedChanged);
    }
    if (!then.HasItsStorage(tensor)) {
      fault_.Refuse(Refusal::kOutsideOtherForm);
    }
    if (!is_register) record_.watched.Add(then.tensor);
  }
}

void OutsideCheck::CheckBackwardReads() {
  for (const TapeRegister& reg : record_.registers) {
    if (reg.origin == Origin::kForeign &&
        !(reg.form.device.is_cpu() && reg.form.sizes.empty())) {
      fault_.Refuse(Refusal::kReadsUnsaved);
    }
  }
}

}  // namespace reprise::bindings
