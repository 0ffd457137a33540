// Ordinary dense tensors, looked at and made without the dispatcher.

#ifndef REPRISE_BINDINGS_TORCH_BASE_PLAIN_TENSOR_H_
#define REPRISE_BINDINGS_TORCH_BASE_PLAIN_TENSOR_H_

#include <ATen/core/Tensor.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/TensorImpl.h>

#include <cstdint>
#include <optional>
#include <span>

#include "engine/trace/scalar.h"

namespace reprise::bindings {

// Those of an ordinary tensor, as far as keys tell.
inline bool ArePlain(c10::DispatchKeySet keys) {
  using c10::DispatchKey;
  constexpr c10::DispatchKeySet kPlain(
      {DispatchKey::CPU, DispatchKey::CUDA, DispatchKey::AutogradCPU,
       DispatchKey::AutogradCUDA, DispatchKey::ADInplaceOrView,
       DispatchKey::AutocastCPU, DispatchKey::AutocastCUDA,
       DispatchKey::Conjugate, DispatchKey::Negative});
  return (keys.raw_repr() & ~kPlain.raw_repr()) == 0;
}

// One without memory, which stands for zeros: torch makes it for a tangent that
// is zero, and gives memory to what it hands to kernels. Else an ordinary
// tensor.
inline bool IsZeroTensor(c10::DispatchKeySet keys) {
  using c10::DispatchKey;
  return keys.has(DispatchKey::ZeroTensor) &&
         ArePlain(keys.remove(DispatchKey::ZeroTensor));
}
inline bool IsZeroTensor(const c10::TensorImpl& tensor) {
  return IsZeroTensor(tensor.key_set());
}

// An ordinary strided tensor of the host or of CUDA: no subclass or wrapper, no
// sparse, quantized, nested, named or symbolic one. Only such tensors are
// operands or results of traces.
inline bool IsPlainTensor(const c10::TensorImpl& tensor) {
  return ArePlain(tensor.key_set()) && !tensor.has_symbolic_sizes_strides() &&
         tensor.unsafe_storage();
}

// How often autograd has counted the tensor as written; 0 of tensors of
// inference mode, of which it keeps no count.
inline uint32_t VersionOf(const c10::TensorImpl& tensor) {
  const c10::VariableVersion& version = tensor.version_counter();
  return version.enabled() ? version.current_version() : 0;
}

// How the engine names a number's type; none for those that are no slots.
std::optional<engine::NumberType> NumberTypeOf(at::ScalarType type);

// A contiguous copy of a plain host tensor, of its elements and nothing else.
at::Tensor CopyHostTensor(const c10::TensorImpl& tensor);

// How a tensor lies in a storage.
struct TensorLayout {
  c10::DispatchKeySet keys;  // only its conjugate and negative bits count
  at::ScalarType dtype = at::kFloat;
  int64_t storage_offset = 0;  // in elements
  std::span<const int64_t> sizes;
  std::span<const int64_t> strides;
};

// A new tensor over `storage`, as an allocation by this thread would give it
// (an inference tensor in inference mode).
at::Tensor MakeTensor(c10::Storage storage, c10::DispatchKey backend,
                      const TensorLayout& layout);

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_BASE_PLAIN_TENSOR_H_
