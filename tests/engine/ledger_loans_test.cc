// What a place was lent for is over before it is used again, though the streams
// that it was lent to may have ended.

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>

#include "engine/ledger.h"
#include "tests/sim/simulated_gpu.h"

namespace reprise::engine {
namespace {

// On a simulated device, whose driver refuses streams that have ended.
class LedgerLoansTest : public testing::Test {
 protected:
  LedgerLoansTest() {
    gpu_.streams.SetPace(sim::SimulatedStreams::Pace::kByHand);
  }
  // Memory that counts how often it is released.
  Block Arena() {
    return Block(0x1000, &releases_,
                 [](void* releases) { ++*static_cast<int*>(releases); });
  }
  CUstream NewStream() {
    CUstream stream = nullptr;
    EXPECT_EQ(gpu_.driver.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING),
              CUDA_SUCCESS);
    return stream;
  }
  bool Reached(const device::UniqueEvent& use) {
    return gpu_.driver.cuEventQuery(use.get()) == CUDA_SUCCESS;
  }

  int releases_ = 0;
  sim::SimulatedGpu gpu_;
  Ledger::Handle ledger_ =
      Ledger::Create(Arena(), 3, {&gpu_.driver, gpu_.context});
};

TEST_F(LedgerLoansTest, UsesOfALeaseAreMarkedAtItsEnd) {
  const CUstream side = NewStream();
  const CUstream other = NewStream();
  Block block = ledger_->Lease(1, 0x1200);
  const Block::Parts parts = block.Detach();
  EXPECT_TRUE(Ledger::Lend(parts.context, parts.release, side));
  EXPECT_TRUE(Ledger::Lend(parts.context, parts.release, side));
  EXPECT_TRUE(Ledger::Lend(parts.context, parts.release, other));
  EXPECT_TRUE(ledger_->TakeUses().empty());  // it has not ended
  gpu_.streams.Enqueue(side, [] {});
  parts.release(parts.context);
  EXPECT_FALSE(ledger_->leased(1));
  {
    const auto uses = ledger_->TakeUses();
    ASSERT_EQ(uses.size(), 2u);
    EXPECT_FALSE(Reached(uses[0]));
    gpu_.streams.Synchronize(side);
    EXPECT_TRUE(Reached(uses[0]));
    EXPECT_TRUE(ledger_->TakeUses().empty());
  }
  // A later lease of the place is lent to nobody.
  block = ledger_->Lease(1, 0x1200);
  block = Block();
  EXPECT_TRUE(ledger_->TakeUses().empty());
  for (const CUstream stream : {side, other}) {
    gpu_.driver.cuStreamDestroy(stream);
  }
}

TEST_F(LedgerLoansTest, StreamMayEndBehindTheLeaseThatWasLentToIt) {
  const CUstream side = NewStream();
  Block block = ledger_->Lease(1, 0x1200);
  const Block::Parts parts = block.Detach();
  EXPECT_TRUE(Ledger::Lend(parts.context, parts.release, side));
  parts.release(parts.context);
  gpu_.driver.cuStreamDestroy(side);
  auto uses = ledger_->TakeUses();
  ASSERT_EQ(uses.size(), 1u);
  EXPECT_EQ(gpu_.driver.cuStreamWaitEvent(gpu_.stream, uses[0].get(), 0),
            CUDA_SUCCESS);
  ledger_->ReturnUses(std::move(uses));
  EXPECT_EQ(ledger_->TakeUses().size(), 1u);
}

// The allocator that gets the arena does not know who read it.
TEST_F(LedgerLoansTest, ArenaIsReleasedBehindAllUsesOfIt) {
  const CUstream side = NewStream();
  Block block = ledger_->Lease(1, 0x1200);
  const Block::Parts parts = block.Detach();
  EXPECT_TRUE(Ledger::Lend(parts.context, parts.release, side));
  int releases_when_read = -1;
  gpu_.streams.Enqueue(side, [&] { releases_when_read = releases_; });
  ledger_.reset();
  EXPECT_EQ(releases_, 0);
  parts.release(parts.context);
  EXPECT_EQ(releases_when_read, 0);
  EXPECT_EQ(releases_, 1);
  gpu_.driver.cuStreamDestroy(side);
}

TEST_F(LedgerLoansTest, EndThatCannotBeMarkedWaitsForTheDevice) {
  const CUstream side = NewStream();
  std::set<std::string> failed;
  for (int calls = 0; calls < 8; ++calls) {
    Block block = ledger_->Lease(1, 0x1200);
    const Block::Parts parts = block.Detach();
    EXPECT_TRUE(Ledger::Lend(parts.context, parts.release, side));
    bool read = false;
    gpu_.streams.Enqueue(side, [&] { read = true; });
    gpu_.failed.clear();
    gpu_.FailAfter(calls);
    parts.release(parts.context);
    gpu_.FailAfter(-1);
    failed.insert(gpu_.failed);
    EXPECT_FALSE(ledger_->leased(1));
    EXPECT_NE(read, ledger_->TakeUses().size() == 1) << gpu_.failed;
    gpu_.streams.Synchronize(side);
  }
  EXPECT_TRUE(failed.contains("cuEventCreate"));
  EXPECT_TRUE(failed.contains("cuEventRecord"));
  gpu_.driver.cuStreamDestroy(side);
}

}  // namespace
}  // namespace reprise::engine
