#include "bindings/torch/base/tensor_form.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "bindings/torch/base/plain_tensor.h"

namespace reprise::bindings {
namespace {

// Where in a tensor it keeps what autograd knows of it, in bytes; none: that
// was not found. Torch gives it by a call, which is a good part of what looking
// at a tensor takes.
std::optional<size_t> FindMeta() {
  const c10::InferenceMode ordinary(false);
  std::optional<size_t> found;
  for (int i = 0; i < 4; ++i) {
    const at::Tensor tensor = at::detail::empty_cpu({i}, at::kFloat);
    tensor.set_requires_grad(true);
    const auto* const impl = tensor.unsafeGetTensorImpl();
    const void* const meta = impl->autograd_meta();
    size_t place = 0;
    for (; place + sizeof meta <= sizeof(c10::TensorImpl);
         place += sizeof meta) {
      const void* word = nullptr;
      std::memcpy(&word, reinterpret_cast<const std::byte*>(impl) + place,
                  sizeof word);
      if (word == meta) break;
    }
    if (place + sizeof meta > sizeof(c10::TensorImpl) ||
        place != found.value_or(place)) {
      return std::nullopt;
    }
    found = place;
  }
  return found;
}

const std::optional<size_t> kMetaAt = FindMeta();

// What autograd knows of a tensor.
class Known {
 public:
  explicit Known(const c10::TensorImpl& tensor) {
    if (kMetaAt.has_value()) {
      std::memcpy(&meta_,
                  reinterpret_cast<const std::byte*>(&tensor) + *kMetaAt,
                  sizeof meta_);
    } else {
      meta_ = static_cast<const torch::autograd::AutogradMeta*>(
          tensor.autograd_meta());
    }
  }

  bool requires_grad() const {
    return meta_ != nullptr &&
           (meta_->requires_grad_ || meta_->grad_fn_ != nullptr);
  }
  bool leaf() const { return meta_ == nullptr || meta_->grad_fn_ == nullptr; }
  bool has_tangent() const {
    return meta_ != nullptr && meta_->fw_grad_ != nullptr;
  }
  // Those of Python's count as one, however many a tensor has.
  uint32_t hooks() const {
    if (meta_ == nullptr) return 0;
    return static_cast<uint32_t>(meta_->hooks_.size()) +
           (meta_->post_acc_grad_hooks_ != nullptr ? 1 : 0) +
           (meta_->retains_grad_ != 0 ? 1 : 0);
  }
  // Null: there is none.
  const c10::TensorImpl* gradient() const {
    return meta_ != nullptr && meta_->grad_.defined()
               ? meta_->grad_.unsafeGetTensorImpl()
               : nullptr;
  }

