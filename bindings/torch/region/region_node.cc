#include "bindings/torch/region/region_node.h"

#include <ATen/Context.h>
#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/core/stack.h>
#include <ATen/ops/empty_strided.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <string>
#include <utility>

#include "bindings/torch/base/torch_versions.h"
#include "bindings/torch/runtime/torch_runtime.h"
#include "bindings/torch/runtime/unseen_use.h"

namespace reprise::bindings {
namespace {

using torch::autograd::Node;
using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

class RegionNode final : public Node {
 public:
  // `kept`: by argument, whether its values, or its history, are asked for;
  // others are zeros where the callable runs again.
  RegionNode(std::shared_ptr<RegionHistory> history,
             std::span<const at::Tensor> arguments,
             const std::vector<bool>& kept,
             const std::vector<at::Tensor>& saved,
             const std::vector<at::Tensor>& of_others)
      : history_(std::move(history)), saves_(!saved.empty()) {
    auto all = std::make_shared<std::vector<Argument>>();
    for (size_t i = 0; i < arguments.size(); ++i) {
      all->push_back({kept[i] ? arguments[i] : at::Tensor(),
                      kept[i] ? TensorForm() : TensorForm::Of(arguments[i])});
    }
    arguments_ = std::move(all);
    saved_ = Kept(saved);
    of_others_ = Kept(of_others);
  }

  std::string name() const override { return "RegionBackward"; }

  variable_list apply(variable_list&& gradients) override {
    std::vector<at::Tensor> saved;
    std::shared_ptr<const std::vector<Argument>> arguments;
    {
      const std::lock_guard lock(mutex_);
      TORCH_CHECK(!released_, torch::autograd::ERR_BACKWARD_TWICE);
      arguments = arguments_;
      Unpack(saved_, saved);
    }
    const at::Tensor gradient = std::move(gradients.at(0));
    if (!gradient.defined()) return variable_list(history_->contributions());
    if (!at::GradMode::is_enabled()) {
      if (auto found = history_->Replay(saved, gradient)) {
        return std::move(*found);
      }
    }
    if (at::GradMode::is_enabled()) {  // it goes through them, too
      const std::lock_guard lock(mutex_);
      Unpack(of_others_, saved);
    }
    return Differentiate(*arguments, std::move(saved), gradient);
  }

  void release_variables() override {
    const std::lock_guard lock(mutex_);
    if (!saves_) return;  // nor do torch's nodes mind then
    released_ = true;
    saved_.clear();
    of_others_.clear();
    arguments_.reset();
  }

 private:
  struct Argument {
    at::Tensor tensor;
    TensorForm form;  // of one that is not kept

    at::Tensor Get() const {
      if (tensor.defined()) return tensor;
      const at::NoGradGuard no_history;
      return at::empty_strided(
                 form.sizes, form.strides,
                 at::TensorOptions(form.dtype).device(form.device))
          .zero_()
          .set_requires_grad(form.requires_grad);
    }
  };

  static std::vector<SavedVariable> Kept(
      const std::vector<at::Tensor>& tensors) {
    std::vector<SavedVariable> kept;
    kept.reserve(tensors.size());
    for (const at::Tensor& tensor : tensors) {
      kept.emplace_back(tensor, /*is_output=*/false);
    }
    return kept;
  }
  void Unpack(const std::vector<SavedVariable>& kept,
              std::vector<at::Tensor>& tensors) {
    tensors.reserve(tensors.size() + kept.size());
    for (const SavedVariable& each : kept) {
      tensors.push_back(each.unpack(getptr()));
    }
  }

