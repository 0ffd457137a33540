// Owners of the driver's objects.

#ifndef REPRISE_ENGINE_DEVICE_UNIQUE_HANDLE_H_
#define REPRISE_ENGINE_DEVICE_UNIQUE_HANDLE_H_

#include <cuda.h>

#include <utility>

#include "engine/device/driver.h"
#include "engine/device/exiting.h"
#include "engine/device/relaxed_capture.h"

namespace reprise::device {

// Owns one driver object of `Traits::Handle` and ends it with
// `Traits::Destroy(driver, handle)`, unless the process is exiting. No capture
// of the program's is disturbed by it (RelaxedCapture). A failure
// to end it is ignored: there is nobody left to tell. The driver table is
// borrowed and must outlive the handle. Move-only; moved-from and default-made
// handles are empty. Thread-compatible.
template <typename Traits>
class UniqueHandle {
 public:
  using Handle = typename Traits::Handle;

  UniqueHandle() = default;
  UniqueHandle(const Driver& driver, Handle handle)
      : driver_(&driver), handle_(handle) {}
  UniqueHandle(UniqueHandle&& other) noexcept
      : driver_(other.driver_),
        handle_(std::exchange(other.handle_, Handle{})) {}
  UniqueHandle& operator=(UniqueHandle&& other) noexcept {
    if (this != &other) {
      Reset();
      driver_ = other.driver_;
      handle_ = std::exchange(other.handle_, Handle{});
    }
    return *this;
  }
  ~UniqueHandle() { Reset(); }

  void Reset() noexcept {
    const Handle handle = std::exchange(handle_, Handle{});
    if (handle == Handle{} || Exiting()) return;
    const RelaxedCapture relaxed(*driver_);
    Traits::Destroy(*driver_, handle);
  }

  Handle get() const { return handle_; }
  explicit operator bool() const { return handle_ != Handle{}; }

 private:
  const Driver* driver_ = nullptr;
  Handle handle_{};
};

struct GraphTraits {
  using Handle = CUgraph;
  static void Destroy(const Driver& driver, Handle handle) {
    driver.cuGraphDestroy(handle);
  }
};
using UniqueGraph = UniqueHandle<GraphTraits>;

struct GraphExecTraits {
  using Handle = CUgraphExec;
  static void Destroy(const Driver& driver, Handle handle) {
    driver.cuGraphExecDestroy(handle);
  }
};
using UniqueGraphExec = UniqueHandle<GraphExecTraits>;

struct LibraryTraits {
  using Handle = CUlibrary;
  static void Destroy(const Driver& driver, Handle handle) {
    driver.cuLibraryUnload(handle);
  }
};
using UniqueLibrary = UniqueHandle<LibraryTraits>;

struct StreamTraits {
  using Handle = CUstream;
  static void Destroy(const Driver& driver, Handle handle) {
    driver.cuStreamDestroy(handle);
  }
};
using UniqueStream = UniqueHandle<StreamTraits>;

struct EventTraits {
  using Handle = CUevent;
  static void Destroy(const Driver& driver, Handle handle) {
    driver.cuEventDestroy(handle);
  }
};
using UniqueEvent = UniqueHandle<EventTraits>;

}  // namespace reprise::device

#endif  // REPRISE_ENGINE_DEVICE_UNIQUE_HANDLE_H_
