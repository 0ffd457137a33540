// Functions of the interpreter's, for a library that does not link Python.

#ifndef REPRISE_BINDINGS_TORCH_BASE_PYTHON_API_H_
#define REPRISE_BINDINGS_TORCH_BASE_PYTHON_API_H_

#include <dlfcn.h>

namespace reprise::bindings {

// Null where the process has no Python, or one without it.
template <class Signature>
Signature* OfPython(const char* name) {
  return reinterpret_cast<Signature*>(dlsym(RTLD_DEFAULT, name));
}

// The same of torch's own part for Python, which it loads for itself alone.
template <class Signature>
Signature* OfTorchsPython(const char* name) {
  static void* const library =
      dlopen("libtorch_python.so", RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return nullptr;
  return reinterpret_cast<Signature*>(dlsym(library, name));
}

// Tensors, storages and random generators of Python: behind its own two words
// is what they hold (THPVariable, THPStorage, THPGenerator). The package checks
// that.
struct PythonObject {
  void* python[2];
  void* held;
};

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_BASE_PYTHON_API_H_
