#include "bindings/torch/region/backward_inside.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/graph_task.h>

#include <atomic>
#include <string>
#include <unordered_set>
#include <vector>

namespace reprise::bindings {
namespace {

constexpr size_t kMostFunctions = 1 << 14;  // that a history is followed to

using Names = std::unordered_set<std::string>;
std::atomic<const Names*> saving_functions = nullptr;

bool SavesTensors(const NodePtr& function) {
  const Names* const names = saving_functions.load();
  return names != nullptr && names->contains(function->name());
}

}  // namespace

bool BackwardInside::IsHere() {
  return torch::autograd::get_current_graph_task_id() != -1;
}

bool BackwardInside::Note(const NodePtr& function) {
  if (!torch::autograd::get_current_graph_task_keep_graph()) {
    freed_.insert(function.get());
  }
  return executed_.emplace(function.get(), function).second;
}

void BackwardInside::NoteRun() {
  const NodePtr function = torch::autograd::get_current_node();
  if (function != nullptr) Note(function);
}

void BackwardInside::NoteCall(const TapeRecord& record, TapeFault& fault) {
  if (!IsHere()) return;
  any_ = true;
  unseen_ |= Note(torch::autograd::get_current_node());
  if (record.pass == TapePass::kBackward) {
    if (at::GradMode::is_enabled()) fault.Refuse(Refusal::kBackwardTwice);
  } else if (record.level == TapeLevel::kAboveAutograd ||
             record.pass == TapePass::kForward) {
    fault.Refuse(Refusal::kBackwardAndGradients);
  }
}

bool BackwardInside::HasUsedUp(const NodePtr& history) const {
  std::vector<NodePtr> left = {history};
  std::unordered_set<NodePtr> seen = {history};
  while (!left.empty()) {
    const NodePtr function = left.back();
    left.pop_back();
    if (freed_.contains(function.get()) && SavesTensors(function)) continue;
    bool is_last = true;
    for (const torch::autograd::Edge& edge : function->next_edges()) {
      if (edge.function == nullptr) continue;
      is_last = false;
      if (seen.insert(edge.function).second) left.push_back(edge.function);
    }
    if (is_last || seen.size() > kMostFunctions) return false;
  }
  return true;
}

void BackwardInside::SetSavingFunctions(const std::vector<std::string>& names) {
  // Never freed: another thread may read the one before.
  saving_functions = new Names(names.begin(), names.end());
}

}  // namespace reprise::bindings