 private:
  const torch::autograd::AutogradMeta* meta_ = nullptr;
};

bool HasExtents(c10::DispatchKeySet keys) {
  return ArePlain(keys) || IsZeroTensor(keys);
}

bool IsIn(const c10::TensorImpl& tensor, Storages storages) {
  return !storages.empty() && tensor.has_storage() &&
         std::ranges::binary_search(
             storages, tensor.unsafe_storage().unsafeGetStorageImpl());
}

}  // namespace

TensorForm TensorForm::Of(const at::Tensor& tensor) {
  const Known known(*tensor.unsafeGetTensorImpl());
  TensorForm form{.keys = tensor.key_set().raw_repr(),
                  .dtype = tensor.scalar_type(),
                  .device = tensor.device(),
                  .requires_grad = tensor.requires_grad(),
                  .leaf = known.leaf(),
                  .hooks = known.hooks()};
  if (HasExtents(tensor.key_set())) {
    form.storage_offset = tensor.storage_offset();
    form.sizes = tensor.sizes().vec();
    form.strides = tensor.strides().vec();
  }
  return form;
}

bool TensorForm::Fits(const c10::TensorImpl& tensor, bool has_gradient) const {
  const Known known(tensor);
  return known.hooks() == hooks &&
         (known.gradient() != nullptr) == has_gradient && FitsValue(tensor);
}

bool TensorForm::FitsValue(const c10::TensorImpl& tensor) const {
  const c10::DispatchKeySet now = tensor.key_set();
  const Known known(tensor);
  return now.raw_repr() == keys &&
         tensor.dtype() == c10::scalarTypeToTypeMeta(dtype) &&
         tensor.device() == device && known.requires_grad() == requires_grad &&
         known.leaf() == leaf && !known.has_tangent() &&
         (!HasExtents(now) || (std::ranges::equal(tensor.sizes(), sizes) &&
                               std::ranges::equal(tensor.strides(), strides)));
}

bool TensorForm::MayBeDataOf(const TensorForm& other) const {
  TensorForm form = *this;
  form.requires_grad = other.requires_grad;
  form.leaf = other.leaf;
  return form == other;
}

bool HasTangent(const c10::TensorImpl& tensor) {
  return Known(tensor).has_tangent();
}

const c10::TensorImpl* GradientOf(const c10::TensorImpl& tensor) {
  return Known(tensor).gradient();
}

WatchedTensor WatchedTensor::Of(const at::Tensor& tensor) {
  return {.tensor = WeakTensor(tensor.getIntrusivePtr()),
          .form = TensorForm::Of(tensor),
          .has_gradient = GradientOf(*tensor.unsafeGetTensorImpl()) != nullptr};
}

bool WatchedTensor::Holds(Storages elsewhere) const {
  if (tensor.use_count() == 0) return false;
  // Its memory stays as long as there is a weak reference.
  const c10::TensorImpl& now = *tensor._unsafe_get_target();
  return form.Fits(now, has_gradient) && !IsIn(now, elsewhere) &&
         (!ArePlain(now.key_set()) ||
          now.storage_offset() == form.storage_offset);
}

void WatchedTensors::Add(const WatchedTensor& tensor) {
  const c10::TensorImpl* const itself = tensor.tensor._unsafe_get_target();
  all_.insert(std::ranges::lower_bound(all_, itself), itself);
  const TensorForm& form = tensor.form;
  const c10::DispatchKeySet keys(c10::DispatchKeySet::RAW, form.keys);
  if (!ArePlain(keys) || form.sizes.size() > UINT8_MAX) {
    others_.push_back(tensor);
    return;
  }
  Row& row = rows_.emplace_back();
  row.keys = form.keys;
  row.meta = tensor.tensor._unsafe_get_target()->autograd_meta();
  row.extents = static_cast<uint32_t>(extents_.size());
  extents_.insert(extents_.end(), form.sizes.begin(), form.sizes.end());
  extents_.insert(extents_.end(), form.strides.begin(), form.strides.end());
  row.storage_offset = form.storage_offset;
  row.hooks = form.hooks;
  row.dtype = c10::scalarTypeToTypeMeta(form.dtype);
  row.device = form.device;
  row.rank = static_cast<uint8_t>(form.sizes.size());
  row.requires_grad = form.requires_grad;
  row.leaf = form.leaf;
  row.has_gradient = tensor.has_gradient;
  tensors_.push_back(tensor.tensor);
}

bool WatchedTensors::Has(const c10::TensorImpl* tensor) const {
  return std::ranges::binary_search(all_, tensor);
}

bool WatchedTensors::Hold(Storages elsewhere) const {
  constexpr size_t kAhead = 6;
  for (size_t i = 0; i < rows_.size(); ++i) {
    if (i + kAhead < rows_.size()) PrefetchRow(i + kAhead);
    if (!Holds(i, elsewhere)) return false;
  }
  return std::ranges::all_of(others_, [elsewhere](const WatchedTensor& other) {
    return other.Holds(elsewhere);
  });
}

// As WatchedTensor::Holds, without a branch where nothing has changed: it is
// caches that this waits for.
bool WatchedTensors::Holds(size_t index, Storages elsewhere) const {
  const Row& row = rows_[index];
  if (tensors_[index].use_count() == 0) return false;
  const c10::TensorImpl& now = *tensors_[index]._unsafe_get_target();
  if (now.key_set().raw_repr() != row.keys ||
      static_cast<size_t>(now.dim()) != row.rank || IsIn(now, elsewhere)) {
    return false;
  }
  const Known known(now);
  bool same = now.dtype() == row.dtype;
  same &= now.device() == row.device;
  same &= now.storage_offset() == row.storage_offset;
  same &= known.requires_grad() == row.requires_grad;
  same &= known.leaf() == row.leaf;
  same &= known.hooks() == row.hooks;
  same &= !known.has_tangent();
  same &= (known.gradient() != nullptr) == row.has_gradient;
  const int64_t* const sizes = now.sizes().data();
  const int64_t* const strides = now.strides().data();
  const int64_t* const extents = extents_.data() + row.extents;
  for (size_t d = 0; d < row.rank; ++d) {
    same &= sizes[d] == extents[d];
    same &= strides[d] == extents[row.rank + d];
  }
  return same;
}

void WatchedTensors::PrefetchRow(size_t index) const {
  Prefetch(tensors_[index]._unsafe_get_target(), sizeof(c10::TensorImpl));
  // Where it was; it may be gone.
  Prefetch(rows_[index].meta, sizeof(torch::autograd::AutogradMeta));
}

}  // namespace reprise::bindings
