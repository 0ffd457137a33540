// Functions of the interpreter's, for a library that does not link Python.

#ifndef REPRISE_BINDINGS_TORCH_PYTHON_API_H_
#define REPRISE_BINDINGS_TORCH_PYTHON_API_H_

#include <dlfcn.h>

namespace reprise::bindings {

// Null where the process has no Python, or one without it.
template <class Signature>
Signature* OfPython(const char* name) {
  return reinterpret_cast<Signature*>(dlsym(RTLD_DEFAULT, name));
}

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_PYTHON_API_H_
