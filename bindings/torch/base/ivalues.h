// Arguments and results of operators as torch boxes them.

#ifndef REPRISE_BINDINGS_TORCH_BASE_IVALUES_H_
#define REPRISE_BINDINGS_TORCH_BASE_IVALUES_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <span>

namespace reprise::bindings {

// In every bit, where numbers are equal that are not the same.
bool SameBits(double a, double b);
// Of two contiguous tensors of the host, of one form.
bool SameContent(const at::Tensor& a, const at::Tensor& b);
// The same, and in kind.
bool SameValue(const c10::IValue& a, const c10::IValue& b);

// Calls `each` with the tensors among values, in order, those in lists
// included.
template <typename Each>
void ForTensors(std::span<const c10::IValue> values, Each each) {
  for (const c10::IValue& value : values) {
    if (value.isTensor()) {
      each(value.toTensor());
    } else if (value.isTensorList()) {
      for (const at::Tensor& tensor : value.toTensorVector()) each(tensor);
    } else if (value.isList()) {
      for (const c10::IValue& element : value.toListRef()) {
        if (element.isTensor()) each(element.toTensor());
      }
    }
  }
}

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_BASE_IVALUES_H_
