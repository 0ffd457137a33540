#include "bindings/torch/region_node.h"

#include <ATen/Context.h>
#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/core/stack.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <string>
#include <utility>

#include "bindings/torch/torch_runtime.h"

namespace reprise::bindings {
namespace {

using torch::autograd::Node;
using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

class RegionNode final : public Node {
 public:
  RegionNode(std::shared_ptr<RegionHistory> history,
             std::span<const at::Tensor> arguments,
             std::span<const at::Tensor> saved)
      : history_(std::move(history)),
        arguments_(arguments.begin(), arguments.end()) {
    saved_.reserve(saved.size());
    for (const at::Tensor& tensor : saved) {
      saved_.emplace_back(tensor, /*is_output=*/false);
    }
  }

  std::string name() const override { return "RegionBackward"; }

  variable_list apply(variable_list&& gradients) override {
    std::vector<at::Tensor> saved;
    {
      const std::lock_guard lock(mutex_);
      TORCH_CHECK(!released_, torch::autograd::ERR_BACKWARD_TWICE);
      saved.reserve(saved_.size());
      for (const SavedVariable& each : saved_) {
        saved.push_back(each.unpack(shared_from_this()));
      }
    }
    bool any = false;
    for (const at::Tensor& gradient : gradients) any |= gradient.defined();
    if (!any) return variable_list(history_->contributions());
    if (!at::GradMode::is_enabled()) {
      if (auto found = history_->Replay(saved, gradients)) {
        return std::move(*found);
      }
    }
    return Differentiate(std::move(saved), gradients);
  }

  void release_variables() override {
    const std::lock_guard lock(mutex_);
    released_ = true;
    saved_.clear();
    arguments_.clear();
  }

 private:
  // As the engine does for the operators that the callable calls.
  variable_list Differentiate(std::vector<at::Tensor> saved,
                              const variable_list& gradients) const {
    static const c10::OperatorHandle op =
        c10::Dispatcher::singleton().findSchemaOrThrow("reprise::differentiate",
                                                       "");
    c10::List<std::optional<at::Tensor>> given;
    for (const at::Tensor& gradient : gradients) {
      given.push_back(gradient.defined() ? std::optional(gradient)
                                         : std::nullopt);
    }
    torch::jit::Stack stack;
    stack.emplace_back(history_->name());
    stack.emplace_back(arguments_);
    stack.emplace_back(std::move(saved));
    stack.emplace_back(std::move(given));
    op.callBoxed(stack);
    const std::vector<at::Tensor> found = stack[0].toTensorVector();
    const std::vector<int64_t> which = stack[1].toIntVector();
    variable_list all(history_->contributions());
    for (size_t i = 0; i < found.size(); ++i) {
      all.at(static_cast<size_t>(which.at(i))) = found[i];
    }
    return all;
  }

  const std::shared_ptr<RegionHistory> history_;
  std::mutex mutex_;  // against release_variables, as torch's nodes
  bool released_ = false;
  std::vector<at::Tensor> arguments_;
  std::vector<SavedVariable> saved_;
};

class WithoutFunctionModes {
 public:
  WithoutFunctionModes() { Tls::set_disabled_state(State::ALL_DISABLED); }
  ~WithoutFunctionModes() { Tls::set_disabled_state(before_); }
  WithoutFunctionModes(const WithoutFunctionModes&) = delete;
  WithoutFunctionModes& operator=(const WithoutFunctionModes&) = delete;

 private:
  using Tls = at::impl::PythonTorchFunctionTLS;
  using State = at::impl::TorchFunctionDisabledState;
  const State before_ = Tls::get_disabled_state();
};

}  // namespace

std::vector<at::Tensor> RegionHistory::Attach(
    std::vector<at::Tensor> outputs, std::span<const at::Tensor> arguments) {
  torch::autograd::edge_list edges;
  edges.reserve(parts_.targets.size());
  auto leaf = parts_.leaves.begin();
  for (const int64_t target : parts_.targets) {
    const at::Tensor tensor = target >= 0
                                  ? arguments[static_cast<size_t>(target)]
                                  : at::Tensor((leaf++)->lock());
    edges.push_back(tensor.defined()
                        ? torch::autograd::impl::gradient_edge(tensor)
                        : torch::autograd::Edge());
  }
  const std::shared_ptr<RegionNode> node(
      new RegionNode(shared_from_this(), arguments,
                     std::span(outputs).subspan(parts_.outputs)),
      torch::autograd::deleteNode);
  node->set_next_edges(std::move(edges));
  outputs.resize(parts_.outputs);
  for (const size_t index : parts_.tracked) {
    torch::autograd::set_history(outputs[index], node);
  }
  return outputs;
}

void RegionHistory::Keep(const Without& without,
                         std::shared_ptr<RegionVariants> variants, int64_t tape,
                         std::vector<size_t> gives) {
  const std::lock_guard lock(mutex_);
  Pass& pass = passes_[without];
  pass.variants = std::move(variants);
  pass.gives[tape] = std::move(gives);
}

std::optional<std::vector<at::Tensor>> RegionHistory::Replay(
    std::vector<at::Tensor> saved, std::span<const at::Tensor> gradients) {
  // Python enables what is a region's own.
  if (TorchRuntime::Active() == nullptr && at::hasCUDA()) return std::nullopt;
  Without without;
  for (const at::Tensor& gradient : gradients) {
    without.push_back(!gradient.defined());
    if (gradient.defined()) saved.push_back(gradient);
  }
  std::shared_ptr<RegionVariants> variants;
  {
    const std::lock_guard lock(mutex_);
    const auto pass = passes_.find(without);
    if (pass == passes_.end()) return std::nullopt;
    variants = pass->second.variants;
  }
  // Operators that autograd's engine calls are no functions of Python's.
  const WithoutFunctionModes without_modes;
  // None of its calls is a part of the graph.
  for (at::Tensor& tensor : saved) {
    if (tensor.requires_grad()) tensor = tensor.variable_data();
  }
  RegionVariants::Ran ran = variants->Run({saved, {}});
  if (ran.step != RegionVariants::Step::kDone) return std::nullopt;
  std::vector<at::Tensor> all(contributions());
  const std::lock_guard lock(mutex_);
  const auto gives = passes_[without].gives.find(ran.tape);
  if (gives == passes_[without].gives.end()) return std::nullopt;
  for (size_t i = 0; i < gives->second.size(); ++i) {
    all[gives->second[i]] = std::move(ran.outputs[i]);
  }
  ++replayed_;
  return all;
}

}  // namespace reprise::bindings
