#include "tests/sim/model_ops.h"

#include <algorithm>

namespace reprise::sim {
namespace {

constexpr char kReads[] = "hands data to the host";
constexpr char kWrites[] = "copies from the host";

constexpr OpTraits kTraits[kOpKinds] = {
    {"scale", 1, 1, false, nullptr},  {"combine", 2, 1, false, nullptr},
    {"fold", 1, 1, false, nullptr},   {"twice", 2, 1, false, nullptr},
    {"pair", 1, 2, false, nullptr},   {"each", 1, 1, false, nullptr},
    {"split", 1, 2, false, nullptr},  {"fill", 0, 1, false, nullptr},
    {"clone", 1, 1, false, nullptr},  {"empty", 1, 1, false, nullptr},
    {"mutate_", 1, 0, true, nullptr}, {"accumulate_", 2, 0, true, nullptr},
    {"into", 3, 1, true, nullptr},    {"half", 1, 1, false, nullptr},
    {"draw", 1, 1, false, nullptr},   {"read", 1, 0, false, kReads},
    {"upload_", 1, 0, true, kWrites}, {"raise", 1, 1, false, nullptr},
    {"bring", 0, 1, false, nullptr},
};

constexpr size_t kLargeTemporaryBytes = 3000;

}  // namespace

const OpTraits& TraitsOf(OpKind kind) {
  return kTraits[static_cast<size_t>(kind)];
}

std::vector<size_t> ResultLengths(OpKind kind, std::span<const size_t> inputs,
                                  uint32_t attribute) {
  switch (kind) {
    case OpKind::kFold:
      return {kFoldLength};
    case OpKind::kPair:
      return {inputs[0], kFoldLength};
    case OpKind::kSplit:
      return {std::max<size_t>(inputs[0] / 2, 1),
              std::max<size_t>(inputs[0] / 2, 1)};
    case OpKind::kFill:
    case OpKind::kBring:
      return {kLengths[attribute % kLengths.size()]};
    case OpKind::kScale:
    case OpKind::kCombine:
    case OpKind::kTwice:
    case OpKind::kEach:
    case OpKind::kClone:
    case OpKind::kEmpty:
    case OpKind::kDraw:
    case OpKind::kRaise:
      return {inputs[0]};
    case OpKind::kMutate:
    case OpKind::kAccumulate:
    case OpKind::kInto:
    case OpKind::kHalf:
    case OpKind::kRead:
    case OpKind::kUpload:
      return {};
  }
  return {};
}

std::vector<uint32_t> NumbersOf(OpKind kind, uint32_t attribute) {
  if (kind != OpKind::kEach) return {attribute};
  std::vector<uint32_t> numbers(kListLength, attribute);
  if (attribute % 4 == 3) numbers[kListLength / 2] += 1 + attribute % 3;
  return numbers;
}

void EnqueueOp(OpKind kind, std::span<const OpInput> inputs,
               std::span<const uint32_t> numbers, ModelGenerator& generator,
               OpSink& sink) {
  const uint32_t attribute = numbers[0];
  const auto length = [&](size_t i) {
    return static_cast<uint32_t>(inputs[i].length);
  };
  const auto size_bytes = [&](size_t i) { return 4 * inputs[i].length; };
  const auto a = [&] { return inputs[0].address; };
  const auto b = [&] { return inputs[1].address; };
  switch (kind) {
    case OpKind::kScale:
      sink.Scale(sink.Result(0, size_bytes(0)), length(0), attribute, a());
      break;
    case OpKind::kCombine:
      sink.Combine(sink.Result(0, size_bytes(0)), length(0), a(), b(),
                   length(1));
      break;
    case OpKind::kFold: {
      const uint64_t workspace = sink.Workspace();
      const uint64_t out = sink.Result(0, 4 * kFoldLength);
      if (workspace != 0) sink.Copy(workspace, a(), size_bytes(0));
      sink.Fold(out, workspace != 0 ? workspace : a(), length(0));
      break;
    }
    case OpKind::kTwice: {
      const uint64_t scaled = sink.Temporary(size_bytes(0));
      const uint64_t large = sink.Temporary(kLargeTemporaryBytes);
      sink.Fill(large, 0x33, kLargeTemporaryBytes);
      sink.Scale(scaled, length(0), kNoAttribute, a());
      sink.FreeTemporary(large);
      const uint64_t out = sink.Result(0, size_bytes(0));
      sink.Combine(out, length(0), scaled, b(), length(1));
      sink.FreeTemporary(scaled);
      break;
    }
    case OpKind::kPair: {
      const uint64_t scaled = sink.Result(0, size_bytes(0));
      sink.Scale(scaled, length(0), attribute, a());
      sink.Fold(sink.Result(1, 4 * kFoldLength), a(), length(0));
      break;
    }
    case OpKind::kEach:
      sink.Each(sink.Result(0, size_bytes(0)), length(0), a(), numbers);
      break;
    case OpKind::kSplit:
      sink.Scale(sink.Result(0, size_bytes(0)), length(0), attribute, a());
      break;
    case OpKind::kFill: {
      const size_t bytes = 4 * kLengths[attribute % kLengths.size()];
      sink.Fill(sink.Result(0, bytes), static_cast<unsigned char>(attribute),
                bytes);
      break;
    }
    case OpKind::kClone:
      sink.Copy(sink.Result(0, size_bytes(0)), a(), size_bytes(0));
      break;
    case OpKind::kEmpty:
      sink.Result(0, size_bytes(0));
      break;
    case OpKind::kMutate:
      sink.Scale(a(), length(0), attribute, a());
      break;
    case OpKind::kAccumulate:
      sink.Combine(a(), length(0), a(), b(), length(1));
      break;
    case OpKind::kInto:
      sink.Copy(a(), b(), 4 * std::min(inputs[0].length, inputs[1].length));
      sink.Combine(a(), length(0), a(), inputs[2].address, length(2));
      break;
    case OpKind::kDraw: {
      const uint64_t out = sink.Result(0, size_bytes(0));
      const int draws = DrawsOf(attribute);
      if (draws == 0) sink.Scale(out, length(0), 0, a());
      for (int i = 0; i < draws; ++i) {
        sink.Draw(out, length(0), i == 0 ? a() : out,
                  generator.Draw(inputs[0].length));
      }
      break;
    }
    case OpKind::kRaise:
      sink.Scale(sink.Result(0, size_bytes(0)), length(0), 0, a());
      break;
    case OpKind::kUpload: {
      std::vector<uint32_t> words(inputs[0].length);
      for (uint32_t i = 0; i < words.size(); ++i) words[i] = Mix(i, attribute);
      sink.Write(a(), words.data(), size_bytes(0));
      break;
    }
    case OpKind::kBring: {
      const uint32_t brought = sink.Bring();
      std::vector<uint32_t> words(kLengths[attribute % kLengths.size()]);
      for (uint32_t i = 0; i < words.size(); ++i) words[i] = Mix(i, brought);
      const size_t bytes = 4 * words.size();
      sink.Write(sink.Result(0, bytes), words.data(), bytes);
      break;
    }
    case OpKind::kHalf:
    case OpKind::kRead:
      break;
  }
}

void DoScale(ScaleParams params) {
  uint32_t* out = SimulatedGpu::Words(params.out, params.length);
  const uint32_t* a = SimulatedGpu::Words(params.a, params.length);
  if (out == nullptr || a == nullptr) return;
  for (uint32_t i = 0; i < params.length; ++i) {
    out[i] = Mix(a[i], params.attribute);
  }
}

void DoDraw(uint64_t out, uint32_t length, uint64_t a, DrawState state) {
  if ((state.flag_and_unwritten & 0xFF) != 0 || state.more != 0) {
    SimulatedGpu::Words(state.seed, 2);
    return;
  }
  DoScale({out, length, 0, a,
           ModelGenerator::NumberAt({state.seed, state.offset})});
}

void DoEach(EachParams params) {
  uint32_t* out = SimulatedGpu::Words(params.out, params.length);
  const uint32_t* a = SimulatedGpu::Words(params.a, params.length);
  if (out == nullptr || a == nullptr) return;
  for (uint32_t i = 0; i < params.length; ++i) {
    uint32_t word = a[i];
    for (uint32_t n = 0; n < params.count; ++n) {
      word = Mix(word, params.numbers[n]);
    }
    out[i] = word;
  }
}

// `out` may be `a`, and b may lie within it: a launch reads before it writes.
void DoCombine(uint64_t out_address, uint32_t length, uint64_t a_address,
               uint64_t b_address, uint32_t b_length) {
  uint32_t* out = SimulatedGpu::Words(out_address, length);
  const uint32_t* a = SimulatedGpu::Words(a_address, length);
  const uint32_t* b = SimulatedGpu::Words(b_address, b_length);
  if (out == nullptr || a == nullptr || b == nullptr) return;
  const std::vector<uint32_t> with(b, b + b_length);
  for (uint32_t i = 0; i < length; ++i) {
    out[i] = Mix(a[i], with[i % b_length]);
  }
}

void DoFold(uint64_t out_address, uint64_t a_address, uint32_t length) {
  uint32_t* out = SimulatedGpu::Words(out_address, kFoldLength);
  const uint32_t* a = SimulatedGpu::Words(a_address, length);
  if (out == nullptr || a == nullptr) return;
  for (uint32_t j = 0; j < kFoldLength; ++j) {
    uint32_t sum = j;
    for (uint32_t i = j; i < length; i += kFoldLength) sum = Mix(a[i], sum);
    out[j] = sum;
  }
}

}  // namespace reprise::sim
