// Kernels: from CUDA source, from a handle, or a function of the host.

#ifndef REPRISE_BINDINGS_NATIVE_KERNEL_H_
#define REPRISE_BINDINGS_NATIVE_KERNEL_H_

#include <array>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "bindings/native/common.h"
#include "engine/batch/host_function.h"
#include "engine/batch/param_type.h"

namespace reprise {

namespace engine {
class KernelCode;
}

namespace native {
REPRISE_EXPORT Status Wait(engine::KernelCode& code);
REPRISE_EXPORT Result<std::string> LogOf(engine::KernelCode& code);
// Address and number of elements.
REPRISE_EXPORT Result<std::pair<void*, size_t>> VariableOf(
    engine::KernelCode& code, const std::string& name, size_t element_bytes);

// Parameters side by side as CUDA lays them out: each at a multiple of its
// alignment.
template <typename... P>
struct ParamImage {
  static constexpr size_t kCount = sizeof...(P);
  static constexpr std::array<uint32_t, kCount> kSizes{sizeof(P)...};
  static constexpr std::array<uint32_t, kCount> kAlignments{alignof(P)...};
  static constexpr std::array<engine::ParamType, kCount> kTypes{
      engine::ParamType::Of<P>()...};

  static constexpr std::array<uint32_t, kCount> Offsets() {
    std::array<uint32_t, kCount> offsets{};
    uint32_t end = 0;
    for (size_t i = 0; i < kCount; ++i) {
      end = (end + kAlignments[i] - 1) / kAlignments[i] * kAlignments[i];
      offsets[i] = end;
      end += kSizes[i];
    }
    return offsets;
  }
  static constexpr std::array<uint32_t, kCount> kOffsets = Offsets();
  static constexpr uint32_t kBytes =
      kCount == 0 ? 0 : kOffsets[kCount - 1] + kSizes[kCount - 1];
  // No bytes between them, which nobody would write.
  static constexpr bool kDense = (sizeof(P) + ... + 0) == kBytes;
};

}  // namespace native

// CUDA C++ as text, and the kernel of it that is meant. Kernels that differ in
// `name` alone, and neither is of a template, are compiled and loaded once, and
// share the source's __device__ variables. Thread-compatible value.
struct KernelSource {
  std::string source;
  // As the source calls it: "axpy", "space::axpy", or, of a template,
  // "axpy<float>". An overloaded one with its type: "(void(*)(float*))axpy".
  std::string name = {};
  std::vector<std::string> options = {};  // NVRTC's own, one a string
  // Texts by the names under which the source includes them.
  std::map<std::string, std::string> headers = {};
  // Folders of header files, in the order of the search.
  std::vector<std::string> include_paths = {};
  // "sm_90a", or "compute_90" for PTX; empty for the runtime's device, which is
  // given PTX if NVRTC does not know it yet.
  std::string architecture = {};
  // Stands for the file in messages and in __FILE__; quoted includes are looked
  // for in its folder.
  std::string file = "kernel.cu";
  // Kernels of templates that are compiled along with this one: name all that
  // are wanted in each source, and they are compiled and loaded once.
  std::vector<std::string> instances = {};
};

// What the compiler warns of (empty if it does not) of a source that is right:
// the same as CompileKernel has made, for what a device of compute capability
// 9.0 has if the source names no architecture, and nothing is kept. Compiles on
// this thread, 30 ms to seconds; needs NVRTC, and neither a device nor a
// driver. The source's `name` may be empty. kInvalidArgument, with the
// compiler's log, for the source's mistakes and where there is no kernel of
// that name; kUnavailable without NVRTC. Thread-safe.
REPRISE_EXPORT Result<std::string> CheckSource(const KernelSource& source);

namespace native {
// What a kernel may be of: void(P...), its parameters copied as bytes.
template <typename Signature>
inline constexpr bool kIsSignature = false;
template <typename... P>
inline constexpr bool kIsSignature<void(P...)> =
    (std::is_trivially_copyable_v<P> && ...);
}  // namespace native

// No kernel is of such a signature.
template <typename Signature>
class Kernel {
  static_assert(native::kIsSignature<Signature>,
                "a kernel's signature is void(P...): it returns nothing, and "
                "its parameters are values that are copied as bytes");
};

// A kernel whose parameters are of types P... (trivially copyable ones). Copies
// name the same kernel. A kernel from source is compiled in the background:
// launching waits for it where it must. Thread-safe.
template <typename... P>
requires native::kIsSignature<void(P...)>
class Kernel<void(P...)> {
 public:
  // A move copies, so that no handle is ever empty.
  Kernel(const Kernel&) = default;
  Kernel& operator=(const Kernel&) = default;

  using Image = native::ParamImage<P...>;

  explicit Kernel(std::shared_ptr<engine::KernelCode> code)
      : code_(std::move(code)) {}

  // Waits for the compiler; says what it said. Checks the parameters against
  // the compiled kernel's.
  Status Wait() const { return native::Wait(*code_); }
  // Waits, and gives what the compiler warned of, its lines those of the
  // source; empty if it did not, or there was none.
  Result<std::string> Log() const { return native::LogOf(*code_); }

  // The elements, on the device, of a __device__ or __constant__ variable of
  // the source ("table", "space::table"), for copies (Stream) and as an
  // argument. The kernels of one source share it; it is there as long as one of
  // them is, or a plan or graph of one. Waits for the compiler.
  // kInvalidArgument if there is no such variable, or Ts do not fill it;
  // kUnavailable where the kernel is a function of the host.
  template <typename T>
  Result<std::span<T>> Variable(const std::string& name) const {
    REPRISE_ASSIGN_OR_RETURN(const auto found,
                             native::VariableOf(*code_, name, sizeof(T)));
    return std::span<T>(static_cast<T*>(found.first), found.second);
  }

  engine::KernelCode* code() const { return code_.get(); }

 private:
  std::shared_ptr<engine::KernelCode> code_;
};

namespace native {
// Kernel<Signature>; where there is none, a type that compiles, so that all
// that is said is what Kernel says.
template <typename Signature>
using KernelOf =
    typename std::conditional_t<kIsSignature<Signature>,
                                std::type_identity<Kernel<Signature>>,
                                std::type_identity<std::monostate>>::type;

// Calls `function(config, parameters...)` with the parameters in `image`.
template <typename... P, typename F, size_t... I>
void CallWithImage(const F& function, const LaunchConfig& config,
                   [[maybe_unused]] const std::byte* image,
                   std::index_sequence<I...>) {
  std::tuple<std::remove_const_t<P>...> parameters;
  (std::memcpy(&std::get<I>(parameters), image + ParamImage<P...>::kOffsets[I],
               sizeof(P)),
   ...);
  function(config, std::get<I>(parameters)...);
}
}  // namespace native

}  // namespace reprise

#endif  // REPRISE_BINDINGS_NATIVE_KERNEL_H_
