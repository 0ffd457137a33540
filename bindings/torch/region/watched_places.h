// What the callable may look at, as it was, and where in memory it lies.

#ifndef REPRISE_BINDINGS_TORCH_REGION_WATCHED_PLACES_H_
#define REPRISE_BINDINGS_TORCH_REGION_WATCHED_PLACES_H_

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <optional>
#include <unordered_map>
#include <vector>

#include "bindings/torch/base/tensor_form.h"

namespace reprise::bindings {

// A tensor from outside that the callable may look at, as it was before.
struct TensorBefore {
  WatchedTensor tensor;
  // Its address is no other one's meanwhile. None: it had no memory.
  std::optional<c10::weak_intrusive_ptr<c10::StorageImpl>> storage = {};

  static TensorBefore Of(const at::Tensor& tensor);
  // Another one may hold the same.
  bool HasItsStorage(const at::Tensor& tensor) const;
};

using WatchedBefore = std::unordered_map<const c10::TensorImpl*, TensorBefore>;

// Finds these by the memory of another tensor, which may be the `.data` of one.
// The order is the same in each call of one program. Borrows what it is made
// of, which is read when it is first asked. One thread at a time.
class WatchedPlaces {
 public:
  explicit WatchedPlaces(const WatchedBefore& watched) : watched_(watched) {}

  // In whose memory the tensor lies.
  std::vector<at::Tensor> Beside(const at::Tensor& tensor);
  // In the memory of whose gradients it lies.
  std::vector<at::Tensor> WithGradientBeside(const at::Tensor& tensor);

 private:
  using Places =
      std::unordered_multimap<const c10::StorageImpl*, const c10::TensorImpl*>;

  void Find();
  std::vector<at::Tensor> Beside(const at::Tensor& tensor,
                                 const Places& places) const;

  const WatchedBefore& watched_;
  bool found_ = false;
  Places tensors_;
  Places gradients_;
};

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_REGION_WATCHED_PLACES_H_
