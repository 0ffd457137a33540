// How the core reports failure: a value, never an exception.

#ifndef REPRISE_ENGINE_BASE_STATUS_H_
#define REPRISE_ENGINE_BASE_STATUS_H_

#include <functional>
#include <string>
#include <tl/expected.hpp>
#include <type_traits>
#include <utility>

namespace reprise::base {

// A closed set, chosen by what the caller can do next.
enum class Code {
  kInvalidArgument,     // fix the input
  kFailedPrecondition,  // not in this state; retry after something changed
  kUnavailable,         // this machine lacks something; go on without it
  kResourceExhausted,   // free memory, then retry
  kInternal,            // a driver call or an invariant failed
};

inline const char* ToString(Code code) {
  switch (code) {
    case Code::kInvalidArgument:
      return "invalid argument";
    case Code::kFailedPrecondition:
      return "failed precondition";
    case Code::kUnavailable:
      return "unavailable";
    case Code::kResourceExhausted:
      return "resource exhausted";
    case Code::kInternal:
      return "internal error";
  }
  return "unknown";
}

// A code for programs and a sentence for people: lower case, no full stop, with
// the offending value and what to do. Thread-compatible value.
class [[nodiscard]] Error {
 public:
  Error(Code code, std::string message)
      : code_(code), message_(std::move(message)) {}

  Code code() const { return code_; }
  const std::string& message() const { return message_; }

  // The same error, saying also where it happened.
  Error In(const std::string& place) const {
    return Error(code_, place + ": " + message_);
  }

 private:
  Code code_;
  std::string message_;
};

// A value, or the error in its place. A type of its own, so that the compiler
// warns of every call whose result nobody looks at; what is dropped on purpose
// is cast to void. Thread-compatible value.
template <typename T>
class [[nodiscard]] Result : public tl::expected<T, Error> {
  using Base = tl::expected<T, Error>;

 public:
  Result() = default;
  // From all that tl::expected is made from: a value, the unexpected, a result
  // of what a T is made from.
  template <typename U = T,
            std::enable_if_t<!std::is_same_v<std::remove_cvref_t<U>, Result> &&
                                 std::is_constructible_v<Base, U>,
                             int> = 0>
  explicit(!std::is_convertible_v<U, Base>) Result(U&& from)
      : Base(std::forward<U>(from)) {}

  // What `next`, which gives a result, makes of the value; else the error.
  // tl::expected's own takes no type but its own for a result.
  template <typename F>
  auto and_then(F&& next) const& {
    return Then(*this, std::forward<F>(next));
  }
  template <typename F>
  auto and_then(F&& next) && {
    return Then(std::move(*this), std::forward<F>(next));
  }

 private:
  template <typename Self, typename F>
  static auto Then(Self&& self, F&& next) {
    if constexpr (std::is_void_v<T>) {
      using Next = std::invoke_result_t<F>;
      return self ? std::invoke(std::forward<F>(next))
                  : Next(tl::unexpected(std::forward<Self>(self).error()));
    } else {
      using Next = std::invoke_result_t<F, decltype(*std::forward<Self>(self))>;
      return self
                 ? std::invoke(std::forward<F>(next), *std::forward<Self>(self))
                 : Next(tl::unexpected(std::forward<Self>(self).error()));
    }
  }
};

using Status = Result<void>;

// What a function returns in place of its Status or Result.
inline tl::unexpected<Error> Fail(Code code, std::string message) {
  return tl::unexpected<Error>(Error(code, std::move(message)));
}

}  // namespace reprise::base

#define REPRISE_CONCAT_INNER(a, b) a##b
#define REPRISE_CONCAT(a, b) REPRISE_CONCAT_INNER(a, b)

// Leaves the enclosing function with the error of `expr`, if it has one.
#define REPRISE_RETURN_IF_ERROR(expr)                              \
  do {                                                             \
    if (auto reprise_status = (expr); !reprise_status.has_value()) \
      return ::tl::unexpected<::reprise::base::Error>(             \
          std::move(reprise_status).error());                      \
  } while (false)

// Assigns the value of `expr` to `lhs`, or leaves with its error.
#define REPRISE_ASSIGN_OR_RETURN(lhs, expr)                                 \
  REPRISE_ASSIGN_OR_RETURN_INNER(REPRISE_CONCAT(reprise_result_, __LINE__), \
                                 lhs, expr)
#define REPRISE_ASSIGN_OR_RETURN_INNER(result, lhs, expr) \
  auto result = (expr);                                   \
  if (!result.has_value())                                \
    return ::tl::unexpected<::reprise::base::Error>(      \
        std::move(result).error());                       \
  lhs = std::move(result).value()

#endif  // REPRISE_ENGINE_BASE_STATUS_H_
