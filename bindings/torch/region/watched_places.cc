#include "bindings/torch/region/watched_places.h"

#include <algorithm>
#include <utility>

#include "bindings/torch/base/plain_tensor.h"

namespace reprise::bindings {

TensorBefore TensorBefore::Of(const at::Tensor& tensor) {
  TensorBefore before{.tensor = WatchedTensor::Of(tensor)};
  if (tensor.has_storage()) {
    before.storage.emplace(
        tensor.unsafeGetTensorImpl()->unsafe_storage().getWeakStorageImpl());
  }
  return before;
}

bool TensorBefore::HasItsStorage(const at::Tensor& tensor) const {
  const bool has = tensor.has_storage();
  if (!has || !storage.has_value()) return has == storage.has_value();
  return tensor.storage().unsafeGetStorageImpl() ==
         storage->_unsafe_get_target();
}

std::vector<at::Tensor> WatchedPlaces::Beside(const at::Tensor& tensor) {
  Find();
  return Beside(tensor, tensors_);
}

std::vector<at::Tensor> WatchedPlaces::WithGradientBeside(
    const at::Tensor& tensor) {
  Find();
  return Beside(tensor, gradients_);
}

void WatchedPlaces::Find() {
  if (std::exchange(found_, true)) return;
  for (const auto& [impl, before] : watched_) {
    if (!before.storage.has_value()) continue;
    tensors_.emplace(before.storage->_unsafe_get_target(), impl);
    const c10::TensorImpl* const gradient =
        before.tensor.has_gradient ? GradientOf(*impl) : nullptr;
    if (gradient != nullptr && gradient->has_storage()) {
      gradients_.emplace(gradient->unsafe_storage().unsafeGetStorageImpl(),
                         impl);
    }
  }
}

std::vector<at::Tensor> WatchedPlaces::Beside(const at::Tensor& tensor,
                                              const Places& places) const {
  std::vector<at::Tensor> beside;
  const auto [begin, end] =
      places.equal_range(tensor.storage().unsafeGetStorageImpl());
  for (auto it = begin; it != end; ++it) {
    auto there = watched_.at(it->second).tensor.tensor.lock();
    if (there && IsPlainTensor(*there)) beside.emplace_back(std::move(there));
  }
  std::ranges::sort(beside, {}, [](const at::Tensor& each) {
    return each.unsafeGetTensorImpl();
  });
  return beside;
}

}  // namespace reprise::bindings
