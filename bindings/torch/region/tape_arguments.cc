#include "bindings/torch/region/tape_arguments.h"

#include <optional>
#include <utility>

#include "bindings/torch/base/plain_tensor.h"
#include "bindings/torch/region/refusals.h"
#include "bindings/torch/region/tape_ops.h"
#include "bindings/torch/runtime/thread_state.h"

namespace reprise::bindings {
namespace {

using Kind = TapeArgument::Kind;

TapeArgument ArgumentOf(const c10::IValue& value, TapeNames::LookAt look,
                        TapeNames& names, TapeFault& fault) {
  TapeArgument argument;
  const auto name = [&](const std::optional<at::Tensor>& tensor) {
    argument.registers.push_back(tensor.has_value()
                                     ? names.RegisterOf(*tensor, look)
                                     : TapeArgument::kNone);
    argument.by_place |= tensor.has_value() && names.IsNamedByPlace(*tensor);
  };
  const bool wrapped =
      value.isTensor() && value.toTensor().defined() &&
      value.toTensor().unsafeGetTensorImpl()->is_wrapped_number();
  if (wrapped && !IsPlainTensor(*value.toTensor().unsafeGetTensorImpl())) {
    fault.Refuse(Refusal::kNotOrdinaryUsed);
    return argument;
  }
  if (wrapped) {
    const DepthGuard unseen;  // the program reads nothing
    argument.wrapped = true;
    argument.value =
        CopyHostTensor(*value.toTensor().unsafeGetTensorImpl()).item();
  } else if (value.isTensor()) {
    argument.kind = Kind::kTensor;
    name(value.toTensor());
  } else if (value.isTensorList()) {
    argument.kind = Kind::kTensors;
    for (const at::Tensor& tensor : value.toTensorVector()) name(tensor);
  } else if (value.isOptionalTensorList()) {
    argument.kind = Kind::kOptionalTensors;
    for (const std::optional<at::Tensor>& tensor :
         value.toOptionalTensorVector()) {
      name(tensor);
    }
  } else {
    argument.value = value.isList() ? value.toList().copy() : value;
  }
  return argument;
}

}  // namespace

std::vector<TapeArgument> ArgumentsOf(const c10::OperatorHandle& op,
                                      std::span<const c10::IValue> arguments,
                                      TapeNames& names, TapeFault& fault) {
  std::vector<TapeArgument> named;
  named.reserve(arguments.size());
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto look = ReadsOnlyForm(op, arguments, i)
                          ? TapeNames::LookAt::kForm
                          : TapeNames::LookAt::kData;
    named.push_back(ArgumentOf(arguments[i], look, names, fault));
  }
  return named;
}

}  // namespace reprise::bindings
