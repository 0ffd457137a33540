// Of what type a parameter is, for who has its bytes alone.

#ifndef REPRISE_ENGINE_BATCH_PARAM_TYPE_H_
#define REPRISE_ENGINE_BATCH_PARAM_TYPE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

namespace reprise::engine {

// As the compiler spells it.
template <typename T>
constexpr std::string_view TypeName() {
  // "... [with T = float; ...]" or "... [T = float]".
  const std::string_view function = __PRETTY_FUNCTION__;
  const size_t begin = function.find("T = ") + 4;
  const size_t semicolon = function.find(';', begin);
  const size_t end =
      semicolon != std::string_view::npos ? semicolon : function.rfind(']');
  return function.substr(begin, end - begin);
}

// A type, as far as it decides whether an argument's bytes may be a
// parameter's. Compared by names: programs are put together from parts that
// have no type_info in common. Its text is the code's that made it.
struct ParamType {
  enum class Kind : uint8_t {
    kUnknown,  // nobody has said
    kInteger,  // no bool: of one size they convert without changing a bit
    kPointer,
    kOther
  };

  Kind kind = Kind::kUnknown;
  bool to_const = false;  // of a pointer
  uint32_t size_bytes = 0;
  std::string_view name = {};  // of a pointer: of what it points to

  template <typename T>
  static constexpr ParamType Of() {
    if constexpr (std::is_same_v<T, std::nullptr_t>) {
      return {Kind::kPointer, false, sizeof(T), TypeName<void>()};
    } else if constexpr (std::is_pointer_v<T>) {
      using Pointee = std::remove_pointer_t<T>;
      return {Kind::kPointer, std::is_const_v<Pointee>, sizeof(T),
              TypeName<std::remove_cv_t<Pointee>>()};
    } else {
      return {std::is_integral_v<T> && !std::is_same_v<T, bool> ? Kind::kInteger
                                                                : Kind::kOther,
              false, sizeof(T), TypeName<T>()};
    }
  }

  // An argument of that type is taken as it is. What is known of neither is
  // their size.
  constexpr bool Takes(const ParamType& argument) const {
    if (size_bytes != argument.size_bytes) return false;
    if (kind == Kind::kUnknown) return true;
    if (kind != argument.kind) return false;
    if (kind == Kind::kInteger) return true;
    if (kind == Kind::kOther) return name == argument.name;
    return (to_const || !argument.to_const) &&
           (name == argument.name || name == TypeName<void>());
  }

  // For messages: "const float*".
  std::string Spelled() const {
    std::string text(to_const ? "const " : "");
    text.append(name);
    if (kind == Kind::kPointer) text.append("*");
    return text;
  }
};

// One whose text is its own. Thread-compatible value.
class KeptParamType {
 public:
  explicit KeptParamType(const ParamType& type)
      : name_(type.name), type_(type) {}

  ParamType type() const {
    ParamType type = type_;
    type.name = name_;
    return type;
  }

 private:
  std::string name_;
  ParamType type_;  // but for its name
};

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_BATCH_PARAM_TYPE_H_
