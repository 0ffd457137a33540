#include "bindings/torch/region/formal_tensors.h"

#include <algorithm>

#include "bindings/torch/base/ivalues.h"
#include "bindings/torch/base/plain_tensor.h"
#include "bindings/torch/region/tape_ops.h"

namespace reprise::bindings {
namespace {

bool AsksForMeta(std::span<const c10::IValue> arguments) {
  return std::ranges::any_of(arguments, [](const c10::IValue& argument) {
    return argument.isDevice() && argument.toDevice().is_meta();
  });
}

}  // namespace

bool FormalTensors::AreAllThatIsMade(
    const c10::OperatorHandle& op,
    std::span<const c10::IValue> arguments) const {
  if (op.operator_name() == ZeroOperator().operator_name()) return true;
  bool of_meta = AsksForMeta(arguments);
  bool known = true;
  for (size_t i = 0; i < arguments.size(); ++i) {
    ForTensors(arguments.subspan(i, 1), [&](const at::Tensor& tensor) {
      if (!tensor.defined()) return;
      if (!tensor.is_meta()) {
        known &= !Writes(op, i);
        return;
      }
      of_meta = true;
      known &= meta_.contains(tensor.unsafeGetTensorImpl());
    });
  }
  return of_meta && known && !Draws(op) && !HandsDataOut(op);
}

bool FormalTensors::NoteMade(const at::Tensor& result) {
  if (!result.defined()) return true;
  const c10::TensorImpl* const impl = result.unsafeGetTensorImpl();
  if (result.is_meta()) {
    meta_.try_emplace(impl, WeakTensor(result.getIntrusivePtr()));
    return true;
  }
  if (!IsZeroTensor(*impl) || !result.has_storage()) return false;
  zeros_.try_emplace(result.storage().unsafeGetStorageImpl(),
                     Zero{.storage = result.storage().getWeakStorageImpl(),
                          .dtype = result.scalar_type(),
                          .sizes = result.sizes().vec()});
  return true;
}

bool FormalTensors::TakeZero(const at::Tensor& tensor) {
  if (!tensor.defined() || !IsZeroTensor(*tensor.unsafeGetTensorImpl()) ||
      !tensor.has_storage()) {
    return false;
  }
  const auto found = zeros_.find(tensor.storage().unsafeGetStorageImpl());
  if (found == zeros_.end() || found->second.dtype != tensor.scalar_type() ||
      tensor.sizes() != found->second.sizes || !tensor.is_contiguous()) {
    return false;
  }
  zeros_.erase(found);
  return true;
}

const c10::OperatorHandle& FormalTensors::ZeroOperator() {
  static const c10::OperatorHandle op =
      c10::Dispatcher::singleton().findSchemaOrThrow(
          "aten::_efficientzerotensor", "");
  return op;
}

std::vector<c10::IValue> FormalTensors::ArgumentsOf(const at::Tensor& zero) {
  return {zero.sizes(), zero.scalar_type(), zero.layout(), zero.device(),
          c10::IValue()};
}

}  // namespace reprise::bindings
