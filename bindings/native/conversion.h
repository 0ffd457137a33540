// An argument becomes a parameter without a change of its value, or not at all.

#ifndef REPRISE_BINDINGS_NATIVE_CONVERSION_H_
#define REPRISE_BINDINGS_NATIVE_CONVERSION_H_

#include <limits>
#include <type_traits>

#include "bindings/native/annotated.h"
#include "engine/batch/count.h"

namespace reprise::native {

template <typename T>
inline constexpr bool kIsInteger =
    std::is_integral_v<T> && !std::is_same_v<T, bool>;

// What stands for a number: its value may be compared with the parameter's.
// An enumerator of an unscoped enum is one, as it converts by itself.
template <typename A>
inline constexpr bool kIsNumber = std::is_arithmetic_v<A> ||
                                  std::is_same_v<A, engine::Count> ||
                                  (std::is_enum_v<A> &&
                                   std::is_convertible_v<A, long long>);

template <typename A>
constexpr auto NumberOf(const A& argument) {
  if constexpr (std::is_same_v<A, engine::Count>) {
    return argument.given();
  } else if constexpr (std::is_enum_v<A>) {
    return static_cast<std::underlying_type_t<A>>(argument);
  } else {
    return argument;
  }
}

template <typename P, typename A>
concept ConvertsInBraces = requires(const A& argument) {
  P{argument};
};

// Whether an argument of type A may be given for a parameter of type P, as far
// as types tell; else the program does not compile, and one sentence says why.
template <typename P, typename A>
constexpr bool AssertConverts() {
  if constexpr (std::is_same_v<P, A>) {
    return true;
  } else if constexpr (std::is_same_v<P, bool>) {
    static_assert(kNever<A>, "a bool parameter takes a bool");
    return false;
  } else if constexpr (kIsInteger<P> && std::is_floating_point_v<A>) {
    static_assert(kNever<A>,
                  "an integer parameter takes an integer: round a "
                  "floating-point number before");
    return false;
  } else if constexpr (kIsNumber<A> && std::is_arithmetic_v<P>) {
    return true;  // Convert compares the values
  } else if constexpr (!std::is_convertible_v<const A&, P>) {
    static_assert(kNever<A>,
                  "the argument's type does not fit the parameter's");
    return false;
  } else if constexpr (kIsNumber<A> != std::is_arithmetic_v<P>) {
    // A class makes the conversion: braces forbid it to change a number.
    constexpr bool kKeepsValue = ConvertsInBraces<P, A>;
    static_assert(kKeepsValue,
                  "the argument's conversion may change its value: give a "
                  "value of the parameter's own type");
    return kKeepsValue;
  } else {
    return true;
  }
}

template <typename P>
struct Converted {
  P value;
  bool is_exact;
};

// `argument` as a P, and whether it has the same value. Floating-point numbers
// are rounded to the parameter's precision; those that would become infinite or
// zero are not exact.
template <typename P, typename A>
constexpr Converted<P> Convert(const A& argument) {
  if constexpr (std::is_same_v<P, A> || !kIsNumber<A> ||
                !std::is_arithmetic_v<P>) {
    return {argument, true};
  } else {
    const auto number = NumberOf(argument);
    using Number = std::remove_const_t<decltype(number)>;
    const P value = static_cast<P>(number);
    if constexpr (std::is_floating_point_v<Number>) {
      constexpr P kMost = std::numeric_limits<P>::max();
      const bool was_finite = number - number == 0;
      const bool is_finite = value <= kMost && value >= -kMost;
      return {value, (is_finite || !was_finite) && (value != 0 || number == 0)};
    } else if constexpr (std::numeric_limits<Number>::digits <=
                             std::numeric_limits<P>::digits &&
                         (std::is_signed_v<P> || std::is_unsigned_v<Number>)) {
      return {value, true};  // every value of the type
    } else if constexpr (std::is_floating_point_v<P>) {
      using Wide = std::conditional_t<std::numeric_limits<Number>::digits <= 53,
                                      double, long double>;
      return {value, static_cast<Wide>(value) == static_cast<Wide>(number)};
    } else {
      const bool same_sign = (value < P{}) == (number < Number{});
      return {value, same_sign && static_cast<Number>(value) == number};
    }
  }
}

}  // namespace reprise::native

#endif  // REPRISE_BINDINGS_NATIVE_CONVERSION_H_
