// NVRTC, loaded at run time: CUDA source to machine code.

#ifndef REPRISE_KERNELS_NVRTC_H_
#define REPRISE_KERNELS_NVRTC_H_

#include <span>
#include <string>
#include <vector>

#include "engine/base/status.h"

namespace reprise::kernels {

// Compiles CUDA C++ `source` for one architecture (`arch`: "sm_90") and returns
// the cubin. `name` stands for the file in diagnostics; `options` are NVRTC's
// own ("--use_fast_math").
//
// kUnavailable where libnvrtc.so.13 cannot be loaded (the copy that torch
// brought is tried first); kInvalidArgument, with the compiler's log in the
// message, where the source or an option is at fault. Needs no device and no
// context. Takes 10 to 1000 ms. Thread-safe.
base::Result<std::vector<char>> CompileToCubin(
    const std::string& source, const std::string& name, const std::string& arch,
    std::span<const std::string> options);

}  // namespace reprise::kernels

#endif  // REPRISE_KERNELS_NVRTC_H_
