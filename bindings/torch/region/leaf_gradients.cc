#include "bindings/torch/region/leaf_gradients.h"

namespace reprise::bindings {
namespace {

std::pair<const void*, int64_t> PlaceOf(const at::Tensor& tensor) {
  if (!tensor.has_storage() || tensor.numel() == 0) {
    return {tensor.unsafeGetTensorImpl(), 0};
  }
  return {tensor.storage().unsafeGetStorageImpl(), tensor.storage_offset()};
}

}  // namespace

bool LeafGradients::Leaf::has_changed() const {
  const at::Tensor& now = tensor.grad();
  return (now.defined() ? now.unsafeGetTensorImpl() : nullptr) != before;
}

void LeafGradients::Add(const at::Tensor& leaf) {
  if (!known_.insert(leaf.unsafeGetTensorImpl()).second) return;
  const at::Tensor gradient = leaf.grad();
  leaves_.push_back({leaf});
  if (!gradient.defined()) return;
  leaves_.back().before = gradient.unsafeGetTensorImpl();
  ++places_[PlaceOf(gradient)];
  gradients_.emplace(leaves_.back().before, leaves_.size() - 1);
  leaves_.back().kept.emplace(gradient.getIntrusivePtr());
}

const LeafGradients::Leaf* LeafGradients::LeafOf(
    const c10::TensorImpl* gradient) const {
  const auto found = gradients_.find(gradient);
  return found != gradients_.end() ? &leaves_[found->second] : nullptr;
}

bool LeafGradients::SharesPlace(const at::Tensor& gradient) const {
  const auto found = places_.find(PlaceOf(gradient));
  return found != places_.end() && found->second > 1;
}

void LeafGradients::LookForDropped(size_t calls) {
  if (dropped_at_.has_value()) return;
  for (const Leaf& leaf : leaves_) {
    if (leaf.before == nullptr || !leaf.has_changed()) continue;
    dropped_at_ = calls;
    return;
  }
}

}  // namespace reprise::bindings
