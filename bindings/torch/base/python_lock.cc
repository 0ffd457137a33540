#include "bindings/torch/base/python_lock.h"

#include "bindings/torch/base/python_api.h"

namespace reprise::bindings {

PythonLockGivenUp::PythonLockGivenUp() {
  static const auto running = OfPython<int()>("Py_IsInitialized");
  static const auto locked = OfPython<int()>("PyGILState_Check");
  static const auto save = OfPython<void*()>("PyEval_SaveThread");
  if (running == nullptr || locked == nullptr || save == nullptr) return;
  if (running() != 0 && locked() != 0) thread_ = save();
}

PythonLockGivenUp::~PythonLockGivenUp() {
  static const auto restore = OfPython<void(void*)>("PyEval_RestoreThread");
  if (thread_ != nullptr) restore(thread_);
}

}  // namespace reprise::bindings
