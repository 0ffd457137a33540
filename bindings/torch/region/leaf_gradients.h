// Gradients that a callable may read, replace or drop.

#ifndef REPRISE_BINDINGS_TORCH_REGION_LEAF_GRADIENTS_H_
#define REPRISE_BINDINGS_TORCH_REGION_LEAF_GRADIENTS_H_

#include <ATen/core/Tensor.h>
#include <c10/core/TensorImpl.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "bindings/torch/base/tensor_form.h"

namespace reprise::bindings {

// Leaves from outside, and which gradient each had when it was added: of all
// that the callable may look at, and of all that calls use. Keeps the leaves,
// and knows their gradients without keeping them. One thread at a time.
class LeafGradients {
 public:
  struct Leaf {
    at::Tensor tensor;
    const c10::TensorImpl* before = nullptr;  // its gradient; null: it had none
    std::optional<WeakTensor> kept = {};  // that one: no address comes again
    // It has another one now, or none.
    bool has_changed() const;
  };

  // Nothing, if it is there.
  void Add(const at::Tensor& leaf);

  size_t size() const { return leaves_.size(); }
  const Leaf& operator[](size_t i) const { return leaves_[i]; }
  // That tensor was the gradient of which leaf; null: of none.
  const Leaf* LeafOf(const c10::TensorImpl* gradient) const;
  // Other gradients begin in its place.
  bool SharesPlace(const at::Tensor& gradient) const;

  // Between two calls, behind so many of them: whether some leaf has lost the
  // gradient that it had.
  void LookForDropped(size_t calls);
  // Behind how many calls the first one was lost.
  std::optional<size_t> dropped_at() const { return dropped_at_; }

 private:
  std::vector<Leaf> leaves_;
  std::unordered_set<const c10::TensorImpl*> known_;              // leaves
  std::unordered_map<const c10::TensorImpl*, size_t> gradients_;  // of which
  std::map<std::pair<const void*, int64_t>, int> places_;  // of gradients
  std::optional<size_t> dropped_at_;
};

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_REGION_LEAF_GRADIENTS_H_