  // As the engine does for the operators that the callable calls.
  variable_list Differentiate(const std::vector<Argument>& arguments,
                              std::vector<at::Tensor> saved,
                              const at::Tensor& gradient) const {
    static const c10::OperatorHandle op =
        c10::Dispatcher::singleton().findSchemaOrThrow("reprise::differentiate",
                                                       "");
    std::vector<at::Tensor> all_arguments;
    for (const Argument& each : arguments) all_arguments.push_back(each.Get());
    torch::jit::Stack stack;
    stack.emplace_back(history_->name());
    stack.emplace_back(std::move(all_arguments));
    stack.emplace_back(std::move(saved));
    stack.emplace_back(gradient);
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
  const bool saves_;
  std::mutex mutex_;  // against release_variables, as torch's nodes
  bool released_ = false;
  std::shared_ptr<const std::vector<Argument>> arguments_;
  std::vector<SavedVariable> saved_;
  std::vector<SavedVariable> of_others_;
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

void RegionHistory::Attach(std::vector<at::Tensor>& outputs,
                           std::span<const at::Tensor> arguments) {
  torch::autograd::edge_list edges;
  edges.reserve(parts_.targets.size());
  auto leaf = parts_.leaves.begin();
  for (const int64_t target : parts_.targets) {
    const at::Tensor tensor =
        target >= 0 ? arguments[static_cast<size_t>(target)]
        : target == Parts::kLeaf
            ? at::Tensor((leaf++)->lock())
            : outputs[static_cast<size_t>(Parts::kOutputs - target)];
    edges.push_back(tensor.defined()
                        ? torch::autograd::impl::gradient_edge(tensor)
                        : torch::autograd::Edge());
  }
  const auto found = [&](const std::vector<size_t>& which) {
    std::vector<at::Tensor> tensors;
    tensors.reserve(which.size());
    for (const size_t index : which) {
      tensors.push_back(outputs[parts_.outputs + index]);
    }
    return tensors;
  };
  const std::vector<at::Tensor> saved = found(parts_.saved);
  std::vector<bool> kept(arguments.size(), false);
  for (const int64_t target : parts_.targets) {
    if (target >= 0) kept[static_cast<size_t>(target)] = true;
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    // What is no number may be an index.
    kept[i] = kept[i] || !arguments[i].is_floating_point() ||
              std::ranges::any_of(saved, [&](const at::Tensor& tensor) {
                return tensor.is_same(arguments[i]);
              });
  }
  const NodePtr node = MakeNode<RegionNode>(shared_from_this(), arguments, kept,
                                            saved, found(parts_.of_others));
  node->set_next_edges(std::move(edges));
  torch::autograd::set_history(outputs[parts_.tracked], node);
}

void RegionHistory::Keep(std::shared_ptr<RegionVariants> variants, int64_t tape,
                         std::vector<size_t> gives) {
  const std::lock_guard lock(mutex_);
  variants_ = std::move(variants);
  gives_[tape] = std::move(gives);
}

std::optional<std::vector<at::Tensor>> RegionHistory::Replay(
    std::vector<at::Tensor> saved, const at::Tensor& gradient) {
  // Python enables what is a region's own.
  if (TorchRuntime::Forked() ||
      (TorchRuntime::Active() == nullptr && at::hasCUDA())) {
    return std::nullopt;
  }
  std::shared_ptr<RegionVariants> variants;
  {
    const std::lock_guard lock(mutex_);
    variants = variants_;
  }
  if (variants == nullptr) return std::nullopt;
  // Operators that autograd's engine calls are no functions of Python's.
  const WithoutFunctionModes without_modes;
  // None of its calls is a part of the graph.
  for (at::Tensor& tensor : saved) {
    if (tensor.unsafeGetTensorImpl()->autograd_meta() != nullptr) {
      tensor = tensor.variable_data();
    }
  }
  saved.push_back(gradient);
  if (variants->reads_contents()) BeforeContents();
  RegionVariants::Ran ran = variants->Run({saved, {}});
  if (ran.step != RegionVariants::Step::kDone) return std::nullopt;
  std::vector<at::Tensor> all(contributions());
  const std::lock_guard lock(mutex_);
  const auto gives = gives_.find(ran.tape);
  if (gives == gives_.end()) return std::nullopt;
  for (size_t i = 0; i < gives->second.size(); ++i) {
    all[gives->second[i]] = std::move(ran.outputs[i]);
  }
  parts_.replayed->fetch_add(1, std::memory_order_relaxed);
  return all;
}

}  // namespace reprise::bindings
