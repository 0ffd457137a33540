// What torch's allocator is told without a device.

#include "bindings/torch/runtime/out_of_memory.h"

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace reprise::bindings {
namespace {

int g_questions = 0;

uint64_t Count(int, scheduler::Shortage) {
  ++g_questions;
  return 1;
}

void Ignore(int) {}

TEST(OutOfMemoryTest, IsRegisteredOnceAndFindsNothingWithoutADevice) {
  ASSERT_TRUE(ReleaseWhenOutOfMemory(&Count, &Ignore).has_value());
  ASSERT_TRUE(ReleaseWhenOutOfMemory(&Count, &Ignore).has_value());
  auto* registry = c10::FreeCudaMemoryCallbacksRegistry();
  const std::vector<std::string> keys = registry->Keys();
  ASSERT_EQ(std::count(keys.begin(), keys.end(), "reprise"), 1);
  const bool has_device = c10::cuda::device_count() > 0;
  EXPECT_EQ(registry->Create("reprise")->Execute(), has_device);
  EXPECT_EQ(g_questions, has_device ? 1 : 0);
}

}  // namespace
}  // namespace reprise::bindings
