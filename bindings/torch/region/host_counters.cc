#include "bindings/torch/region/host_counters.h"

#include <string>

#include "bindings/torch/base/ivalues.h"
#include "bindings/torch/base/plain_tensor.h"

namespace reprise::bindings {
namespace {

bool IsOne(const c10::IValue& value) {
  return (value.isDouble() && value.toDouble() == 1) ||
         (value.isInt() && value.toInt() == 1);
}

// The number that a call adds to each tensor of its first argument. Nothing: it
// does something else, or what it adds is no number of the host.
std::optional<NumberRead::Added> AddedBy(
    const TapeCall& call, std::span<const c10::IValue> arguments) {
  const c10::OperatorName& name = call.op.operator_name();
  if ((name.name != "aten::add_" && name.name != "aten::_foreach_add_") ||
      (name.overload_name != "Tensor" && name.overload_name != "Scalar")) {
    return std::nullopt;
  }
  // By another factor it is no sum of two.
  if (arguments.size() > 2 && !IsOne(arguments[2])) return std::nullopt;
  NumberRead::Added added;
  const c10::IValue& other = arguments[1];
  if (other.isDouble()) {
    added.value = other.toDouble();
  } else if (other.isInt()) {
    added.value = static_cast<double>(other.toInt());
  } else if (other.isTensor() && other.toTensor().defined() &&
             HostCounters::IsCounter(*other.toTensor().unsafeGetTensorImpl())) {
    added.value =
        HostCounters::ValueOf(*other.toTensor().unsafeGetTensorImpl());
    if (!call.arguments[1].wrapped) added.reg = call.arguments[1].registers[0];
  } else if (call.arguments[1].wrapped && call.arguments[1].value.isInt()) {
    added.value = static_cast<double>(call.arguments[1].value.toInt());
  } else {
    return std::nullopt;
  }
  return added;
}

}  // namespace

bool HostCounters::IsCounter(const c10::TensorImpl& tensor) {
  return tensor.is_cpu() && tensor.numel() == 1 && tensor.has_storage() &&
         tensor.layout() == at::kStrided && !tensor.is_conj() &&
         !tensor.is_neg() &&
         (tensor.dtype() == caffe2::TypeMeta::Make<float>() ||
          tensor.dtype() == caffe2::TypeMeta::Make<double>());
}

double HostCounters::ValueOf(const c10::TensorImpl& counter) {
  const void* const data = counter.data();
  return counter.dtype() == caffe2::TypeMeta::Make<float>()
             ? static_cast<double>(*static_cast<const float*>(data))
             : *static_cast<const double*>(data);
}

double HostCounters::ValueOf(const NumberRead& read,
                             const c10::TensorImpl& counter) {
  return ValueOf(read, ValueOf(counter), counter.dtype());
}

double HostCounters::ValueOf(const NumberRead& read, double before,
                             caffe2::TypeMeta type) {
  const bool narrow = type == caffe2::TypeMeta::Make<float>();
  double value = before;
  for (const NumberRead::Added& added : read.added) {
    value = narrow ? static_cast<float>(value) + static_cast<float>(added.value)
                   : value + added.value;
  }
  return value;
}

void HostCounters::NoteWrite(size_t call,
                             std::span<const c10::IValue> arguments,
                             size_t index) {
  const std::optional<NumberRead::Added> added =
      index == 0 ? AddedBy(record_.calls[call], arguments) : std::nullopt;
  ForTensors(arguments.subspan(index, 1), [&](const at::Tensor& tensor) {
    if (!tensor.defined() || !tensor.device().is_cpu() || !tensor.has_storage())
      return;
    Written& written = written_[tensor.storage().unsafeGetStorageImpl()];
    // Of another type, it is summed in another precision. What a call has
    // written is no constant.
    const bool fits =
        added.has_value() && IsCounter(*tensor.unsafeGetTensorImpl()) &&
        tensor.storage_offset() == 0 &&
        (added->reg < 0 ||
         (arguments[1].toTensor().dtype() == tensor.dtype() &&
          !written_.contains(
              arguments[1].toTensor().storage().unsafeGetStorageImpl())));
    if (fits) {
      written.added.push_back(*added);
    } else {
      written.otherwise = true;
    }
  });
}

std::optional<NumberRead> HostCounters::Find(const at::Tensor& tensor,
                                             int32_t reg) const {
  if (reg < 0 || !IsCounter(*tensor.unsafeGetTensorImpl()) ||
      tensor.storage_offset() != 0) {
    return std::nullopt;
  }
  const TapeRegister& of = record_.registers[static_cast<size_t>(reg)];
  if (of.origin != TapeRegister::Origin::kForeign) return std::nullopt;
  NumberRead read{.reg = reg};
  const auto written = written_.find(names_.StorageOf(reg));
  if (written != written_.end()) {
    if (written->second.otherwise) return std::nullopt;
    read.added = written->second.added;
  }
  return read;
}

}  // namespace reprise::bindings
