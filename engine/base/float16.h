// Floats of 16 bits, read on the host.

#ifndef REPRISE_ENGINE_BASE_FLOAT16_H_
#define REPRISE_ENGINE_BASE_FLOAT16_H_

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace reprise::base {

inline float FromBFloat16(uint16_t bits) {
  return std::bit_cast<float>(uint32_t{bits} << 16);
}

inline float FromFloat16(uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const int fraction = bits & 1023;
  float value = 0;
  if (exponent == 31) {
    value = fraction == 0 ? std::numeric_limits<float>::infinity()
                          : std::numeric_limits<float>::quiet_NaN();
  } else if (exponent == 0) {
    value = std::ldexp(static_cast<float>(fraction), -24);
  } else {
    value = std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
  }
  return (bits & 0x8000) != 0 ? -value : value;
}

}  // namespace reprise::base

#endif  // REPRISE_ENGINE_BASE_FLOAT16_H_
