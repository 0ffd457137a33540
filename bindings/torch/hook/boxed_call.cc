#include "bindings/torch/hook/boxed_call.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/InferenceMode.h>

#include <bit>
#include <cstring>

#include "bindings/torch/base/plain_tensor.h"
#include "bindings/torch/runtime/op_warnings.h"
#include "bindings/torch/runtime/thread_state.h"

namespace reprise::bindings {
namespace {

// As OpCall has it: doubles and integers.
bool IsNumber(const at::Scalar& value) {
  return !value.isSymbolic() &&
         (value.type() == at::kDouble || value.type() == at::kLong);
}

}  // namespace

BoxedCall::TensorSlot BoxedCall::SlotOf(const at::Tensor& tensor) {
  TensorSlot slot;
  if (!tensor.defined()) return slot;
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  // As OpCall has it: a wrapped number of the host is no operand.
  if (impl.is_wrapped_number() && impl.dim() == 0) {
    slot.kind = TensorSlot::Kind::kKept;
    slot.kept = CopyHostTensor(impl);
    slot.kept.unsafeGetTensorImpl()->set_wrapped_number(true);
    if (NumberTypeOf(slot.kept.scalar_type()).has_value()) {
      const Argument& argument = arguments_.back();
      numbers_.push_back({arguments_.size() - 1, argument.tensors.size()});
    }
    return slot;
  }
  slot.kind = TensorSlot::Kind::kOperand;
  slot.keys = impl.key_set();
  slot.dtype = tensor.scalar_type();
  slot.sizes = tensor.sizes().vec();
  slot.strides = tensor.strides().vec();
  if (info_.by_storages) {
    slot.storage_offset = impl.storage_offset();
    slot.storage_bytes = impl.unsafe_storage().nbytes();
  } else {
    slot.storage_bytes = at::detail::computeStorageNbytes(
        slot.sizes, slot.strides, c10::elementSize(slot.dtype));
  }
  return slot;
}

void BoxedCall::AddTensor(const at::Tensor& tensor) {
  Argument& argument = arguments_.emplace_back();
  argument.kind = Argument::Kind::kTensor;
  argument.tensors.push_back(SlotOf(tensor));
}

void BoxedCall::AddTensorList(std::span<const at::Tensor> tensors) {
  Argument& argument = arguments_.emplace_back();
  argument.kind = Argument::Kind::kList;
  for (const at::Tensor& tensor : tensors) {
    argument.tensors.push_back(SlotOf(tensor));
  }
}

void BoxedCall::AddOptionalTensorList(
    const c10::List<std::optional<at::Tensor>>& tensors) {
  Argument& argument = arguments_.emplace_back();
  argument.kind = Argument::Kind::kOptionalList;
  const c10::IValue list(tensors);
  for (const c10::IValue& tensor : list.toListRef()) {
    argument.tensors.push_back(tensor.isTensor() ? SlotOf(tensor.toTensor())
                                                 : TensorSlot());
  }
}

void BoxedCall::AddValue(c10::IValue value) {
  arguments_.emplace_back().value = std::move(value);
}

void BoxedCall::AddDouble(double value) {
  if (info_.by_value.doubles) numbers_.push_back({arguments_.size(), 0});
  AddValue(c10::IValue(value));
}

void BoxedCall::AddScalar(const at::Scalar& value) {
  if (IsNumber(value)) numbers_.push_back({arguments_.size(), 0});
  AddValue(c10::IValue(value));
}

void BoxedCall::AddScalarList(at::ArrayRef<at::Scalar> values) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (IsNumber(values[i])) numbers_.push_back({arguments_.size(), i});
  }
  AddValue(c10::IValue(values));
}

void BoxedCall::SetScalar(uint32_t scalar, uint64_t bits) {
  const Number& number = numbers_[scalar];
  Argument& argument = arguments_[number.argument];
  const auto renewed = [bits](const c10::IValue& value) {
    return value.isDouble() ? c10::IValue(std::bit_cast<double>(bits))
                            : c10::IValue(static_cast<int64_t>(bits));
  };
  if (argument.kind != Argument::Kind::kValue) {
    const at::Tensor& kept = argument.tensors[number.element].kept;
    std::memcpy(kept.mutable_data_ptr(), &bits, kept.itemsize());
  } else if (argument.value.isList()) {
    // The one that the argument holds: lists are references.
    c10::List<c10::IValue> list = argument.value.toList();
    list.set(number.element, renewed(list.get(number.element)));
  } else {
    argument.value = renewed(argument.value);
  }
}

void Box(BoxedCall& call, const at::ITensorListRef& tensors) {
  const auto materialized = tensors.materialize();
  std::vector<at::Tensor> list;
  list.reserve(materialized.size());
  for (const at::Tensor& tensor : materialized) list.push_back(tensor);
  call.AddTensorList(list);
}

