// Sessions, and what they are told, are the active runtime's.

#include "bindings/torch/runtime/session_source.h"

#include <gtest/gtest.h>

#include "scheduler/interrupts.h"
#include "tests/bindings/torch/host_runtime.h"

namespace reprise::bindings {
namespace {

const c10::Device kHost(c10::kCPU);
const c10::Device kGpu(c10::kCUDA, 0);

using SessionSourceTest = HostRuntimeTest;

TEST_F(SessionSourceTest, TheActiveRuntimeIsWatched) {
  const auto watched = WatchedNow();
  ASSERT_TRUE(watched.has_value());
  EXPECT_EQ(watched->kind, scheduler::DeviceKind::kHost);
  EXPECT_EQ(watched->asleep, &Active().scheduler().asleep());
  ASSERT_TRUE(ActivateRuntime(nullptr));
  EXPECT_FALSE(WatchedNow().has_value());
}

TEST_F(SessionSourceTest, SessionsAreOfTheKindThatIsServed) {
  scheduler::Session* const session = SessionFor(kHost, nullptr);
  ASSERT_NE(session, nullptr);
  EXPECT_EQ(SessionFor(kHost, nullptr), session);
  EXPECT_EQ(SessionFor(kGpu, nullptr), nullptr);
  ASSERT_TRUE(ActivateRuntime(nullptr));
  EXPECT_EQ(SessionFor(kHost, nullptr), nullptr);
}

TEST_F(SessionSourceTest, AReplayEndsWhereItsMemoryIsUsed) {
  EXPECT_EQ(SquashedBy([] {}), 0u);
  EXPECT_EQ(SquashedBy([] { InterruptSession(kHost, nullptr, "a test"); }), 1u);
  EXPECT_EQ(SquashedBy([] { InterruptSessions("a test"); }), 1u);
  EXPECT_EQ(SquashedBy([] { InterruptAnyReplay("a test"); }), 1u);
}

// Which of its memory is used there is not known.
TEST_F(SessionSourceTest, AReplayEndsWhereADeviceIsUsedThatIsNotServed) {
  EXPECT_EQ(SquashedBy([] { InterruptSession(kGpu, nullptr, "a test"); }), 1u);
}

TEST_F(SessionSourceTest, AReplayEndsBeforeAnotherOpWritesAnything) {
  EXPECT_EQ(SquashedBy([] { BeforeUnknownWrites(nullptr); }), 1u);
}

TEST_F(SessionSourceTest, OneStreamHasNobodyToTell) {
  Learn();
  EXPECT_FALSE(OthersAreTold());
  engine::OpView op;
  op.cut = "a test";
  scheduler::HostWait wait;
  EXPECT_EQ(SquashedBy([&] {
              BeforeOp(SessionFor(kHost, nullptr), op, /*may_wait=*/true, wait);
            }),
            0u);
}

// Such as what the program had enqueued before a runtime was active.
TEST_F(SessionSourceTest,
       AReplayEndsWhereTheHostMayHaveWaitedForUnwatchedWork) {
  const auto wait_for_all = [] {
    scheduler::HostWait wait;
    Active().scheduler().interrupts().NoteWaitForDevice(0, wait);
    HostHasWaited(wait);
  };
  // One of which no memory was used unseen.
  base::Options options = HostOptions();
  options.margin = 0.5;
  ASSERT_TRUE(EnableRuntime({scheduler::DeviceKind::kHost}, options));
  Learn();
  wait_for_all();
  EXPECT_EQ(SquashedBy(wait_for_all), 0u);
  NoteUnwatchedWork();
  EXPECT_EQ(SquashedBy(wait_for_all), 1u);
  EXPECT_EQ(SquashedBy(wait_for_all), 0u) << "it has been waited for";
}

TEST_F(SessionSourceTest, WhereNoRuntimeIsActiveNobodyIsTold) {
  ASSERT_TRUE(ActivateRuntime(nullptr));
  engine::OpView op;
  scheduler::HostWait wait;
  EXPECT_FALSE(OthersAreTold());
  BeforeOp(nullptr, op, /*may_wait=*/true, wait);
  HostHasWaited(wait);
  PassOver(1);
  BeforeUnknownWrites(nullptr);
  NoteUnwatchedWork();
  InterruptSession(kHost, nullptr, "a test");
  InterruptSessions("a test");
  InterruptAnyReplay("a test");
  EXPECT_EQ(TorchRuntime::Active(), nullptr);
}

}  // namespace
}  // namespace reprise::bindings
