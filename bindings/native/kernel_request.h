// Kernels' sources as the compiler takes them.

#ifndef REPRISE_BINDINGS_NATIVE_KERNEL_REQUEST_H_
#define REPRISE_BINDINGS_NATIVE_KERNEL_REQUEST_H_

#include "bindings/native/kernel.h"
#include "kernels/kernel_source.h"

namespace reprise::native {

// What the source includes is looked for in the folders of NVRTC's toolkit, too
// (kernels::ToolkitIncludePaths), behind its own.
kernels::KernelSource RequestOf(const KernelSource& source);

}  // namespace reprise::native

#endif  // REPRISE_BINDINGS_NATIVE_KERNEL_REQUEST_H_
