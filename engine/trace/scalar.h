// Numbers that an op takes by value, and how kernels hold them.

#ifndef REPRISE_ENGINE_TRACE_SCALAR_H_
#define REPRISE_ENGINE_TRACE_SCALAR_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace reprise::engine {

enum class NumberType : uint8_t {
  kFloat64,
  kFloat32,
  kFloat16,
  kBFloat16,
  kInt64,
  kInt32,
};

// What an op decides by +-0.5, +-1, +-2 and +-3. Any op may decide by 0, by
// what is infinite and by nan.
enum class Decides : uint8_t {
  kKernels,
  kNothing,
  // The seed or the offset of a generator: an integer of which no value is
  // special, and which kernels hold as it is.
  kNothingAtAll,
};

// A number of an op at its call. Its type is told by other words of the op.
struct Scalar {
  uint32_t word;  // which of the op's words holds it
  NumberType type;
  uint64_t bits;  // as in memory, in the low bytes
  Decides decides = Decides::kKernels;
};

// What stands in an op's words in place of a number that may change: one marker
// for numbers above zero and one for those below, because ops refuse a sign;
// others for those that a half cannot hold (from 65504 on), because ops refuse
// what a dtype cannot hold. None for 0, +-0.5, +-1, +-2, +-3 and nan, by whose
// value ops pick their kernels, nor from 2^31 on. One for all of a generator's.
std::optional<uint64_t> Marker(const Scalar& scalar);
// The scalar has no marker, as one sees at once: by far the most numbers are
// default arguments.
inline bool IsSmallInteger(const Scalar& scalar) {
  return scalar.type == NumberType::kInt64 && scalar.bits <= 3 &&
         scalar.decides != Decides::kNothingAtAll;
}

// A function of a number that kernels hold in place of it.
enum class Encoding : uint8_t {
  kFloat64,
  kNegativeFloat64,
  kInverseFloat64,
  kFloat32Wide,  // rounded to a float32, as a float64
  kNegativeFloat32Wide,
  kInverseFloat32Wide,
  kInt64,
  kNegativeInt64,
  kFloat32,
  kNegativeFloat32,
  kInverseFloat32,  // 1 / v, computed in float32
  kInverseRounded,  // 1 / v, computed in float64
  kInt32,
  kNegativeInt32,
  kBFloat16High,  // and its negative and inverse: above 16 zero bits
  kNegativeBFloat16High,
  kInverseBFloat16High,
  kFloat16Wide,  // and so on: rounded to a float16, as a float32
  kNegativeFloat16Wide,
  kInverseFloat16Wide,
  kFloat16,
  kNegativeFloat16,
  kInverseFloat16,
  kBFloat16,
  kNegativeBFloat16,
  kInverseBFloat16,
};

// The encodings that are `width_bytes` wide: 8, 4 or 2.
std::span<const Encoding> EncodingsOf(uint32_t width_bytes);

// The encoded number; none if it is out of range, or one by which an op may
// pick its kernel.
std::optional<uint64_t> Encode(Encoding encoding, NumberType type,
                               uint64_t bits,
                               Decides decides = Decides::kKernels);

// One of the numbers that may stand at a place, encoded so.
struct ScalarSource {
  uint32_t slot = 0;  // of the op
  NumberType type = NumberType::kFloat64;
  Encoding encoding = Encoding::kFloat64;
  Decides decides = Decides::kKernels;
  bool operator==(const ScalarSource&) const = default;

  std::optional<uint64_t> Encoded(uint64_t bits) const {
    return Encode(encoding, type, bits, decides);
  }
};

// Bytes of a launch's parameters that hold a number of its op. The recordings
// agree with each of `sources`, so that a number is only known to be right
// where all of them say the same.
struct ScalarSite {
  uint32_t op = 0;
  uint32_t launch = 0;  // in the program
  uint32_t offset_bytes = 0;
  uint32_t width_bytes = 0;
  std::vector<ScalarSource> sources;
};

// How a number was encoded in both recordings: it changed too little to be seen
// so. As long as all its encodings of this kind stay, so does every word that
// the recordings show unchanged.
struct ScalarRounding {
  uint32_t op = 0;
  ScalarSource source;
  std::optional<uint64_t> encoded;  // as Encode says
};

// A slot that held the number of an earlier one of its op in both recordings,
// as elements of a list do: nothing tells where each of them stands, so sites
// name the earlier one, and are only known to be right where both hold one
// number.
struct ScalarCopy {
  uint32_t op = 0;
  uint32_t slot = 0;
  uint32_t of = 0;  // the first slot that held it
};

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_TRACE_SCALAR_H_
