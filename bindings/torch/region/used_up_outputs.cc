#include "bindings/torch/region/used_up_outputs.h"

#include <torch/csrc/autograd/functions/basic_ops.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <string>

#include "bindings/torch/base/torch_versions.h"

namespace reprise::bindings {

void NoteShared(UsedUpOutputs& used_up, std::span<const int32_t> outputs,
                std::unordered_set<int32_t> others) {
  auto next = used_up.begin();
  for (uint32_t i = 0; i < outputs.size(); ++i) {
    if (next != used_up.end() && next->index == i) {
      ++next;
    } else {
      others.insert(outputs[i]);
    }
  }
  for (UsedUpOutput& each : used_up) {
    each.shares = others.contains(outputs[each.index]);
  }
}

void GiveUsedUpHistories(const UsedUpOutputs& used_up,
                         std::span<at::Tensor> outputs) {
  for (const UsedUpOutput& each : used_up) {
    at::Tensor& output = outputs[each.index];
    if (each.shares) {
      const c10::TensorImpl& made = *output.unsafeGetTensorImpl();
      output = at::Tensor(
          made.shallow_copy_and_detach(made.version_counter(), true));
    }
    torch::autograd::set_history(
        output, MakeNode<torch::autograd::Error>(
                    std::string(torch::autograd::ERR_BACKWARD_TWICE)));
  }
}

}  // namespace reprise::bindings
