#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/native/cuda_memory.h"
#include "bindings/native/device.h"
#include "bindings/native/device_query.h"
#include "bindings/native/guarded_call.h"
#include "bindings/native/staging.h"
#include "engine/base/mutex.h"
#include "engine/batch/cuda_graph.h"
#include "engine/device/context_scope.h"
#include "engine/device/exiting.h"
#include "engine/device/kernel_params.h"
#include "engine/device/relaxed_capture.h"
#include "engine/device/single_launch.h"
#include "engine/device/unique_handle.h"

namespace reprise::native {
namespace {

class CudaDevice final : public Device {
 public:
  // Owns nothing of `context`, which outlives it: the primary context is kept
  // for the life of the process.
  CudaDevice(const device::Driver& driver, CUcontext context,
             const engine::LaunchLimits& limits, std::string architecture,
             std::unique_ptr<MemoryPool> pool)
      : driver_(driver),
        context_(context),
        limits_(limits),
        occupancy_(engine::MakeCudaOccupancy(driver)),
        architecture_(std::move(architecture)),
        memory_(std::in_place, driver, context, std::move(pool)),
        staging_(std::in_place, driver, context) {}
  ~CudaDevice() override {
    if (device::Exiting()) return;
    const device::ContextScope scope(driver_, context_);
    staging_.reset();
    memory_.reset();
    const base::MutexLock lock(mutex_);
    uploads_.Reset();
  }

  PriorityRange priorities() const override {
    return {limits_.priority_least, limits_.priority_greatest};
  }
  Result<CUstream> MakeStream(int32_t priority) override {
    REPRISE_RETURN_IF_ERROR(engine::AdmitPriority(limits_, priority));
    const device::ContextScope scope(driver_, context_);
    REPRISE_RETURN_IF_ERROR(scope.status());
    CUstream stream = nullptr;
    REPRISE_CU(driver_, cuStreamCreateWithPriority(
                            &stream, CU_STREAM_NON_BLOCKING, priority));
    const base::MutexLock lock(mutex_);
    streams_.push_back(stream);
    return stream;
  }
  void EndStream(CUstream stream) override {
    if (device::Exiting()) return;
    const device::ContextScope scope(driver_, context_);
    driver_.cuStreamSynchronize(stream);
    Forget(stream);  // not before: memory that is freed waits for its work
    driver_.cuStreamDestroy(stream);
  }
  Status AdoptStream(CUstream stream) override {
    const device::ContextScope scope(driver_, context_);
    REPRISE_RETURN_IF_ERROR(scope.status());
    CUcontext context = context_;
    if (stream != nullptr) {
      REPRISE_CU(driver_, cuStreamGetCtx(stream, &context));
    }
    if (context != context_) {
      return base::Fail(Code::kInvalidArgument,
                        "the stream is of another device or context than the "
                        "runtime: adopt it with a runtime of that one "
                        "(RuntimeOptions::device or context)");
    }
    const base::MutexLock lock(mutex_);
    streams_.push_back(stream);
    return {};
  }
  void ReleaseStream(CUstream stream) override {
    if (device::Exiting()) return;
    const device::ContextScope scope(driver_, context_);
    memory_->WaitFor(stream);
    Forget(stream);
  }
  Status Synchronize(CUstream stream) override {
    const device::ContextScope scope(driver_, context_);
    REPRISE_RETURN_IF_ERROR(scope.status());
    REPRISE_CU(driver_, cuStreamSynchronize(stream));
    return {};
  }
  bool Capturing(CUstream stream) override {
    if (stream == nullptr) return false;  // it cannot be captured
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    return driver_.cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS &&
           status != CU_STREAM_CAPTURE_STATUS_NONE;
  }
  bool Busy(CUstream stream) override {
    // Asked about one that is being captured, the driver ends the capture.
    if (Capturing(stream)) return false;
    const device::RelaxedCapture relaxed(driver_);
    return driver_.cuStreamQuery(stream) == CUDA_ERROR_NOT_READY;
  }
  Result<CUevent> MakeEvent(Timing timing) override {
    const device::ContextScope scope(driver_, context_);
    REPRISE_RETURN_IF_ERROR(scope.status());
    CUevent event = nullptr;
    REPRISE_CU(driver_, cuEventCreate(&event, timing == Timing::kTimed
                                                  ? CU_EVENT_DEFAULT
                                                  : CU_EVENT_DISABLE_TIMING));
    return event;
  }
  Result<CUevent> Record(CUstream stream, Timing timing) override {
    const device::ContextScope scope(driver_, context_);
    REPRISE_RETURN_IF_ERROR(scope.status());
    REPRISE_ASSIGN_OR_RETURN(CUevent event, MakeEvent(timing));
    if (Status recorded = device::Check(
            driver_, driver_.cuEventRecord(event, stream), "cuEventRecord");
        !recorded) {
      driver_.cuEventDestroy(event);
      return tl::unexpected(recorded.error());
    }
    return event;
  }
  Status Wait(CUstream stream, CUevent event) override {
    const device::ContextScope scope(driver_, context_);
    REPRISE_RETURN_IF_ERROR(scope.status());
    REPRISE_CU(driver_, cuStreamWaitEvent(stream, event, 0));
    return {};
  }
  Result<bool> Passed(CUevent event) override {
    const device::ContextScope scope(driver_, context_);
    REPRISE_RETURN_IF_ERROR(scope.status());
    const device::RelaxedCapture relaxed(driver_);
    const CUresult state = driver_.cuEventQuery(event);
    if (state == CUDA_ERROR_NOT_READY) return false;
    REPRISE_RETURN_IF_ERROR(device::Check(driver_, state, "cuEventQuery"));
    return true;
  }
  Status SynchronizeEvent(CUevent event) override {
    const device::ContextScope scope(driver_, context_);
    REPRISE_RETURN_IF_ERROR(scope.status());
    const device::RelaxedCapture relaxed(driver_);
    REPRISE_CU(driver_, cuEventSynchronize(event));
    return {};
  }
  Result<std::chrono::nanoseconds> Elapsed(CUevent from, CUevent to) override {
    const device::ContextScope scope(driver_, context_);
    REPRISE_RETURN_IF_ERROR(scope.status());
    const device::RelaxedCapture relaxed(driver_);
    float milliseconds = 0;
    const CUresult told = driver_.cuEventElapsedTime(&milliseconds, from, to);
    if (told == CUDA_ERROR_NOT_READY) {
      return base::Fail(Code::kFailedPrecondition,
                        "an event has not passed yet: wait for it with "
                        "Event::Synchronize");
    }
    REPRISE_RETURN_IF_ERROR(device::Check(driver_, told, "cuEventElapsedTime"));
    return std::chrono::round<std::chrono::nanoseconds>(
        std::chrono::duration<double, std::milli>(milliseconds));
  }
  void EndEvent(CUevent event) override {
    if (device::Exiting()) return;
    const device::ContextScope scope(driver_, context_);
    driver_.cuEventDestroy(event);
  }

