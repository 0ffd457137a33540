// Memory of torch's for Reprise, and what comes of there being no device.

#include "bindings/torch/runtime/private_pool.h"

#include <c10/cuda/CUDAFunctions.h>
#include <gtest/gtest.h>

#include <string>

namespace reprise::bindings {
namespace {

TEST(PrivatePoolTest, AnAllocationIsABlockOrAnError) {
  EXPECT_FALSE(AllocatingForReprise());
  const auto block = AllocateFromTorch(0, nullptr, 0);
  EXPECT_EQ(block.has_value(), c10::cuda::device_count() > 0);
  if (block.has_value()) {
    EXPECT_TRUE(*block) << "one byte at least";
  } else {
    EXPECT_FALSE(block.error().message().empty());
    EXPECT_EQ(block.error().message().find('\n'), std::string::npos);
  }
  EXPECT_FALSE(AllocatingForReprise()) << "on every way out";
}

}  // namespace
}  // namespace reprise::bindings
