// Proves that a light and a heavy fence order two threads' stores and loads.

#include "engine/base/asymmetric_fence.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <thread>

namespace reprise::base {
namespace {

constexpr size_t kRounds = 4000;

// Each on a cache line of its own, so that a store takes a while.
struct alignas(64) Word {
  std::atomic<int> value{0};
};

class AsymmetricFenceTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!AllowsHeavyFence()) GTEST_SKIP() << "the kernel allows no fences";
  }
};

TEST_F(AsymmetricFenceTest, EveryThreadMayHaveHeavyFences) {
  EXPECT_TRUE(HeavyFence());
  std::thread([] {
    EXPECT_TRUE(AllowsHeavyFence());
    EXPECT_TRUE(HeavyFence());
  }).join();
}

TEST_F(AsymmetricFenceTest, OneOfTwoThreadsSeesTheOthersStore) {
  struct Side {
    Word round;
    std::unique_ptr<Word[]> stored = std::make_unique<Word[]>(kRounds);
    std::unique_ptr<int[]> seen = std::make_unique<int[]>(kRounds);
  };
  Side light;
  Side heavy;
  const auto run = [](Side& own, Side& other, auto fence) {
    for (size_t i = 0; i < kRounds; ++i) {
      own.round.value.store(static_cast<int>(i) + 1);
      while (other.round.value.load() <= static_cast<int>(i)) {
      }
      own.stored[i].value.store(1, std::memory_order_relaxed);
      fence();
      own.seen[i] = other.stored[i].value.load(std::memory_order_relaxed);
    }
  };
  std::thread frequent([&] { run(light, heavy, [] { LightFence(); }); });
  run(heavy, light, [] { EXPECT_TRUE(HeavyFence()); });
  frequent.join();
  int neither = 0;
  for (size_t i = 0; i < kRounds; ++i) {
    neither += light.seen[i] == 0 && heavy.seen[i] == 0 ? 1 : 0;
  }
  EXPECT_EQ(neither, 0);
}

}  // namespace
}  // namespace reprise::base