  Result<void*> Allocate(size_t bytes) override {
    const device::ContextScope scope(driver_, context_);
    REPRISE_RETURN_IF_ERROR(scope.status());
    return memory_->Allocate(bytes);
  }
  void Free(void* memory) override {
    if (device::Exiting()) return;
    const device::ContextScope scope(driver_, context_);
    WaitForStreams();
    memory_->Free(memory);
  }
  engine::MemoryHold HoldMemory() override {
    return engine::MemoryHold(this, [this, hold = memory_->BeginHold()](void*) {
      memory_->EndHold(hold);
    });
  }
  Status CopyIn(void* to, const void* from, size_t bytes,
                CUstream stream) override {
    const device::ContextScope scope(driver_, context_);
    REPRISE_RETURN_IF_ERROR(scope.status());
    REPRISE_RETURN_IF_ERROR(CheckCopies(stream));
    return staging_->CopyIn(reinterpret_cast<CUdeviceptr>(to), from, bytes,
                            stream);
  }
  Status CopyOut(void* to, const void* from, size_t bytes,
                 CUstream stream) override {
    const device::ContextScope scope(driver_, context_);
    REPRISE_RETURN_IF_ERROR(scope.status());
    REPRISE_RETURN_IF_ERROR(CheckCopies(stream));
    REPRISE_CU(driver_,
               cuMemcpyDtoHAsync(to, reinterpret_cast<CUdeviceptr>(from), bytes,
                                 stream));
    REPRISE_CU(driver_, cuStreamSynchronize(stream));
    return {};
  }
  Result<std::unique_ptr<HostBytes>> BeginCopyOut(const void* from,
                                                  size_t bytes,
                                                  CUstream stream) override {
    const device::ContextScope scope(driver_, context_);
    REPRISE_RETURN_IF_ERROR(scope.status());
    REPRISE_RETURN_IF_ERROR(CheckCopies(stream));
    return staging_->CopyOut(reinterpret_cast<CUdeviceptr>(from), bytes,
                             stream);
  }

