#include "bindings/torch/hook/results.h"

#include <cstring>

#include "bindings/torch/base/plain_tensor.h"
#include "bindings/torch/runtime/torch_frontend.h"

namespace reprise::bindings {
namespace {

// Larger host results carry data that a trace cannot foresee.
constexpr int64_t kMaxHostElements = 64;

// Results are compared with operands to see whether an op returned one of them;
// ops on long lists never do.
constexpr size_t kMaxOperandsSearched = 16;

uint64_t Mix(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
  return hash ^ hash >> 29;
}

uint64_t HashBytes(const void* data, size_t size_bytes, uint64_t hash) {
  const auto* bytes = static_cast<const unsigned char*>(data);
  for (size_t i = 0; i < size_bytes; i += 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes + i, std::min<size_t>(8, size_bytes - i));
    hash = Mix(hash, word);
  }
  return Mix(hash, size_bytes);
}

}  // namespace

std::shared_ptr<const void> KeepHostValue(c10::IValue value) {
  return std::make_shared<const c10::IValue>(std::move(value));
}

void ResultList::Add(const at::Tensor& tensor) {
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  if (!tensor.defined()) {
    views_.emplace_back();
    return;
  }
  if (!IsPlainTensor(*impl) || impl->is_wrapped_number()) {
    describable_ = false;
    return;
  }
  const c10::Device device = impl->device();
  if (call_.kind() == scheduler::DeviceKind::kCuda && device.is_cpu()) {
    AddHostTensor(*impl);
    return;
  }
  if (device.is_cuda() && device.index() != call_.device().index()) {
    describable_ = false;
    return;
  }
  const c10::StorageImpl& storage =
      *impl->unsafe_storage().unsafeGetStorageImpl();
  engine::ResultView& view = views_.emplace_back();
  view.kind = engine::ResultView::Kind::kTensor;
  const auto operands = call_.operands();
  const size_t searched = std::min(operands.size(), kMaxOperandsSearched);
  for (size_t i = 0; i < searched; ++i) {
    if (call_.tensor(i) == impl) view.operand = static_cast<int32_t>(i);
  }
  view.storage = TokenOf(storage);
  view.base = BaseOf(storage);
  view.element_bytes = static_cast<uint32_t>(impl->itemsize());
  view.version = VersionOf(*impl);
  view.offset_bytes =
      static_cast<uint64_t>(impl->storage_offset()) * view.element_bytes;
  view.storage_bytes = storage.nbytes();
  view.key_set = impl->key_set().raw_repr();
  view.dtype = static_cast<int32_t>(c10::typeMetaToScalarType(impl->dtype()));
  view.sizes = {impl->sizes().data(), impl->sizes().size()};
  view.strides = {impl->strides().data(), impl->strides().size()};
}

void ResultList::Add(const std::vector<at::Tensor>& tensors) {
  views_.reserve(views_.size() + tensors.size());
  for (const at::Tensor& tensor : tensors) Add(tensor);
}

void ResultList::Add(const c10::SymInt& value) {
  if (const std::optional<int64_t> number = value.maybe_as_int()) {
    Add(*number);
  } else {
    describable_ = false;
  }
}

void ResultList::AddBoxed(const c10::IValue& value, bool alone) {
  if (value.isTensor()) {
    Add(value.toTensor());
  } else if (value.isTensorList()) {
    const auto tensors = value.toListRef();
    if (!alone) Add(static_cast<int64_t>(tensors.size()));
    for (const c10::IValue& tensor : tensors) Add(tensor.toTensor());
  } else if (value.isInt()) {
    Add(value.toInt());
  } else if (value.isBool()) {
    Add(value.toBool());
  } else {
    describable_ = false;
  }
}

void ResultList::AddNumber(c10::IValue value, uint64_t hash) {
  engine::ResultView& view = views_.emplace_back();
  view.kind = engine::ResultView::Kind::kHost;
  view.host = KeepHostValue(std::move(value));
  view.host_hash = Mix(1, hash);
}

void ResultList::AddHostTensor(const c10::TensorImpl& tensor) {
  if (tensor.numel() > kMaxHostElements) {
    describable_ = false;
    return;
  }
  at::Tensor copy = CopyHostTensor(tensor);
  uint64_t hash = Mix(2, static_cast<uint64_t>(copy.scalar_type()));
  for (const int64_t size : copy.sizes()) {
    hash = Mix(hash, static_cast<uint64_t>(size));
  }
  hash = HashBytes(copy.const_data_ptr(), copy.storage().nbytes(), hash);
  engine::ResultView& view = views_.emplace_back();
  view.kind = engine::ResultView::Kind::kHost;
  if (copy.dim() == 0 && copy.scalar_type() == at::kLong) {
    view.host_integer = *copy.const_data_ptr<int64_t>();
  }
  view.host = KeepHostValue(std::move(copy));
  view.host_hash = hash;
}

}  // namespace reprise::bindings
