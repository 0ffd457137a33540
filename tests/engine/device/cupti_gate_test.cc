// Proves that the gate closes only around one thread, and that the others wait.

#include "engine/device/cupti_gate.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace reprise::device {
namespace {

TEST(CuptiGateTest, ClosesOnlyAroundTheOneThatIsInside) {
  EXPECT_FALSE(CuptiGate::TryClose());  // nobody is
  CuptiGate::Enter();
  std::thread([] {
    CuptiGate::Enter();
    EXPECT_FALSE(CuptiGate::TryClose());
    CuptiGate::Leave();
  }).join();
  ASSERT_TRUE(CuptiGate::TryClose());
  EXPECT_FALSE(CuptiGate::TryClose());
  CuptiGate::Open();
  EXPECT_TRUE(CuptiGate::TryClose());
  CuptiGate::Open();
  CuptiGate::Leave();
}

TEST(CuptiGateTest, NobodyComesInWhileItIsClosed) {
  constexpr int kThreads = 4;
  constexpr int kVisits = 5000;
  std::atomic<int> visitors{kThreads};
  std::atomic<bool> closed{false};
  std::atomic<int> seen_closed{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kVisits; ++i) {
        CuptiGate::Enter();
        seen_closed += closed ? 1 : 0;
        CuptiGate::Leave();
      }
      --visitors;
    });
  }
  int times_closed = 0;
  while (visitors > 0 || times_closed == 0) {
    CuptiGate::Enter();
    if (CuptiGate::TryClose()) {
      ++times_closed;
      closed = true;
      std::this_thread::yield();
      closed = false;
      CuptiGate::Open();
    }
    CuptiGate::Leave();
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(seen_closed, 0);
}

TEST(CuptiGateTest, WhoWaitsComesInOnceItIsOpen) {
  CuptiGate::Enter();
  ASSERT_TRUE(CuptiGate::TryClose());
  std::atomic<bool> open{false};
  std::thread other([&open] {
    CuptiGate::Enter();
    EXPECT_TRUE(open);
    CuptiGate::Leave();
  });
  for (int i = 0; i < 1000; ++i) std::this_thread::yield();
  open = true;
  CuptiGate::Open();
  other.join();
  EXPECT_TRUE(CuptiGate::TryClose());  // it has left
  CuptiGate::Open();
  CuptiGate::Leave();
}

}  // namespace
}  // namespace reprise::device
