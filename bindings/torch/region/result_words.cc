#include "bindings/torch/region/result_words.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "bindings/torch/base/ivalues.h"
#include "bindings/torch/base/plain_tensor.h"

namespace reprise::bindings {
namespace {

enum Kind : int64_t {
  kUndefined,
  kTensor,
  kNone,
  kInt,
  kDouble,
  kBool,
  kComplex,
  kList,
  kText,
  kElse,
};

const c10::StorageImpl* StorageOf(const at::Tensor& tensor) {
  return tensor.defined() && tensor.has_storage()
             ? tensor.storage().unsafeGetStorageImpl()
             : nullptr;
}

// In whose memory each tensor of the results lies: which one of what is given,
// or of the results before it, or none.
template <typename Emit>
void TellPlaces(std::span<const c10::IValue> results, PlacesOfData all,
                const Emit& emit) {
  ForTensors(results, [&](const at::Tensor& tensor) {
    const c10::StorageImpl* const storage = StorageOf(tensor);
    const auto found = std::ranges::find(all, storage);
    emit(storage == nullptr ? -1 : found - all.begin());
    all.push_back(storage);
  });
}

template <typename Emit>
void TellTensor(const at::Tensor& tensor, const Emit& emit) {
  if (!tensor.defined()) return emit(kUndefined);
  emit(kTensor);
  emit(static_cast<int64_t>(tensor.scalar_type()));
  emit(tensor.dim());
  for (const int64_t size : tensor.sizes()) emit(size);
  if (tensor.layout() != at::kStrided) return emit(kElse);
  for (const int64_t stride : tensor.strides()) emit(stride);
  emit(tensor.storage_offset());
  emit(tensor.is_conj() ? 1 : 0);
  emit(tensor.is_neg() ? 1 : 0);
}

template <typename Emit>
void Tell(const c10::IValue& value, const Emit& emit) {
  if (value.isTensor()) return TellTensor(value.toTensor(), emit);
  if (value.isNone()) return emit(kNone);
  if (value.isInt()) {
    emit(kInt);
    emit(value.toInt());
  } else if (value.isDouble()) {
    emit(kDouble);
    emit(std::bit_cast<int64_t>(value.toDouble()));
  } else if (value.isBool()) {
    emit(kBool);
    emit(value.toBool() ? 1 : 0);
  } else if (value.isComplexDouble()) {
    emit(kComplex);
    emit(std::bit_cast<int64_t>(value.toComplexDouble().real()));
    emit(std::bit_cast<int64_t>(value.toComplexDouble().imag()));
  } else if (value.isString()) {
    emit(kText);
    emit(static_cast<int64_t>(value.toStringRef().size()));
    for (const char each : value.toStringRef()) emit(each);
  } else if (value.isList()) {
    emit(kList);
    emit(static_cast<int64_t>(value.toListRef().size()));
    for (const c10::IValue& each : value.toListRef()) Tell(each, emit);
  } else {
    emit(kElse);
  }
}

// The same without data. Nothing: it says where to make a result.
std::optional<c10::IValue> WithoutData(const c10::IValue& value) {
  if (value.isTensor()) {
    const at::Tensor& tensor = value.toTensor();
    if (!tensor.defined()) return value;
    if (!IsPlainTensor(*tensor.unsafeGetTensorImpl())) return std::nullopt;
    return at::empty_strided(tensor.sizes(), tensor.strides(),
                             tensor.options().device(at::kMeta));
  }
  if (value.isDevice() || value.isObject() || value.isGenerator()) {
    return std::nullopt;
  }
  if (!value.isList()) return value;
  c10::impl::GenericList list(value.toList().elementType());
  for (const c10::IValue& each : value.toListRef()) {
    std::optional<c10::IValue> element = WithoutData(each);
    if (!element.has_value()) return std::nullopt;
    list.push_back(*std::move(element));
  }
  return c10::IValue(std::move(list));
}

}  // namespace

PlacesOfData StoragesOf(std::span<const c10::IValue> arguments) {
  PlacesOfData storages;
  ForTensors(arguments, [&](const at::Tensor& tensor) {
    storages.push_back(StorageOf(tensor));
  });
  return storages;
}

c10::IValue WordsOf(std::span<const c10::IValue> results,
                    const PlacesOfData& given) {
  c10::List<int64_t> words;
  const auto emit = [&words](int64_t word) { words.push_back(word); };
  for (const c10::IValue& each : results) Tell(each, emit);
  TellPlaces(results, given, emit);
  return words;
}

bool HaveWords(std::span<const c10::IValue> results, const PlacesOfData& given,
               const c10::IValue& words) {
  const auto expected = words.toListRef();
  size_t next = 0;
  bool same = true;
  const auto emit = [&](int64_t word) {
    same = same && next < expected.size() && expected[next].toInt() == word;
    ++next;
  };
  for (const c10::IValue& each : results) Tell(each, emit);
  TellPlaces(results, given, emit);
  return same && next == expected.size();
}

std::optional<c10::IValue> DeclaredWords(
    const c10::OperatorHandle& op, std::span<const c10::IValue> arguments) {
  if (!op.hasKernelForDispatchKey(c10::DispatchKey::Meta)) return std::nullopt;
  torch::jit::Stack stack;
  for (const c10::IValue& argument : arguments) {
    std::optional<c10::IValue> given = WithoutData(argument);
    if (!given.has_value()) return std::nullopt;
    stack.push_back(*std::move(given));
  }
  // Held, so that no result takes the place of one.
  const std::vector<c10::IValue> held = stack;
  const at::AutoDispatchBelowADInplaceOrView below;
  const c10::impl::ExcludeDispatchKeyGuard plain(c10::autocast_dispatch_keyset);
  try {
    op.callBoxed(stack);
  } catch (const std::exception&) {
    return std::nullopt;
  }
  return WordsOf(stack, StoragesOf(held));
}

}  // namespace reprise::bindings
