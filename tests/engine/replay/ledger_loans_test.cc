// What a place was lent for is over before it is used again, though the streams
// that it was lent to may have ended.

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/replay/ledger.h"
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

  // None of its streams is captured.
  std::vector<device::UniqueEvent> TakeUses() {
    auto uses = ledger_->TakeUses();
    EXPECT_TRUE(uses.has_value());
    return *std::move(uses);
  }
  // A lease that was lent to that stream ends.
  void LendAndEnd(CUstream stream) {
    Block block = ledger_->Lease(1, 0x1200);
    const Block::Parts parts = block.Detach();
    EXPECT_TRUE(Ledger::Lend(parts.context, parts.release, stream));
    parts.release(parts.context);
  }
  void BeginCapture(CUstream stream) {
    ASSERT_EQ(gpu_.driver.cuStreamBeginCapture(
                  stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
              CUDA_SUCCESS);
  }
  void EndCapture(CUstream stream) {
    CUgraph graph = nullptr;
    ASSERT_EQ(gpu_.driver.cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
    gpu_.driver.cuGraphDestroy(graph);
  }

  static inline std::vector<std::pair<uint64_t, CUstream>> kept_;
  int releases_ = 0;
  sim::SimulatedGpu gpu_;
  Ledger::Handle ledger_ = Ledger::Create(
      Arena(), 3,
      {&gpu_.driver, gpu_.context, [](uint64_t address, CUstream stream) {
         kept_.emplace_back(address, stream);
       }});
};

TEST_F(LedgerLoansTest, UsesOfALeaseAreMarkedAtItsEnd) {
  const CUstream side = NewStream();
  const CUstream other = NewStream();
  Block block = ledger_->Lease(1, 0x1200);
  const Block::Parts parts = block.Detach();
  EXPECT_TRUE(Ledger::Lend(parts.context, parts.release, side));
  EXPECT_TRUE(Ledger::Lend(parts.context, parts.release, side));
  EXPECT_TRUE(Ledger::Lend(parts.context, parts.release, other));
  EXPECT_TRUE(TakeUses().empty());  // it has not ended
  gpu_.streams.Enqueue(side, [] {});
  parts.release(parts.context);
  EXPECT_FALSE(ledger_->leased(1));
  {
    const auto uses = TakeUses();
    ASSERT_EQ(uses.size(), 2u);
    EXPECT_FALSE(Reached(uses[0]));
    gpu_.streams.Synchronize(side);
    EXPECT_TRUE(Reached(uses[0]));
    EXPECT_TRUE(TakeUses().empty());
  }
  // A later lease of the place is lent to nobody.
  block = ledger_->Lease(1, 0x1200);
  block = Block();
  EXPECT_TRUE(TakeUses().empty());
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
  auto uses = TakeUses();
  ASSERT_EQ(uses.size(), 1u);
  EXPECT_EQ(gpu_.driver.cuStreamWaitEvent(gpu_.stream, uses[0].get(), 0),
            CUDA_SUCCESS);
  ledger_->ReturnUses(std::move(uses));
  EXPECT_EQ(TakeUses().size(), 1u);
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

// An event of ours in a graph of the program's would be no mark of anything,
// and whoever waited for it would become a part of that graph.
TEST_F(LedgerLoansTest, StreamThatIsCapturedIsMarkedBehindTheCapture) {
  const CUstream side = NewStream();
  bool read = false;
  gpu_.streams.Enqueue(side, [&] { read = true; });
  BeginCapture(side);
  LendAndEnd(side);
  EXPECT_FALSE(ledger_->leased(1));
  EXPECT_FALSE(ledger_->TakeUses().has_value());
  EXPECT_FALSE(ledger_->TakeUses().has_value());
  EndCapture(side);
  EXPECT_FALSE(read);
  const auto uses = TakeUses();
  ASSERT_EQ(uses.size(), 1u);
  EXPECT_FALSE(Reached(uses[0]));
  gpu_.streams.Synchronize(side);
  EXPECT_TRUE(Reached(uses[0]));
  EXPECT_TRUE(TakeUses().empty());
  gpu_.driver.cuStreamDestroy(side);
}

TEST_F(LedgerLoansTest, UsesStayWhileAnotherStreamIsCaptured) {
  const CUstream side = NewStream();
  const CUstream other = NewStream();
  LendAndEnd(other);
  BeginCapture(side);
  LendAndEnd(side);
  EXPECT_FALSE(ledger_->TakeUses().has_value());
  EndCapture(side);
  EXPECT_EQ(TakeUses().size(), 2u);
  for (const CUstream stream : {side, other}) {
    gpu_.driver.cuStreamDestroy(stream);
  }
}

// Nobody may wait for a stream that is captured: the allocator sees to it.
TEST_F(LedgerLoansTest, ArenaThatACapturedStreamUsesIsKeptByItsAllocator) {
  const CUstream side = NewStream();
  kept_.clear();
  BeginCapture(side);
  LendAndEnd(side);
  EXPECT_TRUE(kept_.empty());
  ledger_.reset();
  EXPECT_EQ(kept_,
            (std::vector<std::pair<uint64_t, CUstream>>{{0x1000, side}}));
  EXPECT_EQ(releases_, 1);
  EndCapture(side);
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
    EXPECT_NE(read, TakeUses().size() == 1) << gpu_.failed;
    gpu_.streams.Synchronize(side);
  }
  EXPECT_TRUE(failed.contains("cuEventCreate"));
  EXPECT_TRUE(failed.contains("cuEventRecord"));
  gpu_.driver.cuStreamDestroy(side);
}

}  // namespace
}  // namespace reprise::engine
