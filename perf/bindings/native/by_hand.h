// What a program without Reprise does, written with the driver: plain launches
// and graphs that are patched by hand.

#ifndef REPRISE_PERF_BINDINGS_NATIVE_BY_HAND_H_
#define REPRISE_PERF_BINDINGS_NATIVE_BY_HAND_H_

#include <benchmark/benchmark.h>
#include <cuda.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "engine/device/driver.h"
#include "engine/device/launch_graph.h"
#include "kernels/compiled_code.h"
#include "kernels/nvrtc.h"
#include "perf/bindings/native/measure.h"

namespace reprise::perf {

// Ends the program where a driver entry fails: REPRISE_MUST(driver, cuInit(0)).
#define REPRISE_MUST(driver, call) \
  ::reprise::perf::Must(           \
      ::reprise::device::Check((driver), (driver).call, #call))

// False, the benchmark skipped with the reason, where there is no GPU.
inline bool HasGpu(benchmark::State& state) {
  const auto driver = device::Driver::Load();
  if (driver) return true;
  state.SkipWithError(("no GPU: " + driver.error().message()).c_str());
  return false;
}

// The first device by the driver alone, its primary context current on the
// thread that makes it. Lives as long as the program.
class RawDevice {
 public:
  RawDevice() {
    CUdevice device = 0;
    REPRISE_MUST(driver, cuDeviceGet(&device, 0));
    REPRISE_MUST(driver, cuDevicePrimaryCtxRetain(&context_, device));
    REPRISE_MUST(driver, cuCtxSetCurrent(context_));
    int major = 0;
    int minor = 0;
    REPRISE_MUST(
        driver,
        cuDeviceGetAttribute(
            &major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device));
    REPRISE_MUST(
        driver,
        cuDeviceGetAttribute(
            &minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device));
    architecture_ = "sm_" + std::to_string(major) + std::to_string(minor);
  }

  // Kernels of `source` by their names there, in that order.
  std::vector<CUfunction> Load(const std::string& source,
                               const std::vector<std::string>& names) {
    const kernels::CompiledCode code =
        Must(Must(kernels::Nvrtc::Load())
                 ->Compile({.source = source,
                            .architecture = architecture_,
                            .name_expressions = names}));
    CUlibrary library = nullptr;
    REPRISE_MUST(driver, cuLibraryLoadData(&library, code.image.data(), nullptr,
                                           nullptr, 0, nullptr, nullptr, 0));
    std::vector<CUfunction> functions;
    for (const std::string& name : names) {
      CUkernel kernel = nullptr;
      REPRISE_MUST(driver,
                   cuLibraryGetKernel(&kernel, library,
                                      code.lowered_names.at(name).c_str()));
      REPRISE_MUST(driver,
                   cuKernelGetFunction(&functions.emplace_back(), kernel));
    }
    return functions;
  }

  CUstream MakeStream() {
    CUstream stream = nullptr;
    REPRISE_MUST(driver, cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return stream;
  }

  CUdeviceptr Allocate(size_t bytes) {
    CUdeviceptr memory = 0;
    REPRISE_MUST(driver, cuMemAlloc(&memory, bytes));
    return memory;
  }

  const device::Driver& driver = *Must(device::Driver::Load());

 private:
  CUcontext context_ = nullptr;
  std::string architecture_;
};

inline RawDevice& TheDevice() {
  static auto* const device = new RawDevice;
  return *device;
}

// One launch of a kernel whose arguments have at most 8 bytes each; one that
// has more is named by `large`, which must outlive the launch.
struct RawLaunch {
  template <typename... A>
  RawLaunch(CUfunction kernel, unsigned grid, unsigned block, A... arguments)
      : function(kernel), blocks(grid), threads(block) {
    static_assert(sizeof...(A) <= kArguments);
    size_t i = 0;
    (Set(i++, arguments), ...);
  }

  template <typename T>
  void Set(size_t argument, T value) {
    static_assert(sizeof value <= sizeof(uint64_t));
    std::memcpy(&values[argument], &value, sizeof value);
  }

  static constexpr size_t kArguments = 6;
  using Pointers = std::array<void*, kArguments>;
  // Valid until the launch moves.
  Pointers pointers() {
    Pointers all{};
    for (size_t i = 0; i < kArguments; ++i) all[i] = &values[i];
    if (large != nullptr) all[0] = large;
    return all;
  }

  void Enqueue(const device::Driver& driver, CUstream stream) {
    CUlaunchConfig config{};
    config.gridDimX = blocks;
    config.blockDimX = threads;
    config.gridDimY = config.gridDimZ = 1;
    config.blockDimY = config.blockDimZ = 1;
    config.hStream = stream;
    Pointers all = pointers();
    REPRISE_MUST(driver,
                 cuLaunchKernelEx(&config, function, all.data(), nullptr));
  }

  // `all` must outlive the result.
  CUDA_KERNEL_NODE_PARAMS NodeParams(Pointers& all) {
    CUDA_KERNEL_NODE_PARAMS params{};
    params.func = function;
    params.gridDimX = blocks;
    params.blockDimX = threads;
    params.gridDimY = params.gridDimZ = 1;
    params.blockDimY = params.blockDimZ = 1;
    params.kernelParams = all.data();
    return params;
  }

  CUfunction function;
  unsigned blocks;
  unsigned threads;
  std::array<uint64_t, kArguments> values{};
  void* large = nullptr;  // the first argument, if it is not in `values`
};

// A graph of launches; each waits for those that `dependencies` names.
class HandGraph {
 public:
  HandGraph(std::vector<RawLaunch> launches,
            const device::Dependencies& dependencies)
      : launches_(std::move(launches)) {
    REPRISE_MUST(driver_, cuGraphCreate(&graph_, 0));
    for (size_t i = 0; i < launches_.size(); ++i) {
      std::vector<CUgraphNode> before;
      for (uint32_t j : dependencies[i]) before.push_back(nodes_[j]);
      RawLaunch::Pointers all = launches_[i].pointers();
      const CUDA_KERNEL_NODE_PARAMS params = launches_[i].NodeParams(all);
      REPRISE_MUST(driver_,
                   cuGraphAddKernelNode(&nodes_.emplace_back(), graph_,
                                        before.data(), before.size(), &params));
    }
  }
  ~HandGraph() {
    if (exec_ != nullptr) driver_.cuGraphExecDestroy(exec_);
    driver_.cuGraphDestroy(graph_);
  }
  HandGraph(const HandGraph&) = delete;
  HandGraph& operator=(const HandGraph&) = delete;

  void Instantiate() {
    CUDA_GRAPH_INSTANTIATE_PARAMS how{};
    REPRISE_MUST(driver_, cuGraphInstantiateWithParams(&exec_, graph_, &how));
  }
  void Upload(CUstream stream) {
    REPRISE_MUST(driver_, cuGraphUpload(exec_, stream));
  }
  void Launch(CUstream stream) {
    REPRISE_MUST(driver_, cuGraphLaunch(exec_, stream));
  }
  void EndExec() {
    REPRISE_MUST(driver_, cuGraphExecDestroy(exec_));
    exec_ = nullptr;
  }

  // Changed by the caller, told to the executable graph by SetParams.
  RawLaunch& launch(size_t i) { return launches_[i]; }
  void SetParams(size_t i) {
    RawLaunch::Pointers all = launches_[i].pointers();
    const CUDA_KERNEL_NODE_PARAMS params = launches_[i].NodeParams(all);
    REPRISE_MUST(driver_,
                 cuGraphExecKernelNodeSetParams(exec_, nodes_[i], &params));
  }

  // The same through the graph's description, once all changed launches have
  // been staged.
  void Stage(size_t i) {
    RawLaunch::Pointers all = launches_[i].pointers();
    const CUDA_KERNEL_NODE_PARAMS params = launches_[i].NodeParams(all);
    REPRISE_MUST(driver_, cuGraphKernelNodeSetParams(nodes_[i], &params));
  }
  void Update() {
    CUgraphExecUpdateResultInfo info{};
    REPRISE_MUST(driver_, cuGraphExecUpdate(exec_, graph_, &info));
  }

  size_t size() const { return nodes_.size(); }

 private:
  const device::Driver& driver_ = TheDevice().driver;
  std::vector<RawLaunch> launches_;
  CUgraph graph_ = nullptr;
  CUgraphExec exec_ = nullptr;
  std::vector<CUgraphNode> nodes_;
};

}  // namespace reprise::perf

#endif  // REPRISE_PERF_BINDINGS_NATIVE_BY_HAND_H_
