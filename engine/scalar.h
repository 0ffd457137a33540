// Numbers that an op takes by value, and how kernels hold them.

#ifndef REPRISE_ENGINE_SCALAR_H_
#define REPRISE_ENGINE_SCALAR_H_

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

// A number of an op at its call. Its type is told by other words of the op.
struct Scalar {
  uint32_t word;  // which of the op's words holds it
  NumberType type;
  uint64_t bits;  // as in memory, in the low bytes
};

// What stands in an op's words in place of a number that may change: one marker
// for numbers above zero and one for those below, because ops refuse a sign;
// others for those that a half cannot hold (from 65504 on), because ops refuse
// what a dtype cannot hold. None for 0, +-0.5, +-1, +-2, +-3 and nan, by whose
// value ops pick their kernels, nor from 2^31 on.
std::optional<uint64_t> Marker(const Scalar& scalar);

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

// The encoded number; none if it is out of range, or is one of those that have
// no marker: an op may pick its kernel by the encoded number.
std::optional<uint64_t> Encode(Encoding encoding, NumberType type,
                               uint64_t bits);

// One of the numbers that may stand at a place, encoded so.
struct ScalarSource {
  uint32_t slot = 0;  // of the op
  NumberType type = NumberType::kFloat64;
  Encoding encoding = Encoding::kFloat64;
  bool operator==(const ScalarSource&) const = default;
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

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_SCALAR_H_
