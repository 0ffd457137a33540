// Outputs whose graph a backward pass inside of the callable has used up.

#ifndef REPRISE_BINDINGS_TORCH_REGION_USED_UP_OUTPUTS_H_
#define REPRISE_BINDINGS_TORCH_REGION_USED_UP_OUTPUTS_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <unordered_set>
#include <vector>

namespace reprise::bindings {

struct UsedUpOutput {
  uint32_t index = 0;  // among all outputs
  // Below autograd it is one tensor with something else that the call leaves,
  // and that has no history: `y` beside `y.data`.
  bool shares = false;

  bool operator==(const UsedUpOutput&) const = default;
};

using UsedUpOutputs = std::vector<UsedUpOutput>;  // ascending

// Notes which of them share what they are. `outputs`: the registers of all
// outputs; `others`: those of what else the call leaves.
void NoteShared(UsedUpOutputs& used_up, std::span<const int32_t> outputs,
                std::unordered_set<int32_t> others);

// Gives a replay's outputs a history that requires a gradient, and raises
// eager's error where a second pass comes to it. Outside of any guard of
// autograd's.
void GiveUsedUpHistories(const UsedUpOutputs& used_up,
                         std::span<at::Tensor> outputs);

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_REGION_USED_UP_OUTPUTS_H_
