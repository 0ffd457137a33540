// Launches as the driver's parameters: pointers into their images, whole.

#include "engine/device/node_params.h"

#include <gtest/gtest.h>

#include <bit>
#include <memory>
#include <utility>
#include <vector>

namespace reprise::device {
namespace {

// With that many parameters of 8 bytes.
Launch Kernel(uint32_t count) {
  Launch launch;
  launch.function = std::bit_cast<CUfunction>(uintptr_t{0xf00});
  launch.grid = {2, 3, 4};
  launch.block = {5, 6, 7};
  launch.shared_bytes = 128;
  std::vector<ParamSpan> spans;
  for (uint32_t i = 0; i < count; ++i) spans.push_back({i * 8, 8});
  launch.params =
      std::make_shared<const std::vector<ParamSpan>>(std::move(spans));
  launch.image.resize(size_t{count} * 8);
  return launch;
}

TEST(NodeParamsTest, EachParameterIsPointedToInTheImage) {
  for (const uint32_t count : {0, 1, 32, 33, 100}) {
    const Launch launch = Kernel(count);
    KernelArguments arguments(launch);
    EXPECT_EQ(arguments.extra(), nullptr);
    for (uint32_t i = 0; i < count; ++i) {
      EXPECT_EQ(arguments.params()[i], launch.image.data() + i * 8);
    }
  }
}

TEST(NodeParamsTest, PackedParametersAreOneBuffer) {
  Launch launch = Kernel(3);
  launch.packed = true;
  KernelArguments arguments(launch);
  EXPECT_EQ(arguments.params(), nullptr);
  void** extra = arguments.extra();
  ASSERT_NE(extra, nullptr);
  EXPECT_EQ(extra[0], CU_LAUNCH_PARAM_BUFFER_POINTER);
  EXPECT_EQ(extra[1], launch.image.data());
  EXPECT_EQ(extra[2] == nullptr, false);
  EXPECT_EQ(*static_cast<size_t*>(extra[3]), 24u);
  EXPECT_EQ(extra[4], CU_LAUNCH_PARAM_END);
}

TEST(NodeParamsTest, AKernelIsNamedByItsFunctionOrItsHandle) {
  const Launch launch = Kernel(1);
  KernelArguments arguments(launch);
  const CUDA_KERNEL_NODE_PARAMS function =
      KernelNodeParams(launch, arguments, /*by_kernel_handle=*/false);
  EXPECT_EQ(function.func, launch.function);
  EXPECT_EQ(function.kern, nullptr);
  EXPECT_EQ(function.gridDimY, 3u);
  EXPECT_EQ(function.blockDimZ, 7u);
  EXPECT_EQ(function.sharedMemBytes, 128u);
  EXPECT_EQ(function.kernelParams, arguments.params());
  const CUDA_KERNEL_NODE_PARAMS handle =
      KernelNodeParams(launch, arguments, /*by_kernel_handle=*/true);
  EXPECT_EQ(handle.func, nullptr);
  EXPECT_EQ(handle.kern, std::bit_cast<CUkernel>(launch.function));
}

TEST(NodeParamsTest, FillsCopiesAndEventsStandInTheImage) {
  Launch launch;
  launch.image.resize(16);
  launch.SetWord(0, 0x300);
  launch.SetWord(8, 0x400);
  launch.width = 16;
  launch.height = 2;
  launch.pitch_bytes = 64;
  launch.element_bytes = 4;
  launch.value = 9;
  const CUDA_MEMSET_NODE_PARAMS fill = MemsetNodeParams(launch);
  EXPECT_EQ(fill.dst, 0x300u);
  EXPECT_EQ(fill.pitch, 64u);
  EXPECT_EQ(fill.value, 9u);
  EXPECT_EQ(fill.elementSize, 4u);
  EXPECT_EQ(fill.width, 16u);
  EXPECT_EQ(fill.height, 2u);
  const CUDA_MEMCPY3D copy = MemcpyNodeParams(launch);
  EXPECT_EQ(copy.dstDevice, 0x300u);
  EXPECT_EQ(copy.srcDevice, 0x400u);
  EXPECT_EQ(copy.WidthInBytes, 16u);
  EXPECT_EQ(copy.Height, 1u);
  EXPECT_EQ(EventOf(launch), std::bit_cast<CUevent>(uintptr_t{0x300}));
}

}  // namespace
}  // namespace reprise::device
