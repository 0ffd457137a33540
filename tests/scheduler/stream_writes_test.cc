#include "scheduler/stream_writes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace reprise::scheduler {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Says by what it was interrupted.
class FakeSession final : public Session {
 public:
  Action Enter(const engine::OpView&) override { return Action::kCut; }
  Action EnterTold(const engine::OpView&) override { return Action::kCut; }
  bool wants_call() const override { return false; }
  void Leave(const engine::OpView&, std::span<const engine::ResultView>,
             std::unique_ptr<engine::Call>) override {}
  void Abandon(const engine::OpView&) override {}
  bool Interrupt(const char*) override {
    ++interrupts;
    return true;
  }
  void InterruptIfUsed(const MemoryRanges& memory, const char*) override {
    for (const MemoryRange& range : memory.all()) asked.push_back(range.begin);
  }
  engine::Block TakeBlock(engine::ValueId) override { return {}; }
  void Own(engine::ValueId, engine::StorageToken) override {}
  engine::GeneratorState drawn() const override { return {}; }

  std::vector<uint64_t> TakeAsked() { return std::exchange(asked, {}); }

  std::vector<uint64_t> asked;
  int interrupts = 0;
};

class StreamWritesTest : public testing::Test {
 protected:
  StreamWritesTest() {
    writes_.Add(&a_);
    writes_.Add(&b_);
    writes_.Add(&c_);
  }

  // A cut on b's stream that writes there.
  void Write(uint64_t base, bool waits = false) {
    engine::Operand operands[2];
    operands[0].base = base;
    operands[0].storage_bytes = 64;
    operands[0].written = true;
    operands[1].base = 0x99;  // only read
    engine::OpView op;
    op.operands = operands;
    writes_.BeforeOp(&b_, op, waits);
  }
  void WaitFor(Session* session) {
    writes_.AfterWait(writes_.BeforeWait(session));
  }
  void Wait() { writes_.BeforeOp(&b_, {}, /*waits=*/true); }
  // What is not forgotten: another one is told of it when the host waits.
  std::vector<uint64_t> Kept() {
    a_.asked.clear();
    Wait();
    return a_.TakeAsked();
  }

  FakeSession a_, b_, c_;
  OpsUnderWay book_;
  StreamWrites writes_{&book_};
};

TEST_F(StreamWritesTest, OthersAreToldBeforeAWrite) {
  Write(0x100);
  EXPECT_THAT(a_.asked, ElementsAre(0x100));
  EXPECT_THAT(c_.asked, ElementsAre(0x100));
  EXPECT_THAT(b_.asked, IsEmpty());
}

TEST_F(StreamWritesTest, OthersAreToldAgainWhenTheHostWaits) {
  Write(0x100);
  Write(0x200);
  EXPECT_THAT(Kept(), ElementsAre(0x100, 0x200));
  Write(0x300, /*waits=*/true);
  EXPECT_THAT(a_.asked, ElementsAre(0x300, 0x100, 0x200, 0x300));
}

// An event may have led from the writer's stream to the one that is waited for.
TEST_F(StreamWritesTest, WaitingForAnyStreamTellsOfAllThatWasWritten) {
  Write(0x100);
  a_.asked.clear();
  c_.asked.clear();
  (void)writes_.BeforeWait(&c_);
  EXPECT_THAT(a_.TakeAsked(), ElementsAre(0x100));
  (void)writes_.BeforeWait(nullptr);
  EXPECT_THAT(a_.TakeAsked(), ElementsAre(0x100));
  EXPECT_THAT(c_.asked, ElementsAre(0x100, 0x100));
}

TEST_F(StreamWritesTest, WhatIsDoneIsForgotten) {
  Write(0x100);
  WaitFor(&b_);
  a_.asked.clear();
  WaitFor(&b_);  // nothing has been written since
  Wait();
  EXPECT_THAT(a_.asked, IsEmpty());
}

// A pass that begins during the wait reads what is not written yet.
TEST_F(StreamWritesTest, OthersAreToldAgainWhenTheHostHasWaited) {
  Write(0x100);
  const uint64_t wait = writes_.BeforeWait(&b_);
  a_.asked.clear();
  writes_.AfterWait(wait);
  EXPECT_THAT(a_.TakeAsked(), ElementsAre(0x100));
  writes_.AfterWait(0);
  EXPECT_THAT(a_.asked, IsEmpty());
}

TEST_F(StreamWritesTest, WhatIsWrittenDuringAWaitIsKept) {
  Write(0x100);
  const uint64_t wait = writes_.BeforeWait(&b_);
  Write(0x200);
  writes_.AfterWait(wait);
  EXPECT_THAT(Kept(), ElementsAre(0x200));
}

TEST_F(StreamWritesTest, EachWaitForgetsWhatWasWrittenBeforeIt) {
  Write(0x100);
  const uint64_t first = writes_.BeforeWait(&b_);
  Write(0x200);
  const uint64_t second = writes_.BeforeWait(&b_);
  Write(0x300);
  writes_.AfterWait(first);
  EXPECT_THAT(Kept(), ElementsAre(0x200, 0x300));
  writes_.AfterWait(second);
  EXPECT_THAT(Kept(), ElementsAre(0x300));
}

TEST_F(StreamWritesTest, ALaterWaitForgetsForThoseBefore) {
  uint64_t last = 0;
  for (uint64_t i = 1; i <= 20; ++i) {
    Write(0x1000 * i);
    last = writes_.BeforeWait(&b_);
  }
  EXPECT_EQ(Kept().size(), 20u);
  writes_.AfterWait(last);
  EXPECT_THAT(Kept(), IsEmpty());
}

// It may be enqueued behind what the host waits for.
TEST_F(StreamWritesTest, WhatAnOpUnderWayWritesIsKept) {
  OpsUnderWay::Slot* const slot = book_.Acquire();
  slot->BeginAnything();
  Write(0x100);
  WaitFor(&b_);
  slot->End();
  EXPECT_THAT(Kept(), ElementsAre(0x100));
  WaitFor(&b_);
  EXPECT_THAT(Kept(), IsEmpty());
}

TEST_F(StreamWritesTest, PlacesThatAreWrittenAgainAreKeptOnce) {
  for (int i = 0; i < 1000; ++i) Write(0x100);
  EXPECT_THAT(Kept(), ElementsAre(0x100));
  EXPECT_EQ(a_.interrupts, 0);
}

TEST_F(StreamWritesTest, WhatIsTooMuchToBeToldApartMayBeAnything) {
  for (uint64_t i = 0; i < 1100; ++i) Write(0x1000 * (i + 1));
  EXPECT_EQ(a_.interrupts, 0);
  a_.asked.clear();
  Wait();
  EXPECT_EQ(a_.interrupts, 1);
  EXPECT_EQ(b_.interrupts, 0);
  EXPECT_THAT(a_.asked, IsEmpty());
  WaitFor(&b_);
  EXPECT_EQ(a_.interrupts, 3);  // before and behind the wait
  Wait();
  EXPECT_EQ(a_.interrupts, 3);
}

}  // namespace
}  // namespace reprise::scheduler
