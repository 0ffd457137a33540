// Where batches run: a GPU through the driver, or the host.

#ifndef REPRISE_BINDINGS_NATIVE_DEVICE_H_
#define REPRISE_BINDINGS_NATIVE_DEVICE_H_

#include <cuda.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "bindings/native/common.h"
#include "bindings/native/device_info.h"
#include "bindings/native/guarded_call.h"
#include "bindings/native/host_bytes.h"
#include "bindings/native/memory_pool.h"
#include "bindings/native/runtime_options.h"
#include "bindings/native/suggest_block.h"
#include "bindings/native/timing.h"
#include "engine/batch/batch_device.h"
#include "engine/batch/batch_record.h"
#include "engine/batch/kernel_code.h"
#include "engine/batch/launch_limits.h"
#include "engine/device/driver.h"
#include "engine/device/launch.h"

namespace reprise::native {

// What handles ask of a device, beside what batches do. Thread-safe. Each of
// these calls sees to its context itself.
class Device : public engine::BatchDevice {
 public:
  Status Call(const engine::CaptureFunction& work, CUstream stream) final {
    return GuardedCall([&] { return work(stream); });
  }

  // Memory that is freed waits for the work of streams that were made or
  // adopted and not ended or released. Ending waits for the stream's work;
  // adopting gives kInvalidArgument for a stream of another context.
  virtual PriorityRange priorities() const = 0;
  // kInvalidArgument for a priority that is none of those.
  virtual Result<CUstream> MakeStream(int32_t priority) = 0;
  virtual void EndStream(CUstream stream) = 0;
  virtual Status AdoptStream(CUstream stream) = 0;
  virtual void ReleaseStream(CUstream stream) = 0;
  virtual Status Synchronize(CUstream stream) = 0;
  virtual Result<CUevent> MakeEvent(Timing timing) = 0;
  virtual Result<CUevent> Record(CUstream stream, Timing timing) = 0;
  virtual Status Wait(CUstream stream, CUevent event) = 0;
  // By the host, of events that were recorded.
  virtual Result<bool> Passed(CUevent event) = 0;
  virtual Status SynchronizeEvent(CUevent event) = 0;
  // Both are timed; kFailedPrecondition if one has not passed.
  virtual Result<std::chrono::nanoseconds> Elapsed(CUevent from,
                                                   CUevent to) = 0;
  virtual void EndEvent(CUevent event) = 0;

  virtual Result<void*> Allocate(size_t bytes) = 0;
  // Work in flight on those streams may be using it.
  virtual void Free(void* memory) = 0;
  // In stream order. `from` may be used again on return, which waits for
  // earlier copies at most; `to` has the bytes on return, or where HostBytes
  // say so. kFailedPrecondition while the program captures the stream.
  virtual Status CopyIn(void* to, const void* from, size_t bytes,
                        CUstream stream) = 0;
  virtual Status CopyOut(void* to, const void* from, size_t bytes,
                         CUstream stream) = 0;
  virtual Result<std::unique_ptr<HostBytes>> BeginCopyOut(const void* from,
                                                          size_t bytes,
                                                          CUstream stream) = 0;

  // Of a kernel that is ready: blocks of that launch that a multiprocessor runs
  // at a time, whatever the grid; and the block that lets it run most threads.
  // kInvalidArgument as Admit.
  virtual Result<uint64_t> MostBlocks(const engine::Node& node) = 0;
  virtual Result<SuggestedBlock> SuggestBlock(engine::KernelCode& kernel,
                                              uint32_t shared_bytes) = 0;
  virtual Result<DeviceInfo> Info() = 0;
  // Finishes or fails `code` with a CUfunction or CUkernel of the caller's.
  virtual void Adopt(CUfunction handle, engine::KernelCode& code) = 0;
  // The parameters of such a handle; kInvalidArgument if it is none.
  virtual Result<std::vector<device::ParamSpan>> ParamsOf(
      CUfunction handle) = 0;
};

// kUnavailable where there is no driver or no such device.
Result<std::unique_ptr<Device>> OpenCudaDevice(const RuntimeOptions& options);
// The same on a driver of the caller's, in a context of the caller's; without a
// pool memory is the driver's plain one.
std::unique_ptr<Device> MakeCudaDevice(const device::Driver& driver,
                                       CUcontext context,
                                       const engine::LaunchLimits& limits = {},
                                       std::unique_ptr<MemoryPool> pool = {});
std::unique_ptr<Device> MakeHostDevice();

}  // namespace reprise::native

#endif  // REPRISE_BINDINGS_NATIVE_DEVICE_H_
