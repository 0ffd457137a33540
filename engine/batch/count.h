// A number of blocks, threads or bytes, from an integer of any type.

#ifndef REPRISE_ENGINE_BATCH_COUNT_H_
#define REPRISE_ENGINE_BATCH_COUNT_H_

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "engine/base/dim3.h"

namespace reprise::engine {

// Keeps the integer that it was made from, so that one that is negative or too
// large can be refused by its value. Reads as a uint32_t, the nearest there is.
class Count {
 public:
  constexpr Count() = default;
  template <typename T>
  requires(std::is_arithmetic_v<T> || std::is_enum_v<T>) constexpr Count(
      T value) {  // NOLINT: counts are written as plain numbers
    constexpr bool kIsCount = !std::is_floating_point_v<T> &&
                              !std::is_same_v<T, bool> &&
                              std::is_convertible_v<T, int64_t>;
    static_assert(kIsCount,
                  "a number of blocks, threads or bytes is an integer");
    if constexpr (kIsCount && std::is_unsigned_v<T> &&
                  sizeof(T) >= sizeof(int64_t)) {
      constexpr auto kMost =
          static_cast<T>(std::numeric_limits<int64_t>::max());
      value_ = static_cast<int64_t>(std::min(value, kMost));
    } else if constexpr (kIsCount) {
      value_ = static_cast<int64_t>(value);
    }
  }

  constexpr operator uint32_t() const {  // NOLINT: reads as a plain number
    constexpr int64_t kMost = std::numeric_limits<uint32_t>::max();
    return static_cast<uint32_t>(std::clamp<int64_t>(value_, 0, kMost));
  }
  // As it was given; of one beyond an int64_t, the largest int64_t.
  constexpr int64_t given() const { return value_; }

 private:
  int64_t value_ = 0;
};

// base::Dim3 as a program gives it.
struct LaunchDim3 {
  Count x = 1;
  Count y = 1;
  Count z = 1;

  constexpr bool operator==(const LaunchDim3&) const = default;
  constexpr base::Dim3 nearest() const { return {x, y, z}; }
  static constexpr LaunchDim3 Of(const base::Dim3& dim) {
    return {dim.x, dim.y, dim.z};
  }
};

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_BATCH_COUNT_H_
