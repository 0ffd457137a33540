#include "bindings/torch/region/used_up_outputs.h"

#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/functions/basic_ops.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <string>
#include <utility>

#include "bindings/torch/base/history.h"
#include "bindings/torch/base/torch_versions.h"

namespace reprise::bindings {
namespace {

using torch::autograd::Node;
using Functions = std::unordered_set<const Node*>;

}  // namespace

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

void NoteWays(UsedUpOutputs& used_up, std::span<const at::Tensor> outputs,
              std::span<const at::Tensor> given,
              const std::function<int32_t(const at::Tensor&)>& register_of) {
  for (UsedUpOutput& each : used_up) {
    Functions below;
    std::set<int32_t> leads_to;
    std::vector<const Node*> left = {outputs[each.index].grad_fn().get()};
    while (!left.empty()) {
      const Node* const function = left.back();
      left.pop_back();
      for (const torch::autograd::Edge& edge : function->next_edges()) {
        const Node* const next = edge.function.get();
        if (next == nullptr || !below.insert(next).second) continue;
        left.push_back(next);
        if (const auto* const leaf =
                dynamic_cast<const torch::autograd::AccumulateGrad*>(next)) {
          leads_to.insert(register_of(leaf->variable));
        }
      }
    }
    for (const at::Tensor& tensor : given) {
      if (tensor.defined() && below.contains(NodeOf(tensor))) {
        leads_to.insert(register_of(tensor));
      }
    }
    each.leads_to.assign(leads_to.begin(), leads_to.end());
    for (uint32_t other = 0; other < used_up.size(); ++other) {
      if (below.contains(NodeOf(outputs[used_up[other].index]))) {
        each.others.push_back(other);
      }
    }
  }
}

void GiveUsedUpHistories(const UsedUpOutputs& used_up,
                         std::span<at::Tensor> outputs,
                         const std::function<at::Tensor(int32_t)>& tensor_of) {
  std::vector<uint32_t> order(used_up.size());
  std::iota(order.begin(), order.end(), 0);
  // What leads to another one leads to more than that one does.
  std::ranges::stable_sort(order, {}, [&used_up](uint32_t each) {
    return used_up[each].others.size();
  });
  std::vector<NodePtr> functions(used_up.size());
  for (const uint32_t place : order) {
    const UsedUpOutput& each = used_up[place];
    torch::autograd::edge_list edges;
    for (const int32_t reg : each.leads_to) {
      auto edge = torch::autograd::impl::gradient_edge(tensor_of(reg));
      if (edge.is_valid()) edges.push_back(std::move(edge));
    }
    for (const uint32_t other : each.others) {
      edges.emplace_back(functions[other], 0);
    }
    functions[place] = MakeNode<torch::autograd::Error>(
        std::string(torch::autograd::ERR_BACKWARD_TWICE), std::move(edges));
    at::Tensor& output = outputs[each.index];
    if (each.shares) {
      const c10::TensorImpl& made = *output.unsafeGetTensorImpl();
      output = at::Tensor(
          made.shallow_copy_and_detach(made.version_counter(), true));
    }
    torch::autograd::set_history(output, functions[place]);
  }
}

}  // namespace reprise::bindings
