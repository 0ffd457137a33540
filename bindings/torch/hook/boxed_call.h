// A recorded call of an operator, able to run again on other memory.

#ifndef REPRISE_BINDINGS_TORCH_HOOK_BOXED_CALL_H_
#define REPRISE_BINDINGS_TORCH_HOOK_BOXED_CALL_H_

#include <ATen/core/IListRef.h>
#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "bindings/torch/hook/results.h"
#include "bindings/torch/runtime/op_info.h"
#include "bindings/torch/runtime/thread_modes.h"
#include "engine/trace/frontend.h"

namespace reprise::bindings {

// A call for the host executor: arguments are boxed, tensors among them are
// replaced by their layout, and Run puts tensors over other addresses in their
// place. Keeps no tensor of the program: wrapped numbers are copied.
//
// Boxed argument by argument with Box, in the order of OpCall, before the op
// runs; Expect says after it how large its results are. Run redispatches as the
// call did, below autograd, on any thread, in the modes of the thread that made
// it. Run after Run, one at a time.
class BoxedCall final : public engine::Call {
 public:
  BoxedCall(const OpInfo& info, c10::DispatchKeySet keys)
      : info_(info), keys_(keys), modes_(ThreadModes::Now()) {}

  void AddTensor(const at::Tensor& tensor);
  void AddTensorList(std::span<const at::Tensor> tensors);
  void AddOptionalTensorList(
      const c10::List<std::optional<at::Tensor>>& tensors);
  void AddValue(c10::IValue value);
  void AddDouble(double value);
  void AddScalar(const at::Scalar& value);
  void AddScalarList(at::ArrayRef<at::Scalar> values);
  // What Run checks its results against.
  void Expect(std::span<const engine::ResultView> results);

  base::Status Run(std::span<const uint64_t> operands,
                   std::span<const uint64_t> results) override;
  void SetScalar(uint32_t scalar, uint64_t bits) override;

 private:
  struct TensorSlot {
    enum class Kind : uint8_t { kUndefined, kOperand, kKept };
    Kind kind = Kind::kUndefined;
    at::Tensor kept;
    c10::DispatchKeySet keys;
    at::ScalarType dtype = at::kFloat;
    std::vector<int64_t> sizes;
    std::vector<int64_t> strides;
    // Of an op that goes by storages (OpInfo): that of the operand. Others are
    // given one that ends with the tensor.
    int64_t storage_offset = 0;  // in elements
    size_t storage_bytes = 0;
  };
  struct Argument {
    enum class Kind : uint8_t { kValue, kTensor, kList, kOptionalList };
    Kind kind = Kind::kValue;
    c10::IValue value;
    std::vector<TensorSlot> tensors;
  };

  // A number of the call, in the order of OpCall: an argument, or an element of
  // one: of a list of numbers, or a wrapped number among tensors.
  struct Number {
    size_t argument;
    size_t element;
  };

  TensorSlot SlotOf(const at::Tensor& tensor);
  static at::Tensor Fill(const TensorSlot& slot,
                         std::span<const uint64_t>& operands);
  torch::jit::Stack MakeStack(std::span<const uint64_t> operands) const;
  base::Status StoreResults(std::span<const c10::IValue> returned,
                            std::span<const uint64_t> results) const;

  const OpInfo& info_;
  const c10::DispatchKeySet keys_;
  const ThreadModes modes_;
  std::vector<Argument> arguments_;
  std::vector<Number> numbers_;
  std::vector<uint64_t> expected_;  // the bytes of each result's storage
};

// Arguments of every type that operators have.
inline void Box(BoxedCall& call, const at::Tensor& tensor) {
  call.AddTensor(tensor);
}
inline void Box(BoxedCall& call, const std::optional<at::Tensor>& tensor) {
  tensor.has_value() ? call.AddTensor(*tensor) : call.AddValue(c10::IValue());
}
inline void Box(BoxedCall& call, at::TensorList tensors) {
  call.AddTensorList({tensors.data(), tensors.size()});
}
void Box(BoxedCall& call, const at::ITensorListRef& tensors);
inline void Box(BoxedCall& call,
                const c10::List<std::optional<at::Tensor>>& tensors) {
  call.AddOptionalTensorList(tensors);
}
inline void Box(BoxedCall& call, double value) { call.AddDouble(value); }
inline void Box(BoxedCall& call, at::ArrayRef<at::Scalar> values) {
  call.AddScalarList(values);
}
inline void Box(BoxedCall& call, const at::Scalar& value) {
  call.AddScalar(value);
}
inline void Box(BoxedCall& call, const std::optional<at::Scalar>& value) {
  value.has_value() ? call.AddScalar(*value) : call.AddValue(c10::IValue());
}
template <typename T>
void Box(BoxedCall& call, const T& value) {
  call.AddValue(c10::IValue(value));
}
// Of an argument that is boxed already.
void BoxBoxed(BoxedCall& call, const c10::IValue& value);

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_HOOK_BOXED_CALL_H_
