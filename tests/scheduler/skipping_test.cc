// Ops that nobody is shown are found by a replay that begins once they are
// shown again, with and without the kernel's help.

#include "scheduler/skipping.h"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <thread>

#include "scheduler/ops_under_way.h"

namespace reprise::scheduler {
namespace {

// From here on the kernel refuses membarrier to this process.
bool RefuseMembarrier() {
  std::array<sock_filter, 4> filter = {{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  const sock_fprog program{.len = filter.size(), .filter = filter.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

constexpr int kMostDelay = 4096;  // some microseconds

void Delay(int turns) {
  for (int i = 0; i < turns; ++i)
    std::atomic_signal_fence(std::memory_order_seq_cst);
}

// Thread B skips ops; thread A has them shown again, and looks whether one that
// was skipped is under way. True if each op was found or shown.
bool EachOpIsFoundOrShown(int rounds) {
  OpsUnderWay book;
  OpsUnderWay::Slot* const slot = book.Acquire();
  Skipping skipping;
  std::atomic<int> round{0};   // that A has begun
  std::atomic<int> noted{0};   // whose op B has skipped or shown
  std::atomic<int> looked{0};  // that A has looked in
  bool skipped = false;
  // Both spin, so that they meet within some nanoseconds, anywhere within the
  // microsecond that the kernel's fence takes.
  const auto await = [](const std::atomic<int>& at, int i) {
    for (int spins = 0; at.load(std::memory_order_acquire) != i; ++spins) {
      if (spins > 10'000) std::this_thread::yield();
    }
  };
  std::thread thread([&] {
    for (int i = 1; i <= rounds; ++i) {
      await(round, i);
      Delay(i * 61 % kMostDelay);
      slot->NoteAnything();
      skipped = skipping.StillOn();
      noted.store(i, std::memory_order_release);
      await(looked, i);
      slot->End();
    }
  });
  int skips = 0;
  bool right = true;
  for (int i = 1; i <= rounds; ++i) {
    skipping.Begin();
    round.store(i, std::memory_order_release);
    Delay(i / kMostDelay % 64);
    right &= skipping.End();
    const bool found = !book.EmptyFor(DeviceKind::kHost);
    await(noted, i);
    right &= found || !skipped;
    skips += skipped ? 1 : 0;
    looked.store(i, std::memory_order_release);
  }
  thread.join();
  std::printf("%d of %d ops were skipped\n", skips, rounds);
  return right;
}

TEST(SkippingTest, IsOnBetweenBeginAndEnd) {
  Skipping skipping;
  EXPECT_FALSE(skipping.on());
  EXPECT_TRUE(skipping.End());
  for (int i = 0; i < 3; ++i) {
    skipping.Begin();
    EXPECT_TRUE(skipping.on());
    EXPECT_TRUE(skipping.StillOn());
    EXPECT_TRUE(skipping.End());
    EXPECT_FALSE(skipping.on());
    EXPECT_FALSE(skipping.StillOn());
  }
  EXPECT_TRUE(Skipping(/*on=*/true).on());
}

TEST(SkippingTest, AnOpIsFoundOrShown) {
  EXPECT_TRUE(EachOpIsFoundOrShown(100'000));
}

// In processes of their own, which begin anew.
class SkippingDeathTest : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

  [[noreturn]] static void Exit(bool right) { _exit(right ? 0 : 1); }
};

TEST_F(SkippingDeathTest, AnOpIsFoundOrShownWhereMembarrierIsRefused) {
  EXPECT_EXIT(Exit(RefuseMembarrier() && !base::AllowsHeavyFence() &&
                   EachOpIsFoundOrShown(100'000)),
              testing::ExitedWithCode(0), "");
}

TEST_F(SkippingDeathTest, StaysOnWhereMembarrierIsRefusedMeanwhile) {
  if (!base::AllowsHeavyFence()) GTEST_SKIP() << "membarrier is refused here";
  Skipping skipping;
  EXPECT_EXIT(Exit(base::AllowsHeavyFence() &&
                   (skipping.Begin(), RefuseMembarrier()) && !skipping.End() &&
                   skipping.on() && skipping.StillOn() && !skipping.End()),
              testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace reprise::scheduler
