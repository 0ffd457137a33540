// Memory, with what a launch does with it.

#ifndef REPRISE_BINDINGS_NATIVE_ANNOTATED_H_
#define REPRISE_BINDINGS_NATIVE_ANNOTATED_H_

#include <cstddef>
#include <span>
#include <type_traits>

#include "bindings/native/buffer.h"

namespace reprise {

namespace native {
// What a launch does with `count` elements at `data`.
template <typename T, bool kReads, bool kWrites>
struct Annotated {
  static constexpr bool kWritten = kWrites;
  T* data;
  size_t count;
};
template <typename A>
inline constexpr bool kIsAnnotated = false;
template <typename T, bool kReads, bool kWrites>
inline constexpr bool kIsAnnotated<Annotated<T, kReads, kWrites>> = true;
template <typename A>
inline constexpr bool kIsOut = false;
template <typename T>
inline constexpr bool kIsOut<Annotated<T, false, true>> = true;
template <typename A>
inline constexpr bool kIsBuffer = false;
template <typename T>
inline constexpr bool kIsBuffer<Buffer<T>> = true;

// In static_asserts of what is always wrong.
template <typename...>
inline constexpr bool kNever = false;

template <typename T, bool kReads>
Annotated<std::remove_const_t<T>, kReads, true> Written(T* data, size_t count) {
  static_assert(!std::is_const_v<T>,
                "Out and InOut take memory that is not const");
  if constexpr (!std::is_const_v<T>) return {data, count};
  return {};
}
}  // namespace native

// Arguments that say what the launch does with memory: a pointer and a number
// of elements, a Buffer, or a span, as of a part of a Buffer
// (buffer.span().subspan(...)). A launch whose pointers are all annotated waits
// only for launches of its batch that it conflicts with; any other one keeps
// its place in the program's order.
template <typename T>
native::Annotated<const T, true, false> In(const T* data, size_t count) {
  return {data, count};
}
template <typename T>
auto Out(T* data, size_t count) {
  return native::Written<T, false>(data, count);
}
template <typename T>
auto InOut(T* data, size_t count) {
  return native::Written<T, true>(data, count);
}
template <typename T>
auto In(const Buffer<T>& buffer) {
  return In(static_cast<const T*>(buffer.data()), buffer.size());
}
template <typename T>
auto Out(const Buffer<T>& buffer) {
  return Out(buffer.data(), buffer.size());
}
template <typename T>
auto InOut(const Buffer<T>& buffer) {
  return InOut(buffer.data(), buffer.size());
}
template <typename T, size_t kExtent>
auto In(std::span<T, kExtent> part) {
  return In(static_cast<const T*>(part.data()), part.size());
}
template <typename T, size_t kExtent>
auto Out(std::span<T, kExtent> part) {
  return Out(part.data(), part.size());
}
template <typename T, size_t kExtent>
auto InOut(std::span<T, kExtent> part) {
  return InOut(part.data(), part.size());
}

}  // namespace reprise

#endif  // REPRISE_BINDINGS_NATIVE_ANNOTATED_H_
