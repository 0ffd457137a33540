// Uses of memory that no hook sees.

#ifndef REPRISE_BINDINGS_TORCH_RUNTIME_UNSEEN_USE_H_
#define REPRISE_BINDINGS_TORCH_RUNTIME_UNSEEN_USE_H_

namespace reprise::bindings {

// The program is about to look into memory, or to write it, in a way that no
// hook sees: what was run ahead is taken back first. Does nothing inside an op.
// Thread-safe; takes the sessions' locks.
void BeforeUnseenUse();

// Tensors of the host are about to be compared by their content: what the host
// executor has run ahead there is taken back.
void BeforeContents();

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_RUNTIME_UNSEEN_USE_H_
