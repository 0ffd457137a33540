// What batches ask of a device.

#ifndef REPRISE_ENGINE_BATCH_BATCH_DEVICE_H_
#define REPRISE_ENGINE_BATCH_BATCH_DEVICE_H_

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/batch/batch_record.h"
#include "engine/batch/capture.h"
#include "engine/batch/graph.h"
#include "engine/device/context_scope.h"
#include "engine/device/driver.h"
#include "engine/device/launch_graph.h"

namespace reprise::engine {

// While a copy of it lives, memory that was there before and is freed stays
// what it is, unless there is none left: a driver takes no fill or copy into a
// graph, and instantiates none, whose memory was freed before. The thread that
// drops the last copy frees what nobody holds any more, and waits for the
// device where that has no pools.
using MemoryHold = std::shared_ptr<void>;

// A device and its driver, or the host. Thread-safe. Every call sees to its
// context itself, but Enqueue, Call, Capture and those of graphs, which are
// made within a DeviceScope; a stream is one of this device's, or null for its
// default stream.
class BatchDevice {
 public:
  virtual ~BatchDevice() = default;

  // What is to be current, and whose; no driver on the host, where each device
  // has a context, never to be current, by which its kernels are told apart.
  struct Context {
    const device::Driver* driver = nullptr;
    CUcontext context = nullptr;
  };
  virtual Context context() const = 0;
  bool on_host() const { return context().driver == nullptr; }
  // What code for it is compiled for, as "sm_90"; empty on the host.
  virtual std::string architecture() const = 0;

  // The program is capturing the stream.
  virtual bool Capturing(CUstream stream) = 0;
  // Work of the stream's is in flight, as far as can be told: of a stream that
  // is being captured it cannot.
  virtual bool Busy(CUstream stream) = 0;
  // Null where there is nothing to hold. What is held is given away before an
  // allocation fails. The device outlives it.
  virtual MemoryHold HoldMemory() = 0;

  // kInvalidArgument, with a sentence, if the device would not take that
  // launch of a kernel that is ready.
  virtual base::Status Admit(const Node& node) = 0;
  // kInvalidArgument, with a sentence, for `bytes` at `begin` that work must
  // not touch: they are beyond a buffer, of one that has ended or of another
  // runtime. Of 0 bytes the address alone is looked at. Only the host knows.
  virtual base::Status AdmitMemory(const void* /*begin*/, uint64_t /*bytes*/) {
    return {};
  }
  // One launch by itself, within a DeviceScope. Its kernel is ready.
  virtual base::Status Enqueue(const Node& node, const std::byte* image,
                               CUstream stream) = 0;
  // Calls `work`, on this thread, with that stream. What it throws is its error
  // (kInternal).
  virtual base::Status Call(const CaptureFunction& work, CUstream stream) = 0;
  // What `work` gives a stream of the device's own, captured and not run; what
  // it throws is the error, as above.
  virtual base::Result<std::shared_ptr<Captured>> Capture(
      const CaptureFunction& work) = 0;
  // The graph keeps its kernels, twins and events alive and nothing else. A
  // capture's node has the number of what was captured as its image. Any
  // thread; disturbs no capture, and no stream of the program's.
  virtual base::Result<std::unique_ptr<Graph>> Build(
      const std::vector<Node>& nodes, const std::vector<std::byte>& image,
      const device::Dependencies& dependencies, const Captures& captures,
      Mechanism mechanism) = 0;
};

// While it lives, this thread's calls may go to the device.
class DeviceScope {
 public:
  explicit DeviceScope(const BatchDevice& device) {
    const BatchDevice::Context wanted = device.context();
    if (wanted.driver != nullptr)
      scope_.emplace(*wanted.driver, wanted.context);
  }
  base::Status status() const {
    return scope_.has_value() ? scope_->status() : base::Status();
  }

 private:
  std::optional<device::ContextScope> scope_;
};

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_BATCH_BATCH_DEVICE_H_
