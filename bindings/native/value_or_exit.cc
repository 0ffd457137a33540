#include "bindings/native/value_or_exit.h"

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace reprise::native {

void Exit(const Error& error, const char* file, int line) {
  const std::string_view path(file);
  const size_t slash = path.rfind('/');
  const char* name = file + (slash == std::string_view::npos ? 0 : slash + 1);
  std::fprintf(stderr, "%s:%d: %s\n", name, line, error.message().c_str());
  std::exit(EXIT_FAILURE);
}

}  // namespace reprise::native
