// Where in its own source the program is.

#ifndef REPRISE_BINDINGS_TORCH_RUNTIME_PROGRAM_PLACE_H_
#define REPRISE_BINDINGS_TORCH_RUNTIME_PROGRAM_PLACE_H_

#include <cstdint>

#include "engine/trace/frontend.h"

namespace reprise::bindings {

// Tells the asker the line that Python's main thread is at when it runs Python
// next, which is right behind the op that is being handled:
// "/home/me/train.py:42", of the innermost frame that is neither torch's (but
// for its distributions, which check their arguments), nor this package's, nor
// the interpreter's own; where that is an installed package's, with the
// program's that led there: "/home/me/train.py:42
// (transformers/pytorch_utils.py:107)". Asked by another thread, it tells only
// where the main thread is in autograd's engine: that is where the program
// called backward(). Else it tells "", and where the process has no Python
// nothing.
//
// Any thread, under any lock: it waits for none that Python code runs under.
// The asker must not go while the process runs Python; it is told with Python's
// lock held.
void AskProgramPlace(engine::PlaceAsker* asker, uint64_t question);

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_RUNTIME_PROGRAM_PLACE_H_
