#include "tests/sim/interpreter.h"

#include <algorithm>

namespace reprise::sim {
namespace {

using Tensor = PlainOps::Tensor;

void Scale(const Tensor& out, const Tensor& a, uint32_t attribute) {
  for (size_t i = 0; i < out.length(); ++i) out[i] = Mix(a[i], attribute);
}

void Combine(const Tensor& out, const Tensor& a, const Tensor& b) {
  const std::vector<uint32_t> with = b.values();
  for (size_t i = 0; i < out.length(); ++i) {
    out[i] = Mix(a[i], with[i % with.size()]);
  }
}

void Fold(const Tensor& out, const Tensor& a) {
  for (uint32_t j = 0; j < out.length(); ++j) {
    uint32_t sum = j;
    for (size_t i = j; i < a.length(); i += out.length()) sum = Mix(a[i], sum);
    out[j] = sum;
  }
}

void Copy(const Tensor& out, const Tensor& a) {
  const std::vector<uint32_t> words = a.values();
  for (size_t i = 0; i < std::min(out.length(), words.size()); ++i) {
    out[i] = words[i];
  }
}

}  // namespace

std::vector<Tensor> PlainOps::Run(OpKind kind,
                                  const std::vector<Tensor>& inputs,
                                  uint32_t attribute) {
  if (OverlapsItself(kind, inputs)) throw OpRaised();
  switch (kind) {
    case OpKind::kScale: {
      Tensor out = New(inputs[0].length());
      Scale(out, inputs[0], attribute);
      return {out};
    }
    case OpKind::kCombine: {
      Tensor out = New(inputs[0].length());
      Combine(out, inputs[0], inputs[1]);
      return {out};
    }
    case OpKind::kFold: {
      Tensor out = New(kFoldLength);
      Fold(out, inputs[0]);
      return {out};
    }
    case OpKind::kTwice: {
      Tensor out = New(inputs[0].length());
      Scale(out, inputs[0], kNoAttribute);
      Combine(out, out, inputs[1]);
      return {out};
    }
    case OpKind::kPair: {
      Tensor scaled = New(inputs[0].length());
      Tensor folded = New(kFoldLength);
      Scale(scaled, inputs[0], attribute);
      Fold(folded, inputs[0]);
      return {scaled, folded};
    }
    case OpKind::kEach: {
      Tensor out = New(inputs[0].length());
      Copy(out, inputs[0]);
      for (const uint32_t number : NumbersOf(kind, attribute)) {
        Scale(out, out, number);
      }
      return {out};
    }
    case OpKind::kSplit: {
      const Tensor out = New(inputs[0].length());
      Scale(out, inputs[0], attribute);
      const size_t half = out.length() / 2;
      const size_t length = std::max<size_t>(half, 1);
      return {out.Part(0, length), out.Part(half, length)};
    }
    case OpKind::kFill: {
      Tensor out = New(kLengths[attribute % kLengths.size()]);
      const uint32_t byte = attribute & 0xFF;
      for (size_t i = 0; i < out.length(); ++i) out[i] = byte * 0x01010101u;
      return {out};
    }
    case OpKind::kClone: {
      Tensor out = New(inputs[0].length());
      Copy(out, inputs[0]);
      return {out};
    }
    case OpKind::kEmpty:
      return {New(inputs[0].length())};
    case OpKind::kMutate:
      Scale(inputs[0], inputs[0], attribute);
      return {};
    case OpKind::kAccumulate:
      Combine(inputs[0], inputs[0], inputs[1]);
      return {};
    case OpKind::kInto:
      Copy(inputs[0], inputs[1]);
      Combine(inputs[0], inputs[0], inputs[2]);
      return {inputs[0]};
    case OpKind::kHalf: {
      const size_t half = inputs[0].length() / 2;
      return {inputs[0].Part(half, inputs[0].length() - half)};
    }
    case OpKind::kDraw: {
      Tensor out = New(inputs[0].length());
      const int draws = DrawsOf(attribute);
      if (draws == 0) Scale(out, inputs[0], 0);
      for (int i = 0; i < draws; ++i) {
        Scale(out, i == 0 ? inputs[0] : out,
              ModelGenerator::NumberAt(generator.Draw(out.length())));
      }
      return {out};
    }
    case OpKind::kRaise: {
      if (attribute == 1) throw OpRaised();
      Tensor out = New(inputs[0].length());
      Scale(out, inputs[0], 0);
      return {out};
    }
    case OpKind::kUpload:
      for (uint32_t i = 0; i < inputs[0].length(); ++i) {
        inputs[0][i] = Mix(i, attribute);
      }
      return {};
    case OpKind::kBring: {
      Tensor out = New(kLengths[attribute % kLengths.size()]);
      ++brought_;
      for (uint32_t i = 0; i < out.length(); ++i) out[i] = Mix(i, brought_);
      return {out};
    }
    case OpKind::kRead:
      return {};
  }
  return {};
}

}  // namespace reprise::sim
