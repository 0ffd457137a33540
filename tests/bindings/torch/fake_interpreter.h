// The interpreter of Python that torch finds in a test.

#ifndef REPRISE_TESTS_BINDINGS_TORCH_FAKE_INTERPRETER_H_
#define REPRISE_TESTS_BINDINGS_TORCH_FAKE_INTERPRETER_H_

#include <c10/core/impl/PyInterpreter.h>
#include <c10/core/impl/PyInterpreterHooks.h>

namespace reprise::bindings {

// Null: there is none. The test sets it.
inline c10::impl::PyInterpreter* fake_interpreter = nullptr;

}  // namespace reprise::bindings

namespace c10::impl {

// By this name torch finds it. Included once a program, as it is registered.
class PyInterpreterHooks final : public PyInterpreterHooksInterface {
 public:
  explicit PyInterpreterHooks(PyInterpreterHooksArgs = {}) {}
  PyInterpreter* getPyInterpreter() const override {
    return reprise::bindings::fake_interpreter;
  }
};
REGISTER_PYTHON_HOOKS(PyInterpreterHooks)

}  // namespace c10::impl

#endif  // REPRISE_TESTS_BINDINGS_TORCH_FAKE_INTERPRETER_H_
