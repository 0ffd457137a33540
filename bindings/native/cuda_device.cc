#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "bindings/native/cuda_graph.h"
#include "bindings/native/device.h"
#include "engine/device/context_scope.h"
#include "engine/device/exiting.h"
#include "engine/device/launch_recorder.h"
#include "kernels/nvrtc.h"

namespace reprise::native {
namespace {

// The limits that a launch is checked against before it is made.
struct Limits {
  std::array<int, 3> grid{};
  std::array<int, 3> block{};
  int threads = 0;
  int shared_bytes = 0;
};

class CudaDevice final : public Device {
 public:
  // Owns nothing of `context`, which outlives it: the primary context is kept
  // for the life of the process.
  CudaDevice(const device::Driver& driver, CUcontext context,
             const Limits& limits, std::string architecture)
      : driver_(driver),
        context_(context),
        limits_(limits),
        architecture_(std::move(architecture)) {}

  Result<CUstream> MakeStream() override {
    const device::ContextScope scope(driver_, context_);
    REPRISE_RETURN_IF_ERROR(scope.status());
    CUstream stream = nullptr;
    REPRISE_CU(driver_, cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return stream;
  }
  void EndStream(CUstream stream) override {
    if (device::Exiting()) return;
    const device::ContextScope scope(driver_, context_);
    driver_.cuStreamSynchronize(stream);
    driver_.cuStreamDestroy(stream);
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
  Result<CUevent> Record(CUstream stream) override {
    const device::ContextScope scope(driver_, context_);
    REPRISE_RETURN_IF_ERROR(scope.status());
    CUevent event = nullptr;
    REPRISE_CU(driver_, cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
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
  void EndEvent(CUevent event) override {
    if (!device::Exiting()) driver_.cuEventDestroy(event);
  }

  Result<void*> Allocate(size_t bytes) override {
    const device::ContextScope scope(driver_, context_);
    REPRISE_RETURN_IF_ERROR(scope.status());
    CUdeviceptr memory = 0;
    const CUresult result =
        driver_.cuMemAlloc(&memory, std::max<size_t>(bytes, 1));
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
      return base::Fail(
          Code::kResourceExhausted,
          "the device has no " + std::to_string(bytes) + " bytes left");
    }
    REPRISE_RETURN_IF_ERROR(device::Check(driver_, result, "cuMemAlloc"));
    return reinterpret_cast<void*>(memory);
  }
  void Free(void* memory) override {
    if (device::Exiting()) return;
    const device::ContextScope scope(driver_, context_);
    driver_.cuMemFree(reinterpret_cast<CUdeviceptr>(memory));
  }
  Status CopyIn(void* to, const void* from, size_t bytes,
                CUstream stream) override {
    const device::ContextScope scope(driver_, context_);
    REPRISE_RETURN_IF_ERROR(scope.status());
    REPRISE_CU(driver_, cuMemcpyHtoDAsync(reinterpret_cast<CUdeviceptr>(to),
                                          from, bytes, stream));
    REPRISE_CU(driver_, cuStreamSynchronize(stream));
    return {};
  }
  Status CopyOut(void* to, const void* from, size_t bytes,
                 CUstream stream) override {
    const device::ContextScope scope(driver_, context_);
    REPRISE_RETURN_IF_ERROR(scope.status());
    REPRISE_CU(driver_,
               cuMemcpyDtoHAsync(to, reinterpret_cast<CUdeviceptr>(from), bytes,
                                 stream));
    REPRISE_CU(driver_, cuStreamSynchronize(stream));
    return {};
  }

  std::string Objection(const LaunchConfig& config) const override {
    const uint64_t grid[] = {config.grid.x, config.grid.y, config.grid.z};
    const uint64_t block[] = {config.block.x, config.block.y, config.block.z};
    uint64_t threads = 1;
    for (int d = 0; d < 3; ++d) {
      threads *= block[d];
      if (grid[d] > static_cast<uint64_t>(limits_.grid[d])) {
        return "a grid of " + std::to_string(grid[d]) + " in direction " +
               std::to_string(d) + ", the device takes " +
               std::to_string(limits_.grid[d]);
      }
      if (block[d] > static_cast<uint64_t>(limits_.block[d])) {
        return "a block of " + std::to_string(block[d]) + " in direction " +
               std::to_string(d) + ", the device takes " +
               std::to_string(limits_.block[d]);
      }
    }
    if (threads > static_cast<uint64_t>(limits_.threads)) {
      return "a block of " + std::to_string(threads) +
             " threads, the device takes " + std::to_string(limits_.threads);
    }
    if (config.shared_bytes > static_cast<uint64_t>(limits_.shared_bytes)) {
      return std::to_string(config.shared_bytes) +
             " bytes of shared memory, the device has " +
             std::to_string(limits_.shared_bytes) + " for a block";
    }
    return {};
  }
  Status Enqueue(const Node& node, const std::byte* image,
                 CUstream stream) override {
    return device::Enqueue(driver_, LaunchOf(node, image), stream);
  }
  Result<std::unique_ptr<Graph>> Build(const std::vector<Node>& nodes,
                                       const std::vector<std::byte>& image,
                                       const device::Dependencies& dependencies,
                                       CUstream stream) override {
    const device::ContextScope scope(driver_, context_);
    REPRISE_RETURN_IF_ERROR(scope.status());
    auto graph = std::make_unique<CudaGraph>(driver_);
    REPRISE_RETURN_IF_ERROR(graph->Build(nodes, image, dependencies, stream));
    return graph;
  }

  void Compile(const KernelSource& source, KernelCode& code) override {
    auto cubin = kernels::CompileToCubin(source.source, source.name + ".cu",
                                         architecture_, source.options);
    if (!cubin) {
      code.Fail(cubin.error());
    } else {
      // The driver tells parameters in a context only.
      const device::ContextScope scope(driver_, context_);
      code.FinishLoading(driver_, *cubin);
    }
  }
  void Adopt(CUfunction handle, KernelCode& code) override {
    const device::ContextScope scope(driver_, context_);
    code.FinishAdopting(driver_, handle);
  }
  Context context() const override { return {&driver_, context_}; }

 private:
  const device::Driver& driver_;
  const CUcontext context_;
  const Limits limits_;
  const std::string architecture_;
};

Result<int> Attribute(const device::Driver& driver, CUdevice device,
                      CUdevice_attribute attribute) {
  int value = 0;
  REPRISE_CU(driver, cuDeviceGetAttribute(&value, attribute, device));
  return value;
}

Result<Limits> LimitsOf(const device::Driver& driver, CUdevice device) {
  Limits limits;
  constexpr std::array<CUdevice_attribute, 3> kGrid = {
      CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y,
      CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z};
  constexpr std::array<CUdevice_attribute, 3> kBlock = {
      CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y,
      CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z};
  for (size_t d = 0; d < 3; ++d) {
    REPRISE_ASSIGN_OR_RETURN(limits.grid[d],
                             Attribute(driver, device, kGrid[d]));
    REPRISE_ASSIGN_OR_RETURN(limits.block[d],
                             Attribute(driver, device, kBlock[d]));
  }
  REPRISE_ASSIGN_OR_RETURN(
      limits.threads,
      Attribute(driver, device, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK));
  REPRISE_ASSIGN_OR_RETURN(
      limits.shared_bytes,
      Attribute(driver, device,
                CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN));
  return limits;
}

}  // namespace

Result<std::unique_ptr<Device>> OpenCudaDevice(int number) {
  REPRISE_ASSIGN_OR_RETURN(const device::Driver* driver,
                           device::Driver::Load());
  device::WatchForExit();
  CUdevice device = 0;
  if (driver->cuDeviceGet(&device, number) != CUDA_SUCCESS) {
    return base::Fail(Code::kUnavailable,
                      "there is no CUDA device " + std::to_string(number));
  }
  CUcontext context = nullptr;
  REPRISE_CU(*driver, cuDevicePrimaryCtxRetain(&context, device));
  REPRISE_ASSIGN_OR_RETURN(const Limits limits, LimitsOf(*driver, device));
  REPRISE_ASSIGN_OR_RETURN(
      const int major,
      Attribute(*driver, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR));
  REPRISE_ASSIGN_OR_RETURN(
      const int minor,
      Attribute(*driver, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
  return std::make_unique<CudaDevice>(
      *driver, context, limits,
      "sm_" + std::to_string(major) + std::to_string(minor));
}

std::unique_ptr<Device> MakeCudaDevice(const device::Driver& driver,
                                       CUcontext context) {
  constexpr int kAny = 1 << 30;
  return std::make_unique<CudaDevice>(
      driver, context,
      Limits{{kAny, kAny, kAny}, {kAny, kAny, kAny}, kAny, kAny}, "sm_90");
}

}  // namespace reprise::native
