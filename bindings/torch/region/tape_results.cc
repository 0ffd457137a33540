#include "bindings/torch/region/tape_results.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <unordered_set>
#include <utility>

#include "bindings/torch/base/plain_tensor.h"
#include "bindings/torch/base/tensor_form.h"

namespace reprise::bindings {
namespace {

using Origin = TapeRegister::Origin;

}  // namespace

bool TapeResults::NoteGradients(size_t behind_reads,
                                const BackwardInside& backward) {
  bool tracks_gradients = false;
  gradients_.LookForDropped(record_.calls.size());
  // Where Python would read another value, nothing may have changed.
  record_.drops_gradients_at = std::max(
      gradients_.dropped_at().value_or(record_.calls.size()), behind_reads);
  for (size_t i = 0; i < gradients_.size(); ++i) {
    const LeafGradients::Leaf leaf = gradients_[i];  // more may come
    const bool same = !leaf.has_changed();
    const TapeRegister* const before =
        leaf.before != nullptr ? names_.Find(leaf.before) : nullptr;
    const bool read = before != nullptr && before->origin == Origin::kGradient;
    if (same && !read) continue;
    TapeGradient& noted = record_.gradients.emplace_back();
    noted.of = static_cast<uint32_t>(names_.RegisterOf(leaf.tensor));
    if (same) continue;
    const at::Tensor& after = leaf.tensor.grad();
    noted.after = names_.RegisterOf(after);
    if (after.defined() && !IsPlainTensor(*after.unsafeGetTensorImpl())) {
      fault_.Refuse(Refusal::kOutputNotOrdinary);
    }
    if (after.defined() && after.requires_grad() &&
        record_.level == TapeLevel::kBelowAutograd) {
      // No level has both: a pass inside, and histories behind it.
      if (backward.any() || record_.pass != TapePass::kWhole) {
        fault_.Refuse(Refusal::kGradientHasHistory);
      } else {
        tracks_gradients = true;
      }
    }
    if (noted.after >= 0 &&
        record_.registers[static_cast<size_t>(noted.after)].origin ==
            Origin::kForeign) {
      fault_.Refuse(Refusal::kGradientFromOutside);
    }
  }
  return tracks_gradients;
}

bool TapeResults::NoteOutput(const at::Tensor& output,
                             const BackwardInside& backward) {
  const int32_t reg = names_.RegisterOf(output);
  record_.outputs.push_back(reg);
  if (reg < 0 || !IsPlainTensor(*output.unsafeGetTensorImpl())) {
    fault_.Refuse(Refusal::kOutputNotOrdinary);
    return false;
  }
  if (HasTangent(*output.unsafeGetTensorImpl())) {
    fault_.Refuse(Refusal::kHasTangent);
  }
  const TapeRegister& given = record_.registers[static_cast<size_t>(reg)];
  if (given.origin == Origin::kInput && !output.is_same(inputs_[given.index])) {
    fault_.Refuse(Refusal::kOutputIsDataOfArgument);
  }
  if (given.origin == Origin::kForeign &&
      given.foreign->_unsafe_get_target() != output.unsafeGetTensorImpl()) {
    fault_.Refuse(Refusal::kOutputIsDataOfOutside);
  }
  const bool is_made = given.origin == Origin::kResult;
  if (is_made && names_.IsOfData(output)) {
    fault_.Refuse(Refusal::kOutputIsDataOfOutside);
  }
  if (is_made && GradientOf(*output.unsafeGetTensorImpl()) != nullptr) {
    fault_.Refuse(Refusal::kOutputIsLeaf);
  }
  if (record_.pass == TapePass::kForward) {
    if (given.origin == Origin::kResult && names_.IsOutside(reg)) {
      fault_.Refuse(Refusal::kOutputIsViewOfOutside);
    }
    return false;
  }
  if (!output.requires_grad()) return false;
  if (!backward.any()) return record_.level == TapeLevel::kBelowAutograd;
  if (output.grad_fn() == nullptr) {
    if (is_made) fault_.Refuse(Refusal::kOutputIsLeaf);
  } else if (!backward.HasUsedUp(output.grad_fn())) {
    fault_.Refuse(Refusal::kOutputHasHistory);
  } else if (is_made) {
    const size_t index = record_.outputs.size() - 1;
    record_.used_up.push_back({.index = static_cast<uint32_t>(index)});
  }
  return false;
}

bool TapeResults::NoteOutputs(std::span<const at::Tensor> outputs,
                              const BackwardInside& backward) {
  bool tracks_gradients = false;
  for (const at::Tensor& output : outputs) {
    tracks_gradients |= NoteOutput(output, backward);
  }
  std::unordered_set<int32_t> gradients;
  for (const TapeGradient& each : record_.gradients) {
    gradients.insert(each.after);
  }
  NoteShared(record_.used_up, record_.outputs, std::move(gradients));
  NoteWays(record_.used_up, outputs, inputs_, [this](const at::Tensor& tensor) {
    return names_.RegisterOf(tensor);
  });
  return tracks_gradients;
}

std::optional<size_t> TapeResults::NoteSaved(const at::Tensor& saved) {
  int32_t reg = names_.RegisterOf(saved);
  // Autograd saves a tensor as what detach gives of it.
  while (reg >= 0) {
    const TapeCall* const maker = record_.MakerOf(reg);
    if (maker == nullptr || maker->op.operator_name().name != "aten::detach") {
      break;
    }
    reg = maker->arguments[0].registers[0];
  }
  if (reg < 0) {
    fault_.Refuse(Refusal::kSavesNotOrdinary);
    return std::nullopt;
  }
  std::vector<int32_t>& all = record_.outputs;
  const auto first = all.begin() + static_cast<ptrdiff_t>(record_.saved_from);
  const auto found = std::find(first, all.end(), reg);
  const auto index = static_cast<size_t>(found - first);
  if (found == all.end()) all.push_back(reg);
  return index;
}

std::vector<at::Tensor> TapeResults::FindWritten(const TapeEffects& effects) {
  std::vector<at::Tensor> found;
  for (size_t reg = 0; reg < record_.registers.size(); ++reg) {
    const TapeRegister& of = record_.registers[reg];
    if (of.origin == Origin::kResult ||
        !effects.WritesTo(names_.storages()[reg])) {
      continue;
    }
    auto tensor = of.foreign.has_value() ? of.foreign->lock() : nullptr;
    if (tensor) {
      found.emplace_back(std::move(tensor));
    } else {
      fault_.Refuse(Refusal::kWritesArgument);
    }
  }
  return found;
}

}  // namespace reprise::bindings
