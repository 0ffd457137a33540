// Twins of kernels, which read their parameters from device memory.

#ifndef REPRISE_KERNELS_TWIN_H_
#define REPRISE_KERNELS_TWIN_H_

#include <string>

#include "kernels/compiled_code.h"
#include "kernels/kernel_source.h"

namespace reprise::kernels {

// A kernel of one parameter, the address of the other kernel's parameters as
// the driver lays them out (each at a multiple of its alignment, the whole at
// one of 16). A graph of twins is given new arguments by whoever writes there,
// in place of a call of the driver for each launch: the parameter indirection
// of PyGraph (arXiv 2503.19779), for any kernel that is given as source.
//
// The text of the user's is not touched: it is included where __global__ stands
// for __device__, and a template calls the function that the kernel is then.
// Every argument is the same value, so are the results; each costs a load.
struct Twin {
  KernelSource source;
  std::string name;  // of the twin, source's one name expression
};

// `kernel` is a name or name expression of a kernel in `source`; `max_threads`
// what the compiled kernel takes in a block, so that its twin takes as many.
// What comes of it may not compile (__grid_constant__, __cluster_dims__): such
// kernels have no twin.
Twin TwinOf(KernelSource source, const std::string& kernel, int max_threads);

// The code has variables of its own: a twin's would be others than its
// kernel's, so such kernels have no twin.
bool HasVariables(const CompiledCode& code);

}  // namespace reprise::kernels

#endif  // REPRISE_KERNELS_TWIN_H_
