// Tensors that have a form and no data.

#ifndef REPRISE_BINDINGS_TORCH_REGION_FORMAL_TENSORS_H_
#define REPRISE_BINDINGS_TORCH_REGION_FORMAL_TENSORS_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "bindings/torch/base/tensor_form.h"

namespace reprise::bindings {

// Calls whose results have no data: tensors of the meta device, and zeros
// without memory, which stand for tangents that are zero. What they give
// follows from forms, and forms are the same in each call of a tape, so that
// they need not be made again. Knows what such calls of a recording have made.
// A zero that another call is given is another matter: that one has to be given
// it, too. One thread at a time.
class FormalTensors {
 public:
  // The call gives nothing else, and is given nothing of the kind that comes
  // from outside, whose form nobody checks.
  bool AreAllThatIsMade(const c10::OperatorHandle& op,
                        std::span<const c10::IValue> arguments) const;
  // What such a call gave. False: it has data.
  bool NoteMade(const at::Tensor& result);
  // It is such a zero, or what autograd puts in its place, and no call has been
  // told of it yet. Tells of it.
  bool TakeZero(const at::Tensor& tensor);

  // The call that makes a zero.
  static const c10::OperatorHandle& ZeroOperator();
  static std::vector<c10::IValue> ArgumentsOf(const at::Tensor& zero);

 private:
  struct Zero {
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;
    at::ScalarType dtype = at::kFloat;
    std::vector<int64_t> sizes;
  };

  // Weak references keep addresses from being used again.
  std::unordered_map<const c10::TensorImpl*, WeakTensor> meta_;
  std::unordered_map<const c10::StorageImpl*, Zero> zeros_;
};

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_REGION_FORMAL_TENSORS_H_
