// A source made ready for the compiler, and its name.

#ifndef REPRISE_KERNELS_COMPILE_REQUEST_H_
#define REPRISE_KERNELS_COMPILE_REQUEST_H_

#include <optional>
#include <string_view>

#include "cache/signature.h"
#include "engine/base/status.h"
#include "kernels/dependencies.h"
#include "kernels/kernel_source.h"

namespace reprise::kernels {

// Goes into every key. Raise it whenever the key's fields, what is compiled for
// them, or CompiledCode::Serialize changes.
inline constexpr uint64_t kCompileKeyVersion = 2;

// Thread-compatible value.
struct CompileRequest {
  // As it was given, but with absolute include paths, those of the options
  // among them.
  KernelSource source = {};
  Dependencies dependencies = {};
  // Equal keys, equal results. None where that cannot be promised: an option
  // reads or writes files, or the dependencies are incomplete.
  std::optional<cache::Signature> key = {};
};

// For the NVRTC of that identity. kInvalidArgument for an option or
// architecture that cannot be. Reads what the source may include
// (FindDependencies).
base::Result<CompileRequest> MakeCompileRequest(std::string_view nvrtc_identity,
                                                KernelSource source,
                                                IncludedFiles& files);

}  // namespace reprise::kernels

#endif  // REPRISE_KERNELS_COMPILE_REQUEST_H_
