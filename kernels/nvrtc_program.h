// One program of NVRTC's.

#ifndef REPRISE_KERNELS_NVRTC_PROGRAM_H_
#define REPRISE_KERNELS_NVRTC_PROGRAM_H_

#include <nvrtc.h>

#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "kernels/compiled_code.h"
#include "kernels/kernel_source.h"
#include "kernels/nvrtc_entries.h"

namespace reprise::kernels {

// NVRTC's program, from its creation by Compile to its destruction. Compiles
// one source, once. Borrows the entries and the source, whose texts have no
// zeros. Single-thread.
class NvrtcProgram {
 public:
  NvrtcProgram(const NvrtcEntries& nvrtc, const KernelSource& source)
      : nvrtc_(nvrtc), source_(source) {}
  ~NvrtcProgram();
  NvrtcProgram(const NvrtcProgram&) = delete;
  NvrtcProgram& operator=(const NvrtcProgram&) = delete;

  // For NVRTC's own target ("sm_90", "compute_90"). Errors as Nvrtc::Compile.
  base::Result<CompiledCode> Compile(const std::string& target);

  // Of a source that did not compile: the name expressions at fault.
  const std::vector<std::string>& unknown() const { return unknown_; }
  // The compiler's log; empty where it cannot be had.
  std::string Log() const;

 private:
  base::Status Create();
  base::Status Run(const std::string& target);
  // Of a log that complains of an option.
  std::string WhyNoOption(std::string log) const;
  // The name expressions that the log complains of, as they were given.
  std::vector<std::string> UnknownNames(std::string_view log) const;
  base::Result<std::vector<char>> Image(nvrtcResult (*get_size)(nvrtcProgram,
                                                                size_t*),
                                        nvrtcResult (*get)(nvrtcProgram,
                                                           char*));

  const NvrtcEntries& nvrtc_;
  const KernelSource& source_;
  nvrtcProgram program_ = nullptr;
  std::vector<std::string> unknown_;
};

}  // namespace reprise::kernels

#endif  // REPRISE_KERNELS_NVRTC_PROGRAM_H_
