// What a thread notes of what it allocates, without a device.

#include "bindings/torch/runtime/allocator_trace.h"

#include <gtest/gtest.h>

#include "bindings/torch/runtime/thread_state.h"

namespace reprise::bindings {
namespace {

TEST(AllocatorTraceTest, TakesNothingWhereNothingWasBegun) {
  EXPECT_TRUE(AllocatorTrace::Take().empty());
}

TEST(AllocatorTraceTest, ClosesAllThatAThreadHasBegun) {
  AllocatorTrace::Begin();
  AllocatorTrace::Begin();
  AllocatorTrace::Close();
  EXPECT_EQ(t_thread_state.open_notes, 0u);
  EXPECT_TRUE(AllocatorTrace::Take().empty());
  AllocatorTrace::Begin();
  EXPECT_EQ(t_thread_state.open_notes, 1u);
  AllocatorTrace::Take();
  EXPECT_EQ(t_thread_state.open_notes, 0u);
}

}  // namespace
}  // namespace reprise::bindings
