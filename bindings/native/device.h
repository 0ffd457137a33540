// Where batches run: a GPU through the driver, or the host.

#ifndef REPRISE_BINDINGS_NATIVE_DEVICE_H_
#define REPRISE_BINDINGS_NATIVE_DEVICE_H_

#include <cuda.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bindings/native/batch_record.h"
#include "bindings/native/common.h"
#include "bindings/native/device_info.h"
#include "bindings/native/event.h"
#include "bindings/native/host_bytes.h"
#include "bindings/native/kernel_code.h"
#include "bindings/native/launch_limits.h"
#include "bindings/native/memory_pool.h"
#include "bindings/native/runtime.h"
#include "engine/base/patching.h"
#include "engine/device/context_scope.h"
#include "engine/device/launch_graph.h"

namespace reprise::native {

// One executable graph. Single-thread at a time, within a DeviceScope.
class Graph {
 public:
  virtual ~Graph() = default;
  // From the next launch on, node `index` has the arguments at `image`.
  virtual Status Set(size_t index, const std::byte* image) = 0;
  // Does now what Launch would do before it launches. The driver may refuse
  // what was set, as memory of another kind than the graph was made with.
  virtual Status Apply() = 0;
  virtual Status Launch(CUstream stream) = 0;
  // Becomes the graph of other nodes of the same kinds, attributes and
  // dependencies, from the next launch on. Fails, and stays what it was, where
  // the driver or its mechanism does not let it.
  virtual Status TakeOver(const std::vector<Node>& nodes,
                          const std::vector<std::byte>& image) = 0;
  // Why it has gone over to SetParams by itself; empty while it has not.
  virtual std::string_view why_set_params() const { return {}; }
};

// Work of the caller's, as it is part of a graph.
class Captured {
 public:
  virtual ~Captured() = default;
};
using Captures = std::vector<std::shared_ptr<Captured>>;

// While a copy of it lives, memory that was there before and is freed stays
// what it is, unless there is none left: a driver takes no fill or copy into a
// graph, and instantiates none, whose memory was freed before. The thread that
// drops the last copy frees what nobody holds any more, and waits for the
// device where that has no pools.
using MemoryHold = std::shared_ptr<void>;

// How a graph is to be given arguments. The last two are for a table only.
struct Mechanism {
  Patching patching = Patching::kSetParams;
  std::vector<std::shared_ptr<KernelCode>> twins =
      {};                                   // of each node; null: none
  std::shared_ptr<KernelCode> writer = {};  // of as many bytes as they need
};

// A device and its driver. Thread-safe. Every call sees to its context itself,
// but Enqueue and those of graphs, which are made within a DeviceScope; a
// stream is one of this device's, or null for its default stream.
class Device {
 public:
  virtual ~Device() = default;

  // What is to be current, and whose; no driver on the host, where each device
  // has a context, never to be current, by which its kernels are told apart.
  struct Context {
    const device::Driver* driver = nullptr;
    CUcontext context = nullptr;
  };
  virtual Context context() const = 0;

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
  // The program is capturing the stream.
  virtual bool Capturing(CUstream stream) = 0;
  // Work of the stream's is in flight, as far as can be told: of a stream that
  // is being captured it cannot.
  virtual bool Busy(CUstream stream) = 0;
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
  // Null where there is nothing to hold. What is held is given away before an
  // Allocate fails. The device outlives it.
  virtual MemoryHold HoldMemory() = 0;
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

  // kInvalidArgument, with a sentence, if the device would not take that
  // launch of a kernel that is ready.
  virtual Status Admit(const Node& node) = 0;
  // Of a kernel that is ready: blocks of that launch that a multiprocessor runs
  // at a time, whatever the grid; and the block that lets it run most threads.
  // kInvalidArgument as Admit.
  virtual Result<uint64_t> MostBlocks(const Node& node) = 0;
  virtual Result<SuggestedBlock> SuggestBlock(KernelCode& kernel,
                                              uint32_t shared_bytes) = 0;
  // One launch by itself, within a DeviceScope. Its kernel is ready.
  virtual Status Enqueue(const Node& node, const std::byte* image,
                         CUstream stream) = 0;
  // Calls `work`, on this thread, for what it gives a stream. A DeviceScope is
  // around it.
  virtual Result<std::shared_ptr<Captured>> Capture(
      const CaptureFunction& work) = 0;
  // The graph keeps its kernels, twins and events alive and nothing else. A
  // capture's node has the number of what was captured as its image. Any
  // thread; disturbs no capture, and no stream of the program's.
  virtual Result<std::unique_ptr<Graph>> Build(
      const std::vector<Node>& nodes, const std::vector<std::byte>& image,
      const device::Dependencies& dependencies, const Captures& captures,
      Mechanism mechanism) = 0;

  virtual Result<DeviceInfo> Info() = 0;
  // What code for it is compiled for, as "sm_90"; empty on the host.
  virtual std::string architecture() const = 0;
  // Finishes or fails `code` with a CUfunction or CUkernel of the caller's.
  virtual void Adopt(CUfunction handle, KernelCode& code) = 0;
  // The parameters of such a handle; kInvalidArgument if it is none.
  virtual Result<std::vector<device::ParamSpan>> ParamsOf(
      CUfunction handle) = 0;
  bool on_host() const { return context().driver == nullptr; }
};

// While it lives, this thread's calls may go to the device.
class DeviceScope {
 public:
  explicit DeviceScope(const Device& device) {
    const Device::Context wanted = device.context();
    if (wanted.driver != nullptr)
      scope_.emplace(*wanted.driver, wanted.context);
  }
  Status status() const {
    return scope_.has_value() ? scope_->status() : Status();
  }

 private:
  std::optional<device::ContextScope> scope_;
};

// kUnavailable where there is no driver or no such device.
Result<std::unique_ptr<Device>> OpenCudaDevice(const RuntimeOptions& options);
// The same on a driver of the caller's, in a context of the caller's; without a
// pool memory is the driver's plain one.
std::unique_ptr<Device> MakeCudaDevice(const device::Driver& driver,
                                       CUcontext context,
                                       const LaunchLimits& limits = {},
                                       std::unique_ptr<MemoryPool> pool = {});
std::unique_ptr<Device> MakeHostDevice();

// Of a device of the driver's, of all of them, and of a host device.
Result<DeviceInfo> InfoOf(const device::Driver& driver, CUdevice device);
Result<std::vector<DeviceInfo>> CudaDevices();
DeviceInfo HostInfo();

}  // namespace reprise::native

#endif  // REPRISE_BINDINGS_NATIVE_DEVICE_H_
