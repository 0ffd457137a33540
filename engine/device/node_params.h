// Launches in the form in which the driver takes nodes of graphs.

#ifndef REPRISE_ENGINE_DEVICE_NODE_PARAMS_H_
#define REPRISE_ENGINE_DEVICE_NODE_PARAMS_H_

#include <cuda.h>

#include <array>
#include <cstddef>
#include <vector>

#include "engine/device/launch.h"

namespace reprise::device {

// The arguments of a kernel's launch, as pointers into its image. The driver
// reads them during the call, and the launch outlives this.
class KernelArguments {
 public:
  explicit KernelArguments(const Launch& launch) {
    // The driver's interface is not const, but it only reads.
    auto* image = const_cast<std::byte*>(launch.image.data());
    if (launch.packed) {
      size_bytes_ = launch.image.size();
      extra_ = {CU_LAUNCH_PARAM_BUFFER_POINTER, image,
                CU_LAUNCH_PARAM_BUFFER_SIZE, &size_bytes_, CU_LAUNCH_PARAM_END};
      packed_ = true;
      return;
    }
    if (launch.params == nullptr) return;
    const size_t count = launch.params->size();
    if (count == 0) return;
    if (count > few_.size()) many_.resize(count);
    params_ = count > few_.size() ? many_.data() : few_.data();
    for (size_t i = 0; i < count; ++i) {
      params_[i] = image + (*launch.params)[i].offset_bytes;
    }
  }
  KernelArguments(const KernelArguments&) = delete;
  KernelArguments& operator=(const KernelArguments&) = delete;

  void** params() { return params_; }
  void** extra() { return packed_ ? extra_.data() : nullptr; }

 private:
  std::array<void*, 32> few_;
  std::vector<void*> many_;
  void** params_ = nullptr;
  std::array<void*, 5> extra_;
  size_t size_bytes_ = 0;
  bool packed_ = false;
};

// `arguments` are the launch's, and outlive what is returned. The driver takes
// some functions only as a CUkernel (`by_kernel_handle`).
inline CUDA_KERNEL_NODE_PARAMS KernelNodeParams(const Launch& launch,
                                                KernelArguments& arguments,
                                                bool by_kernel_handle) {
  CUDA_KERNEL_NODE_PARAMS params{};
  if (by_kernel_handle) {
    params.kern = reinterpret_cast<CUkernel>(launch.function);
  } else {
    params.func = launch.function;
  }
  params.gridDimX = launch.grid.x;
  params.gridDimY = launch.grid.y;
  params.gridDimZ = launch.grid.z;
  params.blockDimX = launch.block.x;
  params.blockDimY = launch.block.y;
  params.blockDimZ = launch.block.z;
  params.sharedMemBytes = launch.shared_bytes;
  params.kernelParams = arguments.params();
  params.extra = arguments.extra();
  return params;
}

inline CUDA_MEMSET_NODE_PARAMS MemsetNodeParams(const Launch& launch) {
  CUDA_MEMSET_NODE_PARAMS params{};
  params.dst = launch.Word(0);
  params.pitch = launch.pitch_bytes;
  params.value = launch.value;
  params.elementSize = launch.element_bytes;
  params.width = launch.width;
  params.height = launch.height;
  return params;
}

// Of a launch that waits for an event or records one.
inline CUevent EventOf(const Launch& launch) {
  return reinterpret_cast<CUevent>(launch.Word(0));
}

inline CUDA_MEMCPY3D MemcpyNodeParams(const Launch& launch) {
  CUDA_MEMCPY3D params{};
  params.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  params.srcDevice = launch.Word(8);
  params.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  params.dstDevice = launch.Word(0);
  params.WidthInBytes = launch.width;
  params.Height = 1;
  params.Depth = 1;
  return params;
}

}  // namespace reprise::device

#endif  // REPRISE_ENGINE_DEVICE_NODE_PARAMS_H_
