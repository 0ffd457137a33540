#include "tests/bindings/native/batch_reference.h"

#include <cstddef>
#include <cstring>

#include "tests/bindings/native/batch_kernels.h"

namespace reprise::native {
namespace {

using Kind = Step::Kind;

template <typename T>
void FillPlainly(uint32_t* to, uint32_t words, uint32_t value) {
  const T element = static_cast<T>(value);
  for (size_t i = 0; i < words * sizeof(uint32_t) / sizeof(T); ++i) {
    std::memcpy(reinterpret_cast<std::byte*>(to) + i * sizeof(T), &element,
                sizeof element);
  }
}

}  // namespace

void DoPlainly(const Step& step, uint32_t* to, uint32_t* from) {
  const uint32_t words = WordsOf(step);
  const uint32_t blocks = BlocksOf(step);
  switch (step.kind) {
    case Kind::kMix:
    case Kind::kPlain:
    case Kind::kAny:
      BatchKernels::DoMix(blocks, to, from, words, step.by);
      break;
    case Kind::kBlend:
      BatchKernels::DoBlend(blocks, to, from, words, step.by);
      break;
    case Kind::kWeave:
      BatchKernels::DoWeave(blocks, to, from, words, ShortOf(step),
                            WideOf(step));
      break;
    case Kind::kStamp:
      BatchKernels::DoStamp(blocks, to, ByteOf(step), words, step.by);
      break;
    case Kind::kCopy:
      std::memmove(to, from, words * sizeof(uint32_t));
      break;
    case Kind::kFill1:
      FillPlainly<uint8_t>(to, step.to.words(), step.by);
      break;
    case Kind::kFill2:
      FillPlainly<uint16_t>(to, step.to.words(), step.by);
      break;
    case Kind::kFill4:
      FillPlainly<uint32_t>(to, step.to.words(), step.by);
      break;
    case Kind::kCapture:
    case Kind::kUnknown:
      BatchKernels::DoMix(blocks, to, from, words, step.by);
      std::memmove(from, to, words * sizeof(uint32_t) / 2);
      break;
    case Kind::kWait:
    case Kind::kRecord:
      break;
  }
}

}  // namespace reprise::native
