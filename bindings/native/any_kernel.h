// Kernels whose parameters are known at run time only.

#ifndef REPRISE_BINDINGS_NATIVE_ANY_KERNEL_H_
#define REPRISE_BINDINGS_NATIVE_ANY_KERNEL_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include "bindings/native/common.h"

namespace reprise {

namespace engine {
class KernelCode;
}

// One argument: `size_bytes` at `data`, borrowed until the call that takes it
// returns (on a host runtime, that hands it out: until the kernel returns).
struct Argument {
  Argument(const void* data, size_t size_bytes)
      : data(data), size_bytes(size_bytes) {}
  // The bytes of a value, a pointer among them.
  template <typename T>
  explicit Argument(const T& value) : data(&value), size_bytes(sizeof value) {
    static_assert(std::is_trivially_copyable_v<T>,
                  "an argument is a value that is copied as bytes: of a Buffer "
                  "it is its data()");
  }
  template <typename T>
  explicit Argument(const T&& value) = delete;  // it would be gone

  const void* data;
  size_t size_bytes;
};

// A kernel of which the driver knows how many parameters it has and of what
// size, and nobody of what type. Copies name the same kernel. Thread-safe.
class AnyKernel {
 public:
  // A move copies, so that no handle is ever empty.
  AnyKernel(const AnyKernel&) = default;
  AnyKernel& operator=(const AnyKernel&) = default;

  REPRISE_EXPORT explicit AnyKernel(std::shared_ptr<engine::KernelCode> code);

  REPRISE_EXPORT size_t parameters() const;
  // Of parameter `index`, which there is.
  REPRISE_EXPORT size_t size_bytes(size_t index) const;

  engine::KernelCode* code() const { return code_.get(); }

 private:
  std::shared_ptr<engine::KernelCode> code_;
};

// What stands for such a kernel on a host runtime.
using AnyHostFunction =
    std::function<void(const LaunchConfig&, std::span<const Argument>)>;

}  // namespace reprise

#endif  // REPRISE_BINDINGS_NATIVE_ANY_KERNEL_H_