void BoxBoxed(BoxedCall& call, const c10::IValue& value) {
  if (value.isTensor()) {
    call.AddTensor(value.toTensor());
  } else if (value.isTensorList()) {
    call.AddTensorList(value.toTensorVector());
  } else if (value.isOptionalTensorList()) {
    call.AddOptionalTensorList(value.toOptionalTensorList());
  } else {
    call.AddValue(value);
  }
}

at::Tensor BoxedCall::Fill(const TensorSlot& slot,
                           std::span<const uint64_t>& operands) {
  switch (slot.kind) {
    case TensorSlot::Kind::kUndefined:
      return at::Tensor();
    case TensorSlot::Kind::kKept:
      return slot.kept;
    case TensorSlot::Kind::kOperand:
      break;
  }
  TORCH_CHECK(!operands.empty(), "fewer operands than were recorded");
  const uint64_t base =
      operands.front() -
      static_cast<uint64_t>(slot.storage_offset) * c10::elementSize(slot.dtype);
  operands = operands.subspan(1);
  c10::Storage storage(
      c10::Storage::use_byte_size_t(), slot.storage_bytes,
      c10::DataPtr(reinterpret_cast<void*>(base), c10::Device(c10::kCPU)),
      /*allocator=*/nullptr, /*resizable=*/false);
  TensorLayout layout;
  layout.storage_offset = slot.storage_offset;
  layout.keys = slot.keys;
  layout.dtype = slot.dtype;
  layout.sizes = slot.sizes;
  layout.strides = slot.strides;
  at::Tensor tensor =
      MakeTensor(std::move(storage), c10::DispatchKey::CPU, layout);
  return tensor;
}

torch::jit::Stack BoxedCall::MakeStack(
    std::span<const uint64_t> operands) const {
  torch::jit::Stack stack;
  stack.reserve(arguments_.size());
  for (const Argument& argument : arguments_) {
    switch (argument.kind) {
      case Argument::Kind::kValue:
        stack.push_back(argument.value);
        break;
      case Argument::Kind::kTensor:
        stack.emplace_back(Fill(argument.tensors.front(), operands));
        break;
      case Argument::Kind::kList: {
        c10::List<at::Tensor> list;
        for (const TensorSlot& slot : argument.tensors) {
          list.push_back(Fill(slot, operands));
        }
        stack.emplace_back(std::move(list));
        break;
      }
      case Argument::Kind::kOptionalList: {
        c10::List<std::optional<at::Tensor>> list;
        for (const TensorSlot& slot : argument.tensors) {
          if (slot.kind == TensorSlot::Kind::kUndefined) {
            list.push_back(std::nullopt);
          } else {
            list.push_back(Fill(slot, operands));
          }
        }
        stack.emplace_back(std::move(list));
        break;
      }
    }
  }
  TORCH_CHECK(operands.empty(), "more operands than were recorded");
  return stack;
}

base::Status BoxedCall::StoreResults(std::span<const c10::IValue> returned,
                                     std::span<const uint64_t> results) const {
  size_t next = 0;
  const auto store = [&](const at::Tensor& tensor) -> base::Status {
    const size_t i = next++;
    if (i >= results.size() || results[i] == 0) return {};
    const c10::Storage& storage = tensor.storage();
    if (i >= expected_.size() || storage.nbytes() != expected_[i]) {
      return base::Fail(base::Code::kInternal,
                        info_.name + " returned a result of " +
                            std::to_string(storage.nbytes()) +
                            " bytes, which is not what was recorded");
    }
    std::memcpy(reinterpret_cast<void*>(results[i]), storage.data(),
                storage.nbytes());
    return {};
  };
  for (const c10::IValue& value : returned) {
    if (value.isTensor()) {
      REPRISE_RETURN_IF_ERROR(store(value.toTensor()));
    } else if (value.isTensorList()) {
      if (returned.size() > 1) ++next;  // its length, see ResultList
      for (const c10::IValue& tensor : value.toListRef()) {
        REPRISE_RETURN_IF_ERROR(store(tensor.toTensor()));
      }
    } else {
      ++next;
    }
  }
  return {};
}

base::Status BoxedCall::Run(std::span<const uint64_t> operands,
                            std::span<const uint64_t> results) {
  const DepthGuard depth;
  const ThreadModesGuard modes(modes_);
  const UntoldWarnings warnings;
  const c10::InferenceMode no_inference(false);
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  try {
    torch::jit::Stack stack = MakeStack(operands);
    info_.handle.redispatchBoxed(keys_, &stack);
    // It did not when it was recorded, and the program is to be told.
    if (warnings.any()) {
      return base::Fail(base::Code::kFailedPrecondition,
                        info_.name + " warns, which it did not when recorded");
    }
    // References come back as tensors as well; they are no results.
    if (results.empty()) return {};
    return StoreResults(stack, results);
  } catch (const std::exception& error) {
    return base::Fail(base::Code::kFailedPrecondition,
                      info_.name + " raised: " + error.what());
  }
}

void BoxedCall::Expect(std::span<const engine::ResultView> results) {
  expected_.clear();
  for (const engine::ResultView& result : results) {
    expected_.push_back(result.storage_bytes);
  }
}

}  // namespace reprise::bindings