  Status Admit(const engine::Node& node) override {
    const device::ContextScope scope(driver_, context_);
    REPRISE_RETURN_IF_ERROR(scope.status());
    return engine::Admit(*occupancy_, limits_, node);
  }
  Result<uint64_t> MostBlocks(const engine::Node& node) override {
    const device::ContextScope scope(driver_, context_);
    REPRISE_RETURN_IF_ERROR(scope.status());
    REPRISE_RETURN_IF_ERROR(engine::Admit(*occupancy_, limits_, node));
    return occupancy_->MostBlocks(node);
  }
  Result<SuggestedBlock> SuggestBlock(engine::KernelCode& kernel,
                                      uint32_t shared_bytes) override {
    const device::ContextScope scope(driver_, context_);
    REPRISE_RETURN_IF_ERROR(scope.status());
    return native::SuggestBlock(*occupancy_, limits_, kernel, shared_bytes);
  }
  Status Enqueue(const engine::Node& node, const std::byte* image,
                 CUstream stream) override {
    return device::Enqueue(driver_, engine::LaunchOf(node, image), stream);
  }
  Result<std::shared_ptr<engine::Captured>> Capture(
      const engine::CaptureFunction& work) override {
    CUstream stream = nullptr;
    REPRISE_CU(driver_, cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    const device::UniqueStream owned(driver_, stream);
    // In this mode no other thread is disturbed.
    REPRISE_CU(driver_, cuStreamBeginCapture(
                            stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    const Status done = GuardedCall([&] { return work(stream); });
    CUgraph graph = nullptr;
    const Status ended =
        device::Check(driver_, driver_.cuStreamEndCapture(stream, &graph),
                      "cuStreamEndCapture");
    auto captured = std::make_shared<engine::CapturedGraph>();
    captured->graph = device::UniqueGraph(driver_, graph);
    if (!done) return tl::unexpected(done.error().In("captured work"));
    if (!ended) return tl::unexpected(ended.error().In("captured work"));
    return captured;
  }
  Result<std::unique_ptr<engine::Graph>> Build(
      const std::vector<engine::Node>& nodes,
      const std::vector<std::byte>& image,
      const device::Dependencies& dependencies,
      const engine::Captures& captures, engine::Mechanism mechanism) override {
    const device::ContextScope scope(driver_, context_);
    REPRISE_RETURN_IF_ERROR(scope.status());
    const device::RelaxedCapture relaxed(driver_);
    REPRISE_ASSIGN_OR_RETURN(const CUstream uploads, Uploads());
    auto graph = std::make_unique<engine::CudaGraph>(driver_, context_);
    REPRISE_RETURN_IF_ERROR(
        graph->Build(nodes, image, dependencies, uploads, captures, mechanism));
    // The stream that it will be launched on knows nothing of this one.
    REPRISE_CU(driver_, cuStreamSynchronize(uploads));
    return graph;
  }

  Result<DeviceInfo> Info() override {
    const device::ContextScope scope(driver_, context_);
    REPRISE_RETURN_IF_ERROR(scope.status());
    CUdevice device = 0;
    REPRISE_CU(driver_, cuCtxGetDevice(&device));
    return InfoOf(driver_, device);
  }
  std::string architecture() const override { return architecture_; }
  void Adopt(CUfunction handle, engine::KernelCode& code) override {
    const device::ContextScope scope(driver_, context_);
    code.FinishAdopting(driver_, handle);
  }
  Result<std::vector<device::ParamSpan>> ParamsOf(CUfunction handle) override {
    const device::ContextScope scope(driver_, context_);
    REPRISE_RETURN_IF_ERROR(scope.status());
    return device::ParamsOf(driver_, handle);
  }
  Context context() const override { return {&driver_, context_}; }

 private:
  // Where graphs are brought onto the device: the stream of a batch may end
  // meanwhile, or be captured by the program.
  Result<CUstream> Uploads() REPRISE_EXCLUDES(mutex_) {
    const base::MutexLock lock(mutex_);
    if (!uploads_) {
      CUstream stream = nullptr;
      REPRISE_CU(driver_, cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
      uploads_ = device::UniqueStream(driver_, stream);
    }
    return uploads_.get();
  }
  // What is freed from now on waits for the work that they have now. On the
  // thread that frees: on another one it would race with a capture that the
  // program begins.
  void WaitForStreams() REPRISE_EXCLUDES(mutex_) {
    if (!memory_->waits_for_streams()) return;
    // Under the lock, so that no stream ends while it is named.
    const base::MutexLock lock(mutex_);
    for (CUstream stream : streams_) memory_->WaitFor(stream);
  }
  // What a graph of the program's would copy again later is not there then.
  Status CheckCopies(CUstream stream) {
    if (!Capturing(stream)) return {};
    return base::Fail(Code::kFailedPrecondition,
                      "the stream is being captured: copies between host and "
                      "device are made before the capture begins, or once it "
                      "has ended");
  }
  // One adoption of it, or the stream itself.
  void Forget(CUstream stream) REPRISE_EXCLUDES(mutex_) {
    const base::MutexLock lock(mutex_);
    const auto found = std::find(streams_.begin(), streams_.end(), stream);
    if (found != streams_.end()) streams_.erase(found);
  }

  const device::Driver& driver_;
  const CUcontext context_;
  const engine::LaunchLimits limits_;
  const std::unique_ptr<engine::Occupancy> occupancy_;
  const std::string architecture_;
  std::optional<CudaMemory> memory_;  // until the end, as `staging_`
  std::optional<Staging> staging_;

  base::Mutex mutex_;
  std::vector<CUstream> streams_ REPRISE_GUARDED_BY(mutex_);
  device::UniqueStream uploads_ REPRISE_GUARDED_BY(mutex_);
};

}  // namespace

Result<std::unique_ptr<Device>> OpenCudaDevice(const RuntimeOptions& options) {
  const auto loaded = device::Driver::Load();
  if (!loaded) {
    return base::Fail(loaded.error().code(),
                      loaded.error().message() +
                          ", or use the host runtime (RuntimeOptions::device = "
                          "RuntimeOptions::kHost)");
  }
  const device::Driver* const driver = *loaded;
  device::WatchForExit();
  CUdevice device = 0;
  auto context = static_cast<CUcontext>(options.context);
  if (context == nullptr) {
    if (driver->cuDeviceGet(&device, options.device) != CUDA_SUCCESS) {
      return base::Fail(Code::kUnavailable,
                        "there is no CUDA device " +
                            std::to_string(options.device) +
                            ": give a number that Runtime::Devices() lists");
    }
    REPRISE_CU(*driver, cuDevicePrimaryCtxRetain(&context, device));
  }
  const device::ContextScope scope(*driver, context);
  REPRISE_RETURN_IF_ERROR(scope.status());
  if (options.context != nullptr) {
    REPRISE_CU(*driver, cuCtxGetDevice(&device));
  }
  REPRISE_ASSIGN_OR_RETURN(
      auto pool, MemoryPool::Create(*driver, device, options.pool_bytes));
  REPRISE_ASSIGN_OR_RETURN(const engine::LaunchLimits limits,
                           engine::LaunchLimits::Of(*driver, device));
  REPRISE_ASSIGN_OR_RETURN(const DeviceInfo info, InfoOf(*driver, device));
  return std::make_unique<CudaDevice>(*driver, context, limits,
                                      "sm_" +
                                          std::to_string(info.compute_major) +
                                          std::to_string(info.compute_minor),
                                      std::move(pool));
}

std::unique_ptr<Device> MakeCudaDevice(const device::Driver& driver,
                                       CUcontext context,
                                       const engine::LaunchLimits& limits,
                                       std::unique_ptr<MemoryPool> pool) {
  return std::make_unique<CudaDevice>(driver, context, limits, "sm_90",
                                      std::move(pool));
}

}  // namespace reprise::native
