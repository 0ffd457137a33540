// What autograd keeps of how a tensor was made.

#ifndef REPRISE_BINDINGS_TORCH_BASE_HISTORY_H_
#define REPRISE_BINDINGS_TORCH_BASE_HISTORY_H_

#include <ATen/core/Tensor.h>

#include "bindings/torch/base/torch_versions.h"

namespace reprise::bindings {

// The program has set hooks on that node of autograd's.
bool HasHooks(torch::autograd::Node& node);

// The function of autograd's that has made the tensor; null: none has.
const torch::autograd::Node* NodeOf(const at::Tensor& tensor);

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_BASE_HISTORY_H_
