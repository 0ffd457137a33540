// A device and all that Reprise keeps for it.

#ifndef REPRISE_BINDINGS_NATIVE_RUNTIME_H_
#define REPRISE_BINDINGS_NATIVE_RUNTIME_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "bindings/native/any_kernel.h"
#include "bindings/native/buffer.h"
#include "bindings/native/common.h"
#include "bindings/native/device_info.h"
#include "bindings/native/kernel.h"
#include "bindings/native/runtime_options.h"
#include "bindings/native/stream.h"
#include "bindings/native/timeline.h"
#include "engine/batch/compile_stats.h"
#include "engine/batch/host_function.h"
#include "engine/batch/param_type.h"

namespace reprise {

namespace native {
class RuntimeCore;
}

using RuntimeStats = engine::CompileStats;

// Owns the compiler's and the builds' threads; uses the primary context of its
// device, or the caller's. There may be several, of one device or of more.
// Copies name the same runtime, which lives as long as one of them, a
// stream or a buffer of it does; kernels may outlive it. Its end waits for
// what is being compiled or built; kernels that wait for their turn then fail
// with kFailedPrecondition. Thread-safe.
class Runtime {
 public:
  // A move copies, so that no handle is ever empty.
  Runtime(const Runtime&) = default;
  Runtime& operator=(const Runtime&) = default;

  // kUnavailable, in one sentence, where there is no driver or no such device.
  REPRISE_EXPORT static Result<Runtime> Create(const RuntimeOptions& options);

  // Of the driver's devices, to choose RuntimeOptions::device from.
  // kUnavailable, in one sentence, where there is no driver or no device.
  REPRISE_EXPORT static Result<std::vector<DeviceInfo>> Devices();
  // Of this runtime's; some microseconds.
  REPRISE_EXPORT Result<DeviceInfo> device() const;

  // What `priority` and LaunchConfig::priority may be. kInvalidArgument for any
  // other.
  REPRISE_EXPORT PriorityRange priorities() const;
  REPRISE_EXPORT Result<Stream> CreateStream(int32_t priority = 0) const;
  // A stream of the caller's (CUstream), which must outlive the result; null is
  // the device's default stream. kInvalidArgument for one of another context.
  REPRISE_EXPORT Result<Stream> AdoptStream(void* handle) const;

  // Compiled and loaded in the background, several at a time; Kernel::Wait or
  // the first launch tells what the compiler said, and does the work if nobody
  // has begun. What was compiled before, by this process or another one, is
  // found again if nothing that it was made of has changed: the text, the files
  // that it includes, the options, NVRTC. Kernel::Wait's errors:
  // kInvalidArgument for the source's mistakes; kUnavailable without NVRTC, or
  // on a host runtime.
  template <typename Signature>
  Result<native::KernelOf<Signature>> CompileKernel(
      const KernelSource& source) const {
    if constexpr (native::kIsSignature<Signature>) {
      REPRISE_ASSIGN_OR_RETURN(
          auto code,
          Compile(source, ShapeOf(static_cast<Signature*>(nullptr))));
      return Kernel<Signature>(std::move(code));
    } else {
      return Refused<Kernel<Signature>>();
    }
  }
  // A CUfunction or CUkernel of the caller's, which must outlive the kernel.
  template <typename Signature>
  Result<native::KernelOf<Signature>> AdoptKernel(void* handle,
                                                  std::string name) const {
    if constexpr (native::kIsSignature<Signature>) {
      REPRISE_ASSIGN_OR_RETURN(
          auto code, Adopt(handle, std::move(name),
                           ShapeOf(static_cast<Signature*>(nullptr))));
      return Kernel<Signature>(std::move(code));
    } else {
      return Refused<Kernel<Signature>>();
    }
  }
  // One whose parameters the driver tells.
  REPRISE_EXPORT Result<AnyKernel> AdoptKernel(void* handle,
                                               std::string name) const;
  // `function(const LaunchConfig&, P...)` stands for the kernel; once a launch,
  // on the thread that submits. What it throws is the error of that launch
  // (kInternal). Host runtimes only.
  template <typename Signature, typename F>
  Result<native::KernelOf<Signature>> HostKernel(std::string name,
                                                 F function) const {
    if constexpr (native::kIsSignature<Signature>) {
      return MakeHostKernel(static_cast<Signature*>(nullptr), std::move(name),
                            std::move(function));
    } else {
      return Refused<Kernel<Signature>>();
    }
  }

