// Functions of C that Python calls, observed (docs/decisions/0018).

#ifndef REPRISE_BINDINGS_TORCH_OBSERVE_PYTHON_OBSERVERS_H_
#define REPRISE_BINDINGS_TORCH_OBSERVE_PYTHON_OBSERVERS_H_

#include <cstdint>
#include <vector>

namespace reprise::bindings {

// The addresses of four functions for the package, which calls them without an
// operator, because modes of the program's would see that call:
//
//   int64_t (int64_t function, int64_t use)   the address of a function that
//       interrupts before it does what the one at `function` does; 0 where
//       there are too many. Under Python's lock
//   void ()                                   interrupts
//   void (), void ()                          around what launches without ops;
//       they nest
//
// The last three give way to whoever is inside a session, so they are called
// with Python's lock given up.
std::vector<int64_t> PlainFunctions();

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_OBSERVE_PYTHON_OBSERVERS_H_
