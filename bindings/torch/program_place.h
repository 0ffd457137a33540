// Where in its own source the program is.

#ifndef REPRISE_BINDINGS_TORCH_PROGRAM_PLACE_H_
#define REPRISE_BINDINGS_TORCH_PROGRAM_PLACE_H_

#include <string>

namespace reprise::bindings {

// The line that the calling thread is at: "/home/me/train.py:42", of the
// innermost frame that is neither torch's, nor this package's, nor the
// interpreter's own; where that is an installed package's, with the program's
// that led there:
// "/home/me/train.py:42 (transformers/pytorch_utils.py:107)". Of a thread that
// runs no Python (autograd's): where the program called backward(), if it is
// in there. Empty where nobody can tell, as in a program without Python.
//
// Waits for Python's lock: not to be called under a session's. Runs no code of
// Python's. Costs microseconds.
std::string ProgramPlace();

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_PROGRAM_PLACE_H_
