// What an op returned, as the session is shown it.

#ifndef REPRISE_BINDINGS_TORCH_HOOK_RESULTS_H_
#define REPRISE_BINDINGS_TORCH_HOOK_RESULTS_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/core/SymInt.h>
#include <c10/util/SmallVector.h>

#include <span>
#include <tuple>
#include <type_traits>
#include <vector>

#include "bindings/torch/hook/op_call.h"
#include "engine/trace/op.h"

namespace reprise::bindings {

// Results that are references are arguments of the call, and no results.
template <typename R>
struct ReturnsReferences : std::is_reference<R> {};
template <typename... R>
struct ReturnsReferences<std::tuple<R...>>
    : std::bool_constant<(std::is_reference_v<R> && ...)> {};

// A host value as results keep it: an IValue whose tensors are its own copies.
std::shared_ptr<const void> KeepHostValue(c10::IValue value);

// The results of one call, flattened in order. A list of tensors within a tuple
// is preceded by its length, so that it can be told from what follows; a list
// alone is just its tensors. Borrows what is added.
class ResultList {
 public:
  explicit ResultList(const OpCall& call) : call_(call) {}
  ResultList(const ResultList&) = delete;
  ResultList& operator=(const ResultList&) = delete;

  void Add(const at::Tensor& tensor);
  void Add(const std::vector<at::Tensor>& tensors);
  void Add(const c10::SymInt& value);
  void Add(int64_t value) { AddNumber(value, static_cast<uint64_t>(value)); }
  void Add(bool value) { AddNumber(value, value); }
  void Add(const at::Scalar&) { describable_ = false; }
  template <typename... T>
  void Add(const std::tuple<T...>& values) {
    std::apply([this](const T&... value) { (AddElement(value), ...); }, values);
  }
  // One value of a boxed return.
  void AddBoxed(const c10::IValue& value, bool alone);

  // No result needs more than a ResultView can say.
  bool describable() const { return describable_; }
  std::span<const engine::ResultView> views() const {
    return {views_.data(), views_.size()};
  }

 private:
  template <typename T>
  void AddElement(const T& value) {
    if constexpr (std::is_same_v<T, std::vector<at::Tensor>>) {
      Add(static_cast<int64_t>(value.size()));
    }
    Add(value);
  }
  void AddNumber(c10::IValue value, uint64_t hash);
  void AddHostTensor(const c10::TensorImpl& tensor);

  const OpCall& call_;
  bool describable_ = true;
  c10::SmallVector<engine::ResultView, 3> views_;
};

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_HOOK_RESULTS_H_
