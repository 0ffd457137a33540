// What functions of C that Python calls use without an op.

#ifndef REPRISE_BINDINGS_TORCH_OBSERVE_USE_H_
#define REPRISE_BINDINGS_TORCH_OBSERVE_USE_H_

#include <cstdint>

#include "scheduler/stream_key.h"

namespace reprise::bindings {

// What a function that Python calls uses without an op.
enum class Use : int64_t {
  kTensor = 0,    // memory of the Python tensor that is its first parameter
  kStorage = 1,   // memory of the Python storage that is its first parameter
  kMemory = 2,    // memory, whatever its parameters are
  kStreams = 3,   // streams of CUDA
  kLaunches = 4,  // as kMemory, and what ops it runs meanwhile belong to it
  kGraph = 5,     // as kStreams, and it launches a graph of the program's
  kSeeds = 6,     // none: it sets a random generator
  kScripts = 7,   // as kStreams: what TorchScript has compiled may be fused
  kWaits = 8,     // none: it waits for streams, as torch's tracer tells before
  kKernels = 9,   // as kMemory, and it may register kernels of operators
  kLibraries = 12,     // the same, by what loads a library
  kSavedTensors = 10,  // none: hooks of one that autograd has saved
  kNoHooks = 11,       // none: it disables hooks of saved tensors
  kModes = 13,         // none: a dispatch mode begins
  kPlans = 14,  // as kStreams, and it frees what a library has for its plans
  // None: it asks the Python tensor that is its first parameter for what its
  // form does not tell (TapeRecorder::Asked).
  kOffset = 15,
  kOrigin = 16,
  kHistory = 17,
  // None: it takes, or sets, the state of the random generator that is its
  // first parameter. The state is what it returns, or its second one.
  kTakesState = 18,
  kSetsState = 19,
  // As kTensor, kStorage and kMemory, and it gives the address to others, who
  // may keep it: of its first parameter, or of the tensor that is the first of
  // its arguments.
  kTensorsAddress = 20,
  kStoragesAddress = 21,
  kExports = 22,
  // The same, where arguments come as an array of C's, and in no tuple.
  kExportsFast = 23,
};

// The function, called with this first parameter, uses memory or streams of
// such devices. Asks nothing of a tensor that Python might answer, as a
// subclass may.
bool UsesMemoryOf(scheduler::DeviceKind kind, Use use, const void* first);

// What it gives away, or launches, may be written by whom no session sees.
bool MayWriteUnseen(Use use);

// Why a region in which it is used is none.
const char* ReasonOf(Use use);

// It was called with these parameters: if it has given an address away, ops
// that read there wait for the program from now on (others_memory.h). Under
// Python's lock.
void NoteGiven(Use use, const void* first, void* second, void* third);

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_OBSERVE_USE_H_
