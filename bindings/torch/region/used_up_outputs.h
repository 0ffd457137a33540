// Outputs whose graph a backward pass inside of the callable has used up.

#ifndef REPRISE_BINDINGS_TORCH_REGION_USED_UP_OUTPUTS_H_
#define REPRISE_BINDINGS_TORCH_REGION_USED_UP_OUTPUTS_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <span>
#include <unordered_set>
#include <vector>

namespace reprise::bindings {

struct UsedUpOutput {
  uint32_t index = 0;  // among all outputs
  // Below autograd it is one tensor with something else that the call leaves,
  // and that has no history: `y` beside `y.data`.
  bool shares = false;
  // From where a second pass would start, gradients are asked for these by name
  // (`torch.autograd.grad`), and it raises its error on the way: registers of
  // tensors from outside, and places in UsedUpOutputs. Both ascend.
  std::vector<int32_t> leads_to = {};
  std::vector<uint32_t> others = {};

  bool operator==(const UsedUpOutput&) const = default;
};

using UsedUpOutputs = std::vector<UsedUpOutput>;  // ascending

// Notes which of them share what they are. `outputs`: the registers of all
// outputs; `others`: those of what else the call leaves.
void NoteShared(UsedUpOutputs& used_up, std::span<const int32_t> outputs,
                std::unordered_set<int32_t> others);

// Notes where the graphs of these outputs, by `index`, lead to. `register_of`:
// of a tensor from outside. `given`: the callable's arguments, which may have a
// history.
void NoteWays(UsedUpOutputs& used_up, std::span<const at::Tensor> outputs,
              std::span<const at::Tensor> given,
              const std::function<int32_t(const at::Tensor&)>& register_of);

// Gives a replay's outputs a history that requires a gradient, and raises
// eager's error where a second pass comes to it. Outside of any guard of
// autograd's. `tensor_of`: of a register.
void GiveUsedUpHistories(const UsedUpOutputs& used_up,
                         std::span<at::Tensor> outputs,
                         const std::function<at::Tensor(int32_t)>& tensor_of);

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_REGION_USED_UP_OUTPUTS_H_
