// Arguments of every type that operators have, into an OpCall.
//
// One overload a type, chosen by the operator's C++ signature, so that a hook
// is a fold over its arguments. Lists say how many elements follow and
// optionals whether one does, so that within an operator equal words mean equal
// arguments.

#ifndef REPRISE_BINDINGS_TORCH_HOOK_ENCODE_H_
#define REPRISE_BINDINGS_TORCH_HOOK_ENCODE_H_

#include <ATen/core/Generator.h>
#include <ATen/core/IListRef.h>
#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>
#include <c10/core/Storage.h>
#include <c10/core/Stream.h>
#include <c10/core/SymIntArrayRef.h>
#include <c10/util/OptionalArrayRef.h>

#include <array>
#include <optional>
#include <string_view>

#include "bindings/torch/hook/op_call.h"

namespace reprise::bindings {

// Tensors.
inline void Encode(OpCall& call, const at::Tensor& tensor) {
  call.AddTensor(tensor);
}
inline void Encode(OpCall& call, const std::optional<at::Tensor>& tensor) {
  if (tensor.has_value()) {
    call.AddTensor(*tensor);
  } else {
    call.words().Push(TagWord(Tag::kNone));
  }
}
void Encode(OpCall& call, at::TensorList tensors);
void Encode(OpCall& call, const at::ITensorListRef& tensors);
// Only indexing takes such lists: masks among the indices cut.
void Encode(OpCall& call, const c10::List<std::optional<at::Tensor>>& tensors);
void AddIndex(OpCall& call, const at::Tensor& index);

// Numbers.
inline void Encode(OpCall& call, int64_t value) {
  uint64_t* word = call.words().Extend(2);
  word[0] = TagWord(Tag::kInt);
  word[1] = static_cast<uint64_t>(value);
}
inline void Encode(OpCall& call, double value) { call.AddDouble(value); }
inline void Encode(OpCall& call, bool value) { call.AddBool(value); }
void Encode(OpCall& call, const c10::SymInt& value);
void Encode(OpCall& call, const at::Scalar& value);

// Options of tensors. `pin_memory` follows the device in every schema.
inline void Encode(OpCall& call, at::ScalarType value) {
  call.words().Push(TagWord(Tag::kEnum, static_cast<uint64_t>(value)));
}
inline void Encode(OpCall& call, at::MemoryFormat value) {
  call.words().Push(TagWord(Tag::kEnum, static_cast<uint64_t>(value)));
}
inline void Encode(OpCall& call, at::Layout value) {
  call.words().Push(TagWord(Tag::kEnum, static_cast<uint64_t>(value)));
  if (value != at::kStrided) call.SetForeign();
}
inline void Encode(OpCall& call, at::Device value) { call.AddDevice(value); }
inline void Encode(OpCall& call, const std::optional<at::Device>& value) {
  call.AddDevice(value);
}
inline void Encode(OpCall& call, const std::optional<bool>& value) {
  call.words().Push(value.has_value() ? TagWord(Tag::kBool, *value)
                                      : TagWord(Tag::kNone));
  if (value.value_or(false) && call.follows_device()) call.SetForeign();
}

// Lists.
void Encode(OpCall& call, at::IntArrayRef values);
void Encode(OpCall& call, c10::SymIntArrayRef values);
void Encode(OpCall& call, at::ArrayRef<double> values);
void Encode(OpCall& call, at::ArrayRef<at::Scalar> values);
void Encode(OpCall& call, std::string_view value);
template <size_t N>
void Encode(OpCall& call, const std::array<bool, N>& values) {
  uint64_t bits = N << 32;
  for (size_t i = 0; i < N; ++i) bits |= uint64_t{values[i]} << i;
  call.words().Push(TagWord(Tag::kBools, bits));
}

// What no trace can hold. An explicit generator is not the one that the session
// looks at.
void Encode(OpCall& call, const std::optional<at::Generator>& generator);
inline void Encode(OpCall& call, const at::Storage&) {
  call.words().Push(TagWord(Tag::kCut));
  call.Cut("takes a storage");
}
inline void Encode(OpCall& call, const at::Stream&) {
  call.words().Push(TagWord(Tag::kCut));
  call.Cut("takes a stream");
}

template <typename T>
void Encode(OpCall& call, const std::optional<T>& value) {
  if (value.has_value()) {
    Encode(call, *value);
  } else {
    call.words().Push(TagWord(Tag::kNone));
  }
}
template <typename T>
void Encode(OpCall& call, const c10::OptionalArrayRef<T>& values) {
  if (values.has_value()) {
    Encode(call, *values);
  } else {
    call.words().Push(TagWord(Tag::kNone));
  }
}

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_HOOK_ENCODE_H_
