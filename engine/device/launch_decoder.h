// Turns the parameters of a driver call into a launch.

#ifndef REPRISE_ENGINE_DEVICE_LAUNCH_DECODER_H_
#define REPRISE_ENGINE_DEVICE_LAUNCH_DECODER_H_

#include <cuda.h>
#include <cupti.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/device/driver.h"
#include "engine/device/launch.h"

namespace reprise::device {

// A launch, or why the call cannot be one (a literal), or neither where it does
// no work at all.
struct DecodedCall {
  std::optional<Launch> launch;
  const char* refusal = nullptr;
};

// Decodes calls that DriverCall classifies as kLaunch, from within their
// callbacks: the pointers among the parameters are read before the call is
// made. Remembers the parameter layout of each function (some 50 ns a launch
// then, and 0.1 us a parameter the first time); asks the driver about functions
// and pointers, which the caller hides from its own recording.
// Thread-compatible.
class LaunchDecoder {
 public:
  explicit LaunchDecoder(const Driver& driver) : driver_(driver) {}

  // `symbol_name` may be null.
  DecodedCall Decode(CUpti_CallbackId id, const void* params,
                     const char* symbol_name);

  // Forgets all functions where `generation` is another than last time: handles
  // may have come to name other functions in between.
  void SetGeneration(uint64_t generation) {
    if (generation != generation_) functions_.clear();
    generation_ = generation;
  }

 private:
  struct Function {
    bool known = false;  // the driver told the layout
    size_t image_bytes = 0;
    std::shared_ptr<const std::vector<ParamSpan>> params;
    std::shared_ptr<const std::string> name;
  };
  // A kernel launch as all of the driver's entries for it have it in common.
  struct KernelCall;

  DecodedCall DecodeKernel(const KernelCall& call, const char* symbol_name);
  DecodedCall DecodeCopy(CUdeviceptr to, CUdeviceptr from, size_t size_bytes);
  Function FunctionOf(CUfunction handle, const char* symbol_name);
  Function Ask(CUfunction handle, const char* symbol_name);

  const Driver& driver_;
  uint64_t generation_ = 0;
  std::unordered_map<CUfunction, Function> functions_;
};

}  // namespace reprise::device

#endif  // REPRISE_ENGINE_DEVICE_LAUNCH_DECODER_H_
