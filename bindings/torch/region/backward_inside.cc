#include "bindings/torch/region/backward_inside.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>

namespace reprise::bindings {

bool BackwardInside::IsHere() {
  return torch::autograd::get_current_graph_task_id() != -1;
}

void BackwardInside::NoteCall(const TapeRecord& record, TapeFault& fault) {
  if (!IsHere()) return;
  any_ = true;
  executed_.insert(torch::autograd::get_current_node());
  if (at::GradMode::is_enabled()) {
    fault.Refuse(Refusal::kBackwardTwice);
  } else if (record.pass != TapePass::kBackward &&
             torch::autograd::get_current_graph_task_keep_graph()) {
    fault.Refuse(Refusal::kGraphIsKept);
  } else if (record.level == TapeLevel::kAboveAutograd ||
             record.pass == TapePass::kForward) {
    fault.Refuse(Refusal::kBackwardAndGradients);
  }
}

bool BackwardInside::UsedUp(const NodePtr& history, int depth) const {
  if (executed_.contains(history)) return true;
  // A sum hands its gradient on, and calls nothing.
  return depth > 0 && history->name() == "AddBackward0" &&
         std::ranges::all_of(history->next_edges(), [&](const auto& edge) {
           return edge.function == nullptr || UsedUp(edge.function, depth - 1);
         });
}

}  // namespace reprise::bindings
