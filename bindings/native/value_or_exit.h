// For small programs: a value, or the end of the program.

#ifndef REPRISE_BINDINGS_NATIVE_VALUE_OR_EXIT_H_
#define REPRISE_BINDINGS_NATIVE_VALUE_OR_EXIT_H_

#include <type_traits>
#include <utility>

#include "bindings/native/common.h"

namespace reprise {

namespace native {
[[noreturn]] REPRISE_EXPORT void Exit(const Error& error, const char* file,
                                      int line);
}  // namespace native

// The value of a Result; nothing of a Status that is no error:
//
//   auto runtime = reprise::ValueOrExit(reprise::Runtime::Create({}));
//   reprise::ValueOrExit(batch.Submit());
//
// Of an error it writes file, line and message of the call to the standard
// error and ends the process with status 1, by std::exit: for examples, tools
// and tests. Libraries hand errors on with REPRISE_ASSIGN_OR_RETURN and
// REPRISE_RETURN_IF_ERROR. `file` and `line` are the caller's by themselves.
// Thread-safe.
template <typename T>
T ValueOrExit(Result<T> result, const char* file = __builtin_FILE(),
              int line = __builtin_LINE()) {
  if (!result) native::Exit(result.error(), file, line);
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

}  // namespace reprise

#endif  // REPRISE_BINDINGS_NATIVE_VALUE_OR_EXIT_H_
