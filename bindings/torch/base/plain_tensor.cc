#include "bindings/torch/base/plain_tensor.h"

#include <ATen/EmptyTensor.h>

#include <cstring>
#include <vector>

namespace reprise::bindings {

using c10::DispatchKey;
using c10::DispatchKeySet;

std::optional<engine::NumberType> NumberTypeOf(at::ScalarType type) {
  using engine::NumberType;
  switch (type) {
    case at::kDouble:
      return NumberType::kFloat64;
    case at::kFloat:
      return NumberType::kFloat32;
    case at::kHalf:
      return NumberType::kFloat16;
    case at::kBFloat16:
      return NumberType::kBFloat16;
    case at::kLong:
      return NumberType::kInt64;
    case at::kInt:
      return NumberType::kInt32;
    default:
      return std::nullopt;
  }
}

at::Tensor CopyHostTensor(const c10::TensorImpl& tensor) {
  const at::ScalarType dtype = c10::typeMetaToScalarType(tensor.dtype());
  at::Tensor copy(at::detail::empty_cpu(tensor.sizes(), dtype,
                                        /*pin_memory=*/false, std::nullopt));
  const size_t element_bytes = tensor.itemsize();
  auto* to = static_cast<char*>(copy.mutable_data_ptr());
  const auto* from = static_cast<const char*>(tensor.data());
  const at::IntArrayRef sizes = tensor.sizes();
  const at::IntArrayRef strides = tensor.strides();
  std::vector<int64_t> index(sizes.size(), 0);
  for (int64_t element = 0; element < tensor.numel(); ++element) {
    int64_t offset = 0;
    for (size_t i = 0; i < index.size(); ++i) offset += index[i] * strides[i];
    std::memcpy(to, from + offset * static_cast<int64_t>(element_bytes),
                element_bytes);
    to += element_bytes;
    for (size_t i = index.size(); i-- > 0 && ++index[i] == sizes[i];) {
      index[i] = 0;
    }
  }
  copy.unsafeGetTensorImpl()->_set_conj(
      tensor.key_set().has(DispatchKey::Conjugate));
  copy.unsafeGetTensorImpl()->_set_neg(
      tensor.key_set().has(DispatchKey::Negative));
  return copy;
}

at::Tensor MakeTensor(c10::Storage storage, DispatchKey backend,
                      const TensorLayout& layout) {
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), DispatchKeySet(backend),
      c10::scalarTypeToTypeMeta(layout.dtype));
  c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  impl->set_sizes_and_strides({layout.sizes.data(), layout.sizes.size()},
                              {layout.strides.data(), layout.strides.size()},
                              layout.storage_offset);
  if (layout.keys.has(DispatchKey::Conjugate)) [[unlikely]]
    impl->_set_conj(true);
  if (layout.keys.has(DispatchKey::Negative)) [[unlikely]]
    impl->_set_neg(true);
  return tensor;
}

}  // namespace reprise::bindings
