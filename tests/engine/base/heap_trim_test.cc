// What the C library keeps between blocks that last is given back.

#include "engine/base/heap_trim.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <barrier>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

namespace reprise::base {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kOtherHeap = true;
#else
constexpr bool kOtherHeap = false;
#endif

constexpr size_t kLarge = size_t{400} << 10;
constexpr int kBlocks = 400;  // 156 MiB

struct Free {
  void operator()(void* block) const { std::free(block); }
};
using Memory = std::unique_ptr<void, Free>;

Memory Touched(size_t size_bytes) {
  Memory block(std::malloc(size_bytes));
  std::memset(block.get(), 1, size_bytes);
  return block;
}

class HeapTrimTest : public testing::Test {
 protected:
  void SetUp() override {
    if (kOtherHeap) GTEST_SKIP() << "a sanitizer's heap";
    mallopt(M_MMAP_THRESHOLD, 1 << 30);  // blocks lie in the heap
  }

  // Blocks that last, beside large ones that have gone.
  std::vector<Memory> lasting_;
  void Fragment() {
    std::vector<Memory> large;
    for (int i = 0; i < kBlocks; ++i) {
      large.push_back(Touched(kLarge));
      lasting_.push_back(Touched(64));
    }
  }
};

TEST_F(HeapTrimTest, GivesBackWhatLiesBetweenLastingBlocks) {
  HeapTrim trim;
  trim.AfterLastingBlocks();
  const size_t before = ResidentBytes();
  Fragment();
  const size_t fragmented = ResidentBytes();
  EXPECT_GT(fragmented, before + kBlocks * kLarge / 2);
  trim.AfterLastingBlocks();
  EXPECT_LT(ResidentBytes(), before + kBlocks * kLarge / 8);
}

TEST_F(HeapTrimTest, LeavesProcessesThatDidNotGrow) {
  Fragment();
  HeapTrim trim;
  trim.AfterLastingBlocks();
  const size_t before = ResidentBytes();
  for (std::vector<Memory> few; few.size() < 10;)
    few.push_back(Touched(kLarge));
  trim.AfterLastingBlocks();
  EXPECT_GE(ResidentBytes(), before + 5 * kLarge);
}

// With a heap that is not the C library's (a sanitizer's, here), glibc would
// set its own up at the first trim, and without a lock.
TEST(HeapTrimThreadsTest, AreTheFirstAtOnce) {
  constexpr int kThreads = 4;
  const Memory grown = Touched(size_t{128} << 20);
  std::barrier start(kThreads);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&start] {
      HeapTrim trim;
      start.arrive_and_wait();
      trim.AfterLastingBlocks();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(ResidentBytes(), 0u);
}

}  // namespace
}  // namespace reprise::base
