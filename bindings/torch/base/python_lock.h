// Python's lock, for a library that does not link Python.

#ifndef REPRISE_BINDINGS_TORCH_BASE_PYTHON_LOCK_H_
#define REPRISE_BINDINGS_TORCH_BASE_PYTHON_LOCK_H_

namespace reprise::bindings {

// Gives Python's lock up while it lives, if the calling thread has it: whoever
// is inside a session may wait for it (a kernel of the host executor's may be
// Python's). Nothing where the process has no Python.
class PythonLockGivenUp {
 public:
  PythonLockGivenUp();
  ~PythonLockGivenUp();
  PythonLockGivenUp(const PythonLockGivenUp&) = delete;
  PythonLockGivenUp& operator=(const PythonLockGivenUp&) = delete;

 private:
  void* thread_ = nullptr;  // its state, to be given back
};

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_BASE_PYTHON_LOCK_H_
