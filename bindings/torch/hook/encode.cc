#include "bindings/torch/hook/encode.h"

#include <ATen/core/ivalue.h>

#include <algorithm>
#include <cstring>

namespace reprise::bindings {

void Encode(OpCall& call, at::TensorList tensors) {
  call.words().Push(TagWord(Tag::kTensorList, tensors.size()));
  for (const at::Tensor& tensor : tensors) call.AddTensor(tensor);
}

void Encode(OpCall& call, const at::ITensorListRef& tensors) {
  call.words().Push(TagWord(Tag::kTensorList, tensors.size()));
  for (const at::Tensor& tensor : tensors) call.AddTensor(tensor);
}

void Encode(OpCall& call, const c10::List<std::optional<at::Tensor>>& tensors) {
  call.words().Push(TagWord(Tag::kTensorList, tensors.size()));
  // Through the boxed list, whose elements can be read without a copy.
  const c10::IValue list(tensors);
  for (const c10::IValue& element : list.toListRef()) {
    if (element.isTensor()) {
      AddIndex(call, element.toTensor());
    } else {
      call.words().Push(TagWord(Tag::kNone));
    }
  }
}

void AddIndex(OpCall& call, const at::Tensor& index) {
  if (index.defined() &&
      (index.scalar_type() == at::kBool || index.scalar_type() == at::kByte)) {
    call.Cut("what a mask selects depends on data");
  }
  call.AddTensor(index);
}

void Encode(OpCall& call, const c10::SymInt& value) {
  if (const std::optional<int64_t> number = value.maybe_as_int()) {
    Encode(call, *number);
  } else {
    call.words().Push(TagWord(Tag::kCut));
    call.Cut("symbolic size");
  }
}

void Encode(OpCall& call, const at::Scalar& value) {
  if (value.isSymbolic()) {
    call.words().Push(TagWord(Tag::kCut));
    call.Cut("symbolic number");
    return;
  }
  const at::ScalarType type = value.type();
  uint64_t* word = call.words().Extend(2);
  word[0] = TagWord(Tag::kScalar, static_cast<uint64_t>(type));
  if (type == at::kDouble) {
    const double number = value.toDouble();
    word[1] = std::bit_cast<uint64_t>(number);
    if (number == 0) call.NoteZero();
    call.AddNumber(engine::NumberType::kFloat64, 1);
  } else if (type == at::kLong) {
    const int64_t number = value.toLong();
    word[1] = static_cast<uint64_t>(number);
    if (number == 0) call.NoteZero();
    call.AddNumber(engine::NumberType::kInt64, 1);
  } else if (type == at::kBool) {
    word[1] = value.toBool();
  } else if (type == at::kComplexDouble) {
    const auto number = value.toComplexDouble();
    word[1] = std::bit_cast<uint64_t>(number.real());
    call.words().Push(std::bit_cast<uint64_t>(number.imag()));
  } else if (type == at::kUInt64) {
    word[1] = value.toUInt64();
  } else {
    word[1] = static_cast<uint64_t>(value.toLong());
  }
}

void Encode(OpCall& call, at::IntArrayRef values) {
  uint64_t* word = call.words().Extend(1 + values.size());
  *word++ = TagWord(Tag::kList, values.size());
  std::copy(values.begin(), values.end(), word);
}

void Encode(OpCall& call, c10::SymIntArrayRef values) {
  uint64_t* word = call.words().Extend(1 + values.size());
  *word++ = TagWord(Tag::kList, values.size());
  for (const c10::SymInt& value : values) {
    const std::optional<int64_t> number = value.maybe_as_int();
    if (!number.has_value()) call.Cut("symbolic size");
    *word++ = static_cast<uint64_t>(number.value_or(0));
  }
}

void Encode(OpCall& call, at::ArrayRef<double> values) {
  uint64_t* word = call.words().Extend(1 + values.size());
  *word++ = TagWord(Tag::kList, values.size());
  for (const double value : values) *word++ = std::bit_cast<uint64_t>(value);
}

void Encode(OpCall& call, at::ArrayRef<at::Scalar> values) {
  call.words().Push(TagWord(Tag::kList, values.size()));
  for (const at::Scalar& value : values) Encode(call, value);
}

void Encode(OpCall& call, std::string_view value) {
  const size_t count = (value.size() + 7) / 8;
  uint64_t* word = call.words().Extend(1 + count);
  *word++ = TagWord(Tag::kString, value.size());
  if (count == 0) return;
  word[count - 1] = 0;
  std::memcpy(word, value.data(), value.size());
}

void Encode(OpCall& call, const std::optional<at::Generator>& generator) {
  if (generator.has_value() && generator->defined()) {
    call.words().Push(TagWord(Tag::kCut));
    call.Cut("explicit generator");
  } else {
    call.words().Push(TagWord(Tag::kNone));
  }
}

}  // namespace reprise::bindings
