#include "bindings/torch/region/backward_inside.h"

#include <ATen/SequenceNumber.h>
#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace reprise::bindings {
namespace {

constexpr size_t kMostFunctions = 1 << 14;  // that a history is followed to

using Names = std::unordered_set<std::string>;
std::atomic<const Names*> saving_functions = nullptr;

// Parts of names of functions with several gradients, of which one (that of a
// bias, of what is added to) needs nothing that is saved.
constexpr std::string_view kWithBias[] = {
    "Add",   "Convolution", "Norm", "Linear", "Reduce",
    "Index", "Scatter",     "Lerp", "Lstm",   "Gru",
};

bool SavesTensors(const NodePtr& function) {
  const Names* const names = saving_functions.load();
  const std::string name = function->name();
  if (names == nullptr || !names->contains(name)) return false;
  const auto& edges = function->next_edges();
  const bool one_of_several =
      edges.size() > 1 &&
      std::ranges::count_if(edges, &torch::autograd::Edge::is_valid) == 1;
  return !one_of_several ||
         std::ranges::none_of(kWithBias, [&name](std::string_view part) {
           return name.find(part) != std::string::npos;
         });
}

}  // namespace

BackwardInside::BackwardInside() {
  starts_.emplace(at::RecordFunction::currentThreadId(),
                  at::sequence_number::peek());
}

bool BackwardInside::IsHere() {
  return torch::autograd::get_current_graph_task_id() != -1;
}

bool BackwardInside::IsOlder(const Node& function) const {
  const uint64_t number = function.sequence_nr();
  if (number == std::numeric_limits<uint64_t>::max()) return false;  // a leaf's
  const auto start = starts_.find(function.thread_id());
  return start == starts_.end() || number < start->second;
}

void BackwardInside::NoteRun() {
  const NodePtr function = torch::autograd::get_current_node();
  if (function == nullptr) return;  // a callback behind a pass
  // Before it makes functions of its own, on this thread.
  starts_.emplace(at::RecordFunction::currentThreadId(),
                  at::sequence_number::peek());
  went_outside_ |= IsOlder(*function);
  if (!torch::autograd::get_current_graph_task_keep_graph()) {
    freed_.emplace(function.get(), function);
  }
}

void BackwardInside::NoteCall(const TapeRecord& record, TapeFault& fault) {
  if (!IsHere()) return;
  any_ = true;
  NoteRun();  // its hooks come first
  // Nobody is told which functions run.
  went_outside_ |= !at::isRecordFunctionEnabled();
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
