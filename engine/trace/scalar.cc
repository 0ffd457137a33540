#include "engine/trace/scalar.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "engine/base/float16.h"

namespace reprise::engine {
namespace {

using base::FromBFloat16;
using base::FromFloat16;

// Quiet nans whose payload no program makes.
constexpr uint64_t kPositive = 0x7ffc'52e9'1b07'd3a6;
constexpr uint64_t kLargePositive = 0x7ffd'52e9'1b07'd3a6;
constexpr uint64_t kAnyInteger = 0x7ffe'52e9'1b07'd3a6;
constexpr uint64_t kSign = uint64_t{1} << 63;

constexpr double kLargestHalf = 65504;

// A number with all its digits: as an integer if its type is one.
struct Number {
  bool integral = false;
  int64_t integer = 0;
  double real = 0;
};

// To the nearest, ties to even.
uint16_t ToBFloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// To the nearest, ties to even; infinity from 65520 on.
uint16_t ToFloat16(float value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const float size = std::fabs(value);
  if (!(size < 65520.0f)) return sign | 0x7c00;
  int exponent = 0;
  std::frexp(size, &exponent);
  // The place of the last digit that is kept.
  const int last = std::max(exponent - 11, -24);
  const auto digits =
      static_cast<uint32_t>(std::nearbyint(std::ldexp(size, -last)));
  // A carry goes on into the exponent.
  const uint32_t biased =
      last == -24 ? digits : (static_cast<uint32_t>(last + 24) << 10) + digits;
  return static_cast<uint16_t>(sign | biased);
}

Number NumberOf(NumberType type, uint64_t bits) {
  const auto integer = [](int64_t value) {
    return Number{true, value, static_cast<double>(value)};
  };
  switch (type) {
    case NumberType::kFloat64:
      return {.real = std::bit_cast<double>(bits)};
    case NumberType::kFloat32:
      return {.real = std::bit_cast<float>(static_cast<uint32_t>(bits))};
    case NumberType::kFloat16:
      return {.real = FromFloat16(static_cast<uint16_t>(bits))};
    case NumberType::kBFloat16:
      return {.real = FromBFloat16(static_cast<uint16_t>(bits))};
    case NumberType::kInt64:
      return integer(static_cast<int64_t>(bits));
    case NumberType::kInt32:
      return integer(static_cast<int32_t>(bits));
  }
  return {};
}

bool IsOrdinary(double value, Decides decides = Decides::kKernels) {
  const double size = std::fabs(value);
  if (!std::isfinite(value) || size == 0) return false;
  return decides == Decides::kNothing ||
         (size != 0.5 && size != 1 && size != 2 && size != 3);
}

// The bits of `value` in that many low bytes.
using Bits = std::optional<uint64_t>;

Bits Float64(double value, Decides decides) {
  if (!IsOrdinary(value, decides)) return std::nullopt;
  return std::bit_cast<uint64_t>(value);
}

Bits Float32(float value, Decides decides) {
  if (!IsOrdinary(value, decides)) return std::nullopt;
  return std::bit_cast<uint32_t>(value);
}

Bits Float16(float value, Decides decides) {
  const uint16_t bits = ToFloat16(value);
  if (!IsOrdinary(FromFloat16(bits), decides)) return std::nullopt;
  return bits;
}

Bits BFloat16(float value, Decides decides) {
  if (!std::isfinite(value)) return std::nullopt;
  const uint16_t bits = ToBFloat16(value);
  if (!IsOrdinary(FromBFloat16(bits), decides)) return std::nullopt;
  return bits;
}

Bits Float16Wide(float value, Decides decides) {
  const Bits bits = Float16(value, decides);
  if (!bits.has_value()) return std::nullopt;
  return std::bit_cast<uint32_t>(FromFloat16(static_cast<uint16_t>(*bits)));
}

Bits Float32Wide(float value, Decides decides) {
  if (!IsOrdinary(value, decides)) return std::nullopt;
  return std::bit_cast<uint64_t>(static_cast<double>(value));
}

Bits BFloat16High(float value, Decides decides) {
  const Bits bits = BFloat16(value, decides);
  if (!bits.has_value()) return std::nullopt;
  return *bits << 16;
}

// Towards zero, as a cast does.
Bits Integer(const Number& number, bool negative, int64_t most,
             Decides decides) {
  int64_t value = number.integer;
  if (!number.integral) {
    if (!(std::fabs(number.real) < 0x1p62)) return std::nullopt;
    value = static_cast<int64_t>(number.real);
  }
  if (value > most || value < -most) return std::nullopt;
  if (!IsOrdinary(static_cast<double>(value), decides)) return std::nullopt;
  if (negative) value = -value;
  return most > std::numeric_limits<int32_t>::max()
             ? static_cast<uint64_t>(value)
             : static_cast<uint32_t>(value);
}

// An encoding is a change of the number and the form that the result is in.
enum class Change : uint8_t { kNone, kNegative, kInverse };
enum class Form : uint8_t {
  kFloat64,
  kFloat32Wide,
  kInt64,
  kFloat32,
  kFloat32Rounded,  // changed as a float64, then a float32
  kInt32,
  kBFloat16High,
  kFloat16Wide,
  kFloat16,
  kBFloat16,
};

Change ChangeOf(Encoding encoding) {
  switch (encoding) {
    case Encoding::kFloat64:
    case Encoding::kFloat32Wide:
    case Encoding::kInt64:
    case Encoding::kFloat32:
    case Encoding::kInt32:
    case Encoding::kBFloat16High:
    case Encoding::kFloat16Wide:
    case Encoding::kFloat16:
    case Encoding::kBFloat16:
      return Change::kNone;
    case Encoding::kNegativeFloat64:
    case Encoding::kNegativeFloat32Wide:
    case Encoding::kNegativeInt64:
    case Encoding::kNegativeFloat32:
    case Encoding::kNegativeInt32:
    case Encoding::kNegativeBFloat16High:
    case Encoding::kNegativeFloat16Wide:
    case Encoding::kNegativeFloat16:
    case Encoding::kNegativeBFloat16:
      return Change::kNegative;
    case Encoding::kInverseFloat64:
    case Encoding::kInverseFloat32Wide:
    case Encoding::kInverseFloat32:
    case Encoding::kInverseRounded:
    case Encoding::kInverseBFloat16High:
    case Encoding::kInverseFloat16Wide:
    case Encoding::kInverseFloat16:
    case Encoding::kInverseBFloat16:
      return Change::kInverse;
  }
  return Change::kNone;
}

Form FormOf(Encoding encoding) {
  switch (encoding) {
    case Encoding::kFloat64:
    case Encoding::kNegativeFloat64:
    case Encoding::kInverseFloat64:
      return Form::kFloat64;
    case Encoding::kFloat32Wide:
    case Encoding::kNegativeFloat32Wide:
    case Encoding::kInverseFloat32Wide:
      return Form::kFloat32Wide;
    case Encoding::kInt64:
    case Encoding::kNegativeInt64:
      return Form::kInt64;
    case Encoding::kFloat32:
    case Encoding::kNegativeFloat32:
    case Encoding::kInverseFloat32:
      return Form::kFloat32;
    case Encoding::kInverseRounded:
      return Form::kFloat32Rounded;
    case Encoding::kInt32:
    case Encoding::kNegativeInt32:
      return Form::kInt32;
    case Encoding::kBFloat16High:
    case Encoding::kNegativeBFloat16High:
    case Encoding::kInverseBFloat16High:
      return Form::kBFloat16High;
    case Encoding::kFloat16Wide:
    case Encoding::kNegativeFloat16Wide:
    case Encoding::kInverseFloat16Wide:
      return Form::kFloat16Wide;
    case Encoding::kFloat16:
    case Encoding::kNegativeFloat16:
    case Encoding::kInverseFloat16:
      return Form::kFloat16;
    case Encoding::kBFloat16:
    case Encoding::kNegativeBFloat16:
    case Encoding::kInverseBFloat16:
      return Form::kBFloat16;
  }
  return Form::kFloat64;
}

template <typename Real>
Real Changed(Real value, Change change) {
  switch (change) {
    case Change::kNone:
      return value;
    case Change::kNegative:
      return -value;
    case Change::kInverse:
      return 1 / value;
  }
  return value;
}

}  // namespace

std::optional<uint64_t> Marker(const Scalar& scalar) {
  if (IsSmallInteger(scalar)) return std::nullopt;
  if (scalar.decides == Decides::kNothingAtAll) return kAnyInteger;
  const double value = NumberOf(scalar.type, scalar.bits).real;
  const double size = std::fabs(value);
  if (!IsOrdinary(value) || size >= 0x1p31) return std::nullopt;
  const uint64_t marker = size > kLargestHalf ? kLargePositive : kPositive;
  return value > 0 ? marker : marker | kSign;
}

std::span<const Encoding> EncodingsOf(uint32_t width_bytes) {
  using enum Encoding;
  static constexpr Encoding kEight[] = {
      kFloat64,     kNegativeFloat64,     kInverseFloat64,
      kFloat32Wide, kNegativeFloat32Wide, kInverseFloat32Wide,
      kInt64,       kNegativeInt64};
  static constexpr Encoding kFour[] = {kFloat32,
                                       kNegativeFloat32,
                                       kInverseFloat32,
                                       kInverseRounded,
                                       kInt32,
                                       kNegativeInt32,
                                       kBFloat16High,
                                       kNegativeBFloat16High,
                                       kInverseBFloat16High,
                                       kFloat16Wide,
                                       kNegativeFloat16Wide,
                                       kInverseFloat16Wide};
  static constexpr Encoding kTwo[] = {kFloat16,          kNegativeFloat16,
                                      kInverseFloat16,   kBFloat16,
                                      kNegativeBFloat16, kInverseBFloat16};
  switch (width_bytes) {
    case 8:
      return kEight;
    case 4:
      return kFour;
    case 2:
      return kTwo;
  }
  return {};
}

std::optional<uint64_t> Encode(Encoding encoding, NumberType type,
                               uint64_t bits, Decides decides) {
  if (decides == Decides::kNothingAtAll) {
    if (encoding != Encoding::kInt64) return std::nullopt;
    return bits;
  }
  constexpr int64_t kMost32 = std::numeric_limits<int32_t>::max();
  constexpr int64_t kMost64 = std::numeric_limits<int64_t>::max();
  const Change change = ChangeOf(encoding);
  const Number number = NumberOf(type, bits);
  const double wide = number.real;
  // An integer is rounded once.
  const float narrow = number.integral ? static_cast<float>(number.integer)
                                       : static_cast<float>(wide);
  switch (FormOf(encoding)) {
    case Form::kFloat64:
      return Float64(Changed(wide, change), decides);
    case Form::kFloat32Wide:
      return Float32Wide(Changed(narrow, change), decides);
    case Form::kInt64:
      return Integer(number, change == Change::kNegative, kMost64, decides);
    case Form::kFloat32:
      return Float32(Changed(narrow, change), decides);
    case Form::kFloat32Rounded:
      return Float32(static_cast<float>(Changed(wide, change)), decides);
    case Form::kInt32:
      return Integer(number, change == Change::kNegative, kMost32, decides);
    case Form::kBFloat16High:
      return BFloat16High(Changed(narrow, change), decides);
    case Form::kFloat16Wide:
      return Float16Wide(Changed(narrow, change), decides);
    case Form::kFloat16:
      return Float16(Changed(narrow, change), decides);
    case Form::kBFloat16:
      return BFloat16(Changed(narrow, change), decides);
  }
  return std::nullopt;
}

}  // namespace reprise::engine