  // The same for parameters of these sizes.
  REPRISE_EXPORT Result<AnyKernel> HostKernel(std::string name,
                                              std::span<const size_t> sizes,
                                              AnyHostFunction function) const;

  // Blocks of such a launch of a Kernel or AnyKernel that one multiprocessor
  // runs at a time, whatever the grid; 0 if it can hold none.
  template <typename K>
  Result<uint32_t> BlocksPerMultiprocessor(const K& kernel,
                                           const LaunchConfig& config) const {
    return MostBlocks(*kernel.code(), config);
  }
  // The block with which the device runs most threads of the kernel at a time,
  // with so much dynamic shared memory each; of equal ones the largest. Asks
  // the driver some 32 questions.
  // Both wait for the kernel's compiler. kInvalidArgument for what the device
  // does not take, and for a kernel of another runtime.
  template <typename K>
  Result<SuggestedBlock> SuggestBlock(const K& kernel,
                                      Count shared_bytes = 0) const {
    return BestBlock(*kernel.code(), shared_bytes);
  }

  REPRISE_EXPORT RuntimeStats stats() const;
  // Notes what becomes of batches from now on, until its Stop or its end.
  REPRISE_EXPORT Timeline StartTimeline() const;

  // Memory of the device, not initialised, from a pool of the runtime's. (On a
  // host runtime all its bits are set, and its address was no buffer's before.)
  // kResourceExhausted if there is none, also once work in flight is over;
  // kInvalidArgument for more than a number of bytes can say.
  template <typename T>
  Result<Buffer<T>> Allocate(size_t count) const {
    REPRISE_ASSIGN_OR_RETURN(void* memory,
                             native::Allocate(*core_, count, sizeof(T)));
    return Buffer<T>(core_, static_cast<T*>(memory), count);
  }

 private:
  explicit Runtime(std::shared_ptr<native::RuntimeCore> core)
      : core_(std::move(core)) {}

  struct Shape {
    std::vector<uint32_t> offsets;
    std::vector<uint32_t> sizes;
    std::vector<engine::ParamType> types = {};  // none: nobody knows
  };
  // Never runs: K, or what was asserted before, does not compile and says why.
  template <typename K>
  static tl::unexpected<Error> Refused() {
    static_assert(sizeof(K) > 0);
    return base::Fail(Code::kInvalidArgument, "no kernel");
  }
  template <typename... P>
  static Shape ShapeOf(void (*)(P...)) {
    using Image = native::ParamImage<P...>;
    return {{Image::kOffsets.begin(), Image::kOffsets.end()},
            {Image::kSizes.begin(), Image::kSizes.end()},
            {Image::kTypes.begin(), Image::kTypes.end()}};
  }
  template <typename... P, typename F>
  Result<Kernel<void(P...)>> MakeHostKernel(void (*signature)(P...),
                                            std::string name,
                                            F function) const {
    constexpr bool kFits = std::is_invocable_v<const F&, const LaunchConfig&,
                                               std::remove_const_t<P>&...>;
    static_assert(kFits,
                  "the function of a host kernel is called as function(const "
                  "LaunchConfig&, P...), with the parameters of its signature");
    if constexpr (kFits) {
      REPRISE_ASSIGN_OR_RETURN(
          auto code,
          FromHost(
              [function = std::move(function)](const LaunchConfig& config,
                                               const std::byte* image) {
                native::CallWithImage<P...>(function, config, image,
                                            std::index_sequence_for<P...>());
              },
              std::move(name), ShapeOf(signature)));
      return Kernel<void(P...)>(std::move(code));
    } else {
      return Refused<Kernel<void(P...)>>();
    }
  }

  using SharedCode = Result<std::shared_ptr<engine::KernelCode>>;
  REPRISE_EXPORT SharedCode Compile(const KernelSource& source,
                                    const Shape& shape) const;
  REPRISE_EXPORT SharedCode Adopt(void* handle, std::string name,
                                  const Shape& shape) const;
  REPRISE_EXPORT SharedCode FromHost(engine::HostFunction function,
                                     std::string name,
                                     const Shape& shape) const;

  REPRISE_EXPORT Result<uint32_t> MostBlocks(engine::KernelCode& kernel,
                                             const LaunchConfig& config) const;
  REPRISE_EXPORT Result<SuggestedBlock> BestBlock(engine::KernelCode& kernel,
                                                  uint32_t shared_bytes) const;

  std::shared_ptr<native::RuntimeCore> core_;
};

}  // namespace reprise

#endif  // REPRISE_BINDINGS_NATIVE_RUNTIME_H_
