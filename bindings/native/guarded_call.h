// Calls of functions of the program's that may throw.

#ifndef REPRISE_BINDINGS_NATIVE_GUARDED_CALL_H_
#define REPRISE_BINDINGS_NATIVE_GUARDED_CALL_H_

#include <exception>
#include <string>

#include "bindings/native/common.h"

namespace reprise::native {

// What `function`, which returns a Status, returns; kInternal with what it
// throws.
template <typename F>
Status GuardedCall(const F& function) {
  const auto fail = [](const std::string& thrown) {
    return base::Fail(Code::kInternal, "the function threw " + thrown);
  };
  try {
    return function();
  } catch (const std::exception& thrown) {
    return fail("'" + std::string(thrown.what()) + "'");
  } catch (...) {
    return fail("what is no std::exception");
  }
}

}  // namespace reprise::native

#endif  // REPRISE_BINDINGS_NATIVE_GUARDED_CALL_H_
