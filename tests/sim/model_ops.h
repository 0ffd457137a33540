// The ops of random programs: what each takes, makes and computes.

#ifndef REPRISE_TESTS_SIM_MODEL_OPS_H_
#define REPRISE_TESTS_SIM_MODEL_OPS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/trace/generator.h"
#include "tests/sim/simulated_gpu.h"

namespace reprise::sim {

// Tensors are rows of 32-bit words. Every op mixes all bits of what it reads
// into what it writes, so that no difference is ever lost on the way.
enum class OpKind : uint8_t {
  kScale,       // new = f(a, attribute)
  kCombine,     // new = f(a, b), b repeated or cut to a's length
  kFold,        // new, of eight words: a reduction of a, by way of a workspace
  kTwice,       // new = f(f(a), b) by way of temporaries
  kPair,        // two new: f(a), a reduction of a
  kEach,        // new = f(...f(f(a, n0), n1)...) of the attribute's list
  kSplit,       // two new that share a storage: the halves of f(a)
  kFill,        // new = bytes of the attribute; a length by the attribute
  kClone,       // new = a
  kEmpty,       // new, of a's length, unwritten
  kMutate,      // a = f(a, attribute)
  kAccumulate,  // a = f(a, b)
  kInto,        // a = f(b, c), a is returned
  kHalf,        // a view of a's second half
  kDraw,        // new = f(a, random numbers), one or two by the attribute,
                // none where that is 0
  kRead,        // a cut: the host looks
  kUpload,      // a cut: a = words that the host made of the attribute
  kRaise,       // new = f(a); raises if the attribute is 1
  kBring,       // new = words of the host's, others at each call; a length by
                // the attribute
};
inline constexpr size_t kOpKinds = 19;

// Its attribute may be a slot: kernels hold it, but for those of kTwice, which
// pay no heed to it.
constexpr bool HasNumber(OpKind kind) {
  return kind == OpKind::kScale || kind == OpKind::kTwice ||
         kind == OpKind::kPair || kind == OpKind::kMutate ||
         kind == OpKind::kEach;
}

// What an op is told beside its inputs: the attribute, or of kEach a list that
// mostly holds the attribute alone.
inline constexpr size_t kListLength = 70;
std::vector<uint32_t> NumbersOf(OpKind kind, uint32_t attribute);

struct OpTraits {
  const char* name;
  size_t inputs;
  size_t results;
  bool writes_first;
  const char* cut;
};
const OpTraits& TraitsOf(OpKind kind);

inline constexpr std::array<size_t, 3> kLengths = {8, 40, 200};
inline constexpr size_t kFoldLength = 8;
inline constexpr size_t kWorkspaceBytes = 4 * kLengths.back();

// The length of each new result, by those of the inputs.
std::vector<size_t> ResultLengths(OpKind kind, std::span<const size_t> inputs,
                                  uint32_t attribute);

// The functions of the comments above.
constexpr uint32_t Mix(uint32_t word, uint32_t with) {
  const uint32_t mixed = (word ^ (with * 0x85EBCA6Bu + 1)) * 0x9E3779B1u;
  return mixed ^ mixed >> 15;
}
inline constexpr uint32_t kNoAttribute = 0x51;  // of ops that take none

// The generator of a stream's device. What is drawn is a function of where it
// is, which kernels are told.
struct ModelGenerator {
  engine::GeneratorState state{.seed = 67280421310721};

  void Seed(uint64_t seed) { state = {.seed = seed}; }
  // As many numbers as `length` words need: where it was before.
  engine::GeneratorState Draw(size_t length) {
    const engine::GeneratorState before = state;
    state = state.After(4 * (1 + length / 64));
    return before;
  }
  static uint32_t NumberAt(const engine::GeneratorState& at) {
    return Mix(Mix(static_cast<uint32_t>(at.seed),
                   static_cast<uint32_t>(at.seed >> 32)),
               static_cast<uint32_t>(at.offset));
  }
};
// Of kDraw.
constexpr int DrawsOf(uint32_t attribute) {
  return attribute == 0 ? 0 : attribute % 3 == 0 ? 2 : 1;
}

// How an op's work is enqueued: `result` gives the memory of result r when the
// op comes to make it.
struct OpSink {
  virtual ~OpSink() = default;
  virtual uint64_t Result(size_t index, size_t size_bytes) = 0;
  virtual uint64_t Temporary(size_t size_bytes) = 0;
  virtual void FreeTemporary(uint64_t address) = 0;
  // Of kWorkspaceBytes; 0 where kernels need none.
  virtual uint64_t Workspace() { return 0; }
  // Of kBring: a number that tells the words. No recorded work brings any.
  virtual uint32_t Bring() { return 0; }
  virtual void Fill(uint64_t to, unsigned char byte, size_t size_bytes) = 0;
  virtual void Copy(uint64_t to, uint64_t from, size_t size_bytes) = 0;
  virtual void Write(uint64_t to, const void* from, size_t size_bytes) = 0;
  // The kernels: see model_ops.cc.
  virtual void Scale(uint64_t out, uint32_t length, uint32_t attribute,
                     uint64_t a) = 0;
  virtual void Draw(uint64_t out, uint32_t length, uint64_t a,
                    const engine::GeneratorState& at) = 0;
  virtual void Each(uint64_t out, uint32_t length, uint64_t a,
                    std::span<const uint32_t> numbers) = 0;
  virtual void Combine(uint64_t out, uint32_t length, uint64_t a, uint64_t b,
                       uint32_t b_length) = 0;
  virtual void Fold(uint64_t out, uint64_t a, uint32_t length) = 0;
};

struct OpInput {
  uint64_t address;
  size_t length;
};

// Enqueues the work of one op that is told `numbers`.
void EnqueueOp(OpKind kind, std::span<const OpInput> inputs,
               std::span<const uint32_t> numbers, ModelGenerator& generator,
               OpSink& sink);

// Kernels as the device has them, and as functions of the host. kScale's
// parameters are a struct with bytes that nobody wrote.
struct ScaleParams {
  uint64_t out;
  uint32_t length;
  uint32_t unwritten;
  uint64_t a;
  uint32_t attribute;
};
void DoScale(ScaleParams params);
// Where the generator is, as torch's kernels have it: of the last word one byte
// is written, a flag, which makes an address of the seed.
struct DrawState {
  uint64_t seed;
  uint64_t offset;
  uint64_t more;
  uint64_t flag_and_unwritten;
};
void DoDraw(uint64_t out, uint32_t length, uint64_t a, DrawState state);
// Some of kEach's numbers: the others are the next launch's.
inline constexpr size_t kNumbersALaunch = 16;
struct EachParams {
  uint64_t out;
  uint64_t a;
  uint32_t length;
  uint32_t count;
  uint32_t numbers[kNumbersALaunch];  // no more than `count` are written
};
void DoEach(EachParams params);
void DoCombine(uint64_t out, uint32_t length, uint64_t a, uint64_t b,
               uint32_t b_length);
void DoFold(uint64_t out, uint64_t a, uint32_t length);

}  // namespace reprise::sim

#endif  // REPRISE_TESTS_SIM_MODEL_OPS_H_
