// Bitwise comparison of two tensors of one layout, and copies from one to the
// other, on the device and on the host.

#ifndef REPRISE_KERNELS_COMPARE_H_
#define REPRISE_KERNELS_COMPARE_H_

#include <cuda.h>

#include <cstdint>
#include <memory>
#include <span>

#include "engine/base/status.h"
#include "engine/device/driver.h"
#include "kernels/strided_layout.h"

namespace reprise::kernels {

class Nvrtc;

// So many bytes from one place to another.
struct RangeCopy {
  uint64_t to = 0;
  uint64_t from = 0;
  uint64_t bytes = 0;
};

// Compares and copies on the device. Owns the compiled module; thread-safe.
class DeviceCompare {
 public:
  // Compiles with NVRTC for `device`: some 100 ms, once. kUnavailable where
  // NVRTC cannot be loaded. Needs no context; hidden from a LaunchRecorder.
  static base::Result<std::unique_ptr<DeviceCompare>> Create(
      const device::Driver& driver, CUdevice device);
  // The same with an NVRTC of the caller's.
  static base::Result<std::unique_ptr<DeviceCompare>> Create(
      const device::Driver& driver, CUdevice device, const Nvrtc& nvrtc);
  virtual ~DeviceCompare() = default;

  // Enqueues on `stream`, in the current context of `device`: writes 1 + `tag`
  // to the 32-bit word at `flag` (device memory) if any element of `left`
  // differs from `right`'s in any bit and the flag is still 0 (first difference
  // wins); else leaves it alone. `tag` is below 2^32 - 1. Enqueues nothing
  // where there are no elements. Hidden from a LaunchRecorder.
  virtual base::Status Enqueue(uint64_t left, uint64_t right,
                               const Layout& layout, uint64_t flag,
                               uint32_t tag, CUstream stream) = 0;

  // The same, of elements that are further apart than another order of sums
  // explains: than a share of the largest one of `left` (ClosenessOf) and,
  // where there is another run of what made `right`, at `other`, than kSpreads
  // times what those two are apart, or than some roundings of the largest one.
  // One that is infinite or not a number is close to its like only; elements
  // that are but bits are to be equal. `other` is 0 where there is none. On one
  // multiprocessor.
  virtual base::Status EnqueueClose(uint64_t left, uint64_t right,
                                    uint64_t other, const Layout& layout,
                                    uint64_t flag, uint32_t tag,
                                    CUstream stream) = 0;

  // Enqueues on `stream`, in the current context of `device`: copies every
  // element, and no byte beside them. The two do not overlap. Enqueues nothing
  // where there are no elements. Hidden from a LaunchRecorder.
  virtual base::Status Copy(uint64_t to, uint64_t from, const Layout& layout,
                            CUstream stream) = 0;

  // Enqueues on `stream`, in the current context of `device`: all of them, none
  // of which overlaps another, in few launches. Meant for small ones: each has
  // one block. Hidden from a LaunchRecorder.
  virtual base::Status CopyAll(std::span<const RangeCopy> copies,
                               CUstream stream) = 0;
};

// How far apart sums of the same numbers in another order are, as a share of
// the largest one of their tensor: mostly, and what a rounding is.
struct Closeness {
  double share = 0;
  double rounding = 0;
};
constexpr Closeness ClosenessOf(Element element) {
  switch (element) {
    case Element::kBits:
      break;
    case Element::kFloat16:
      return {0x1p-8, 0x1p-11};
    case Element::kBFloat16:
      return {0x1p-6, 0x1p-8};
    case Element::kFloat32:
      return {0x1p-12, 0x1p-24};
    case Element::kFloat64:
      return {0x1p-36, 0x1p-53};
  }
  return {};
}
inline constexpr double kSpreads = 8;

// The host twin: true if every element is equal in every bit.
bool EqualOnHost(const void* left, const void* right, const Layout& layout);
// The same of EnqueueClose; `other` may be null.
bool CloseOnHost(const void* left, const void* right, const void* other,
                 const Layout& layout);
// The same of Copy.
void CopyOnHost(void* to, const void* from, const Layout& layout);

}  // namespace reprise::kernels

#endif  // REPRISE_KERNELS_COMPARE_H_
