// Memory of the host that code outside torch may write at any time, without an
// op: it has the address.

#ifndef REPRISE_BINDINGS_TORCH_RUNTIME_OTHERS_MEMORY_H_
#define REPRISE_BINDINGS_TORCH_RUNTIME_OTHERS_MEMORY_H_

#include <c10/core/StorageImpl.h>

namespace reprise::bindings {

// The storage's address is given to code outside torch (an array of NumPy's
// over a tensor, DLPack, `data_ptr()`). Does nothing for memory of a device.
// Thread-safe.
void NoteAddressGiven(const c10::StorageImpl& storage);

// A storage of the host whose memory others may write: it is theirs (an array
// of NumPy's, another process's, a file), or they were given its address.
// Thread-safe. Cost: two comparisons; a look-up under a lock once any address
// was given.
bool OthersMayWrite(const c10::StorageImpl& storage);

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_RUNTIME_OTHERS_MEMORY_H_
