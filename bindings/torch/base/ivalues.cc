#include "bindings/torch/base/ivalues.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

namespace reprise::bindings {

bool SameContent(const at::Tensor& a, const at::Tensor& b) {
  return a.nbytes() == b.nbytes() &&
         std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

bool SameBits(double a, double b) {
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

bool SameValue(const c10::IValue& a, const c10::IValue& b) {
  if (a.tagKind() != b.tagKind()) return false;
  if (a.isNone()) return true;
  if (a.isDouble()) return SameBits(a.toDouble(), b.toDouble());
  if (a.isComplexDouble()) {
    const auto x = a.toComplexDouble();
    const auto y = b.toComplexDouble();
    return SameBits(x.real(), y.real()) && SameBits(x.imag(), y.imag());
  }
  if (a.isInt()) return a.toInt() == b.toInt();
  if (a.isBool()) return a.toBool() == b.toBool();
  if (a.isString()) return a.toStringRef() == b.toStringRef();
  if (a.isDevice()) return a.toDevice() == b.toDevice();
  if (a.isList()) {
    return std::ranges::equal(a.toListRef(), b.toListRef(), SameValue);
  }
  return a.is(b);  // generators, objects
}

}  // namespace reprise::bindings
