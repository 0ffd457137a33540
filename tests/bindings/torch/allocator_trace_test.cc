// What a device's segments add up to, without a device.

#include "bindings/torch/allocator_trace.h"

#include <gtest/gtest.h>

#include "bindings/torch/thread_state.h"

namespace reprise::bindings {
namespace {

TEST(AddressSetTest, HoldsEveryAddressOfARangeAndNoOther) {
  AddressSet set;
  set.Insert(100, 200);
  EXPECT_FALSE(set.Contains(99));
  EXPECT_TRUE(set.Contains(100));
  EXPECT_TRUE(set.Contains(199));
  EXPECT_FALSE(set.Contains(200));
}

TEST(AddressSetTest, JoinsRangesThatTouchOrOverlap) {
  AddressSet set;
  set.Insert(100, 200);
  set.Insert(300, 400);
  set.Insert(200, 250);
  set.Insert(240, 320);
  EXPECT_TRUE(set.Contains(260));
  set.Erase(100, 400);
  for (uint64_t address = 90; address < 410; ++address) {
    EXPECT_FALSE(set.Contains(address)) << address;
  }
}

TEST(AddressSetTest, SplitsARangeWhosePartGoes) {
  AddressSet set;
  set.Insert(100, 400);
  set.Erase(200, 300);
  EXPECT_TRUE(set.Contains(199));
  EXPECT_FALSE(set.Contains(200));
  EXPECT_FALSE(set.Contains(299));
  EXPECT_TRUE(set.Contains(300));
}

TEST(AddressSetTest, IgnoresEmptyRangesAndStrangersLeaving) {
  AddressSet set;
  set.Insert(100, 100);
  EXPECT_FALSE(set.Contains(100));
  set.Insert(100, 200);
  set.Erase(200, 300);
  set.Erase(0, 100);
  EXPECT_TRUE(set.Contains(100));
  EXPECT_TRUE(set.Contains(199));
}

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
