// Proves that the simulated device keeps the promises of a real one: work in
// the order of its stream, launches that keep the parameters they were made
// with, executable graphs that follow themselves; and that it shows misuse.

#include "tests/sim/simulated_gpu.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/sim/simulated_memory.h"

namespace reprise::sim {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;
using Pace = SimulatedStreams::Pace;

class SimulatedGpuTest : public testing::Test {
 protected:
  SimulatedGpuTest() { gpu_.streams.SetPace(Pace::kByHand); }

  uint64_t Word(uint32_t value) {
    const uint64_t address = memory_.Allocate(sizeof value);
    *SimulatedGpu::Words(address, 1) = value;
    return address;
  }
  static uint32_t At(uint64_t address) {
    return *reinterpret_cast<const uint32_t*>(address);
  }

  // An executable graph of one kernel that adds `amount` to the word at `to`.
  void MakeExec(uint64_t to, uint32_t amount) {
    CUgraph graph = nullptr;
    ASSERT_EQ(gpu_.driver.cuGraphCreate(&graph, 0), CUDA_SUCCESS);
    params_ = Params(to, amount);
    ASSERT_EQ(
        gpu_.driver.cuGraphAddKernelNode(&node_, graph, nullptr, 0, &params_),
        CUDA_SUCCESS);
    CUDA_GRAPH_INSTANTIATE_PARAMS how{};
    ASSERT_EQ(gpu_.driver.cuGraphInstantiateWithParams(&exec_, graph, &how),
              CUDA_SUCCESS);
    gpu_.driver.cuGraphDestroy(graph);
  }
  CUDA_KERNEL_NODE_PARAMS Params(uint64_t to, uint32_t amount) {
    to_ = to;
    amount_ = amount;
    CUDA_KERNEL_NODE_PARAMS params{};
    params.func = reinterpret_cast<CUfunction>(&add_);
    params.kernelParams = pointers_;
    return params;
  }

  SimulatedGpu gpu_;
  SimulatedMemory memory_{1 << 16};
  SimulatedGpu::Kernel add_ =
      SimulatedGpu::MakeKernel(+[](uint64_t to, uint32_t amount) {
        if (uint32_t* word = SimulatedGpu::Words(to, 1)) *word += amount;
      });
  SimulatedGpu::Kernel scale_ =
      SimulatedGpu::MakeKernel(+[](uint64_t to, uint32_t factor) {
        if (uint32_t* word = SimulatedGpu::Words(to, 1)) *word *= factor;
      });
  uint64_t to_ = 0;
  uint32_t amount_ = 0;
  void* pointers_[2] = {&to_, &amount_};
  CUDA_KERNEL_NODE_PARAMS params_{};
  CUgraphNode node_ = nullptr;
  CUgraphExec exec_ = nullptr;
};

TEST_F(SimulatedGpuTest, WorkIsDoneInTheOrderOfItsStreamWhenToldTo) {
  const uint64_t word = Word(1);
  gpu_.Launch(add_, word, 2u);
  gpu_.Launch(scale_, word, 10u);
  EXPECT_EQ(At(word), 1u);
  gpu_.streams.Advance(gpu_.stream, 1);
  EXPECT_EQ(At(word), 3u);
  EXPECT_EQ(gpu_.driver.cuStreamSynchronize(gpu_.stream), CUDA_SUCCESS);
  EXPECT_EQ(At(word), 30u);
}

TEST_F(SimulatedGpuTest, StreamsAreIndependent) {
  const CUstream other = gpu_.streams.Make();
  const uint64_t word = Word(1);
  gpu_.Launch(add_, word, 2u);
  gpu_.eager_stream = other;
  gpu_.Launch(scale_, word, 10u);
  gpu_.streams.Synchronize(other);
  EXPECT_EQ(At(word), 10u);
  gpu_.streams.Synchronize(gpu_.stream);
  EXPECT_EQ(At(word), 12u);
}

TEST_F(SimulatedGpuTest, EventIsReachedInStreamOrder) {
  CUevent event = nullptr;
  ASSERT_EQ(gpu_.driver.cuEventCreate(&event, 0), CUDA_SUCCESS);
  gpu_.Launch(add_, Word(1), 2u);
  ASSERT_EQ(gpu_.driver.cuEventRecord(event, gpu_.stream), CUDA_SUCCESS);
  EXPECT_EQ(gpu_.driver.cuEventQuery(event), CUDA_ERROR_NOT_READY);
  gpu_.streams.Advance(gpu_.stream, 1);
  EXPECT_EQ(gpu_.driver.cuEventQuery(event), CUDA_ERROR_NOT_READY);
  gpu_.streams.Advance(gpu_.stream, 1);
  EXPECT_EQ(gpu_.driver.cuEventQuery(event), CUDA_SUCCESS);
  // Recorded anew, and ended while that is in flight.
  ASSERT_EQ(gpu_.driver.cuEventRecord(event, gpu_.stream), CUDA_SUCCESS);
  EXPECT_EQ(gpu_.driver.cuEventQuery(event), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(gpu_.driver.cuEventDestroy(event), CUDA_SUCCESS);
  gpu_.streams.Synchronize(gpu_.stream);
  EXPECT_EQ(gpu_.objects(), 0u);
}

TEST_F(SimulatedGpuTest, LaunchInFlightKeepsTheParametersOfItsEnqueuing) {
  const uint64_t word = Word(0);
  MakeExec(word, 1);
  ASSERT_EQ(gpu_.driver.cuGraphLaunch(exec_, gpu_.stream), CUDA_SUCCESS);
  params_ = Params(word, 10);
  ASSERT_EQ(gpu_.driver.cuGraphExecKernelNodeSetParams(exec_, node_, &params_),
            CUDA_SUCCESS);
  ASSERT_EQ(gpu_.driver.cuGraphLaunch(exec_, gpu_.stream), CUDA_SUCCESS);
  ASSERT_EQ(gpu_.driver.cuGraphExecDestroy(exec_), CUDA_SUCCESS);
  gpu_.streams.Advance(gpu_.stream, 1);
  EXPECT_EQ(At(word), 1u);
  gpu_.streams.Advance(gpu_.stream, 1);
  EXPECT_EQ(At(word), 11u);
}

TEST_F(SimulatedGpuTest, ExecutableGraphFollowsItselfOnEveryStream) {
  const CUstream other = gpu_.streams.Make();
  const uint64_t word = Word(1);
  MakeExec(word, 2);
  gpu_.Launch(scale_, word, 10u);
  ASSERT_EQ(gpu_.driver.cuGraphLaunch(exec_, gpu_.stream), CUDA_SUCCESS);
  ASSERT_EQ(gpu_.driver.cuGraphLaunch(exec_, other), CUDA_SUCCESS);
  gpu_.streams.Synchronize(other);
  EXPECT_EQ(At(word), 14u);
  EXPECT_EQ(gpu_.streams.pending(gpu_.stream), 0u);
}

TEST_F(SimulatedGpuTest, RandomPaceDoesAllWorkInOrderSooner) {
  gpu_.streams.SetPace(Pace::kAtRandom, 1);
  const uint64_t word = Word(1);
  uint32_t expected = 1;
  size_t most = 0;
  bool caught_up = false;
  for (uint32_t i = 0; i < 500; ++i) {
    gpu_.Launch(add_, word, i);
    gpu_.Launch(scale_, word, 3u);
    expected = (expected + i) * 3;
    CUstreamCaptureStatus status;
    gpu_.driver.cuStreamIsCapturing(gpu_.stream, &status);
    most = std::max(most, gpu_.streams.pending(gpu_.stream));
    caught_up |= gpu_.streams.pending(gpu_.stream) == 0;
  }
  EXPECT_GT(most, 4u);
  EXPECT_TRUE(caught_up);
  gpu_.streams.Synchronize(gpu_.stream);
  EXPECT_EQ(At(word), expected);
}

TEST_F(SimulatedGpuTest, CallFailsOnceAndDoesNothing) {
  CUevent event = nullptr;
  gpu_.FailAfter(1, CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(gpu_.driver.cuEventCreate(&event, 0), CUDA_SUCCESS);
  EXPECT_EQ(gpu_.driver.cuEventRecord(event, gpu_.stream),
            CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(gpu_.failed, "cuEventRecord");
  EXPECT_EQ(gpu_.streams.pending(gpu_.stream), 0u);
  EXPECT_EQ(gpu_.driver.cuEventRecord(event, gpu_.stream), CUDA_SUCCESS);
  gpu_.driver.cuEventDestroy(event);
}

TEST_F(SimulatedGpuTest, MemoryGivenBackIsPoisonedAndTouchingItIsAFault) {
  gpu_.accessible = [this](uint64_t address, size_t size_bytes) {
    return memory_.Accessible(address, size_bytes);
  };
  const uint64_t word = Word(1);
  const uint64_t kept = Word(5);
  gpu_.Launch(add_, word, 2u);
  // Freed, but what was enqueued before may touch it; and lent again at once.
  memory_.Free(word);
  gpu_.streams.Synchronize(gpu_.stream);
  EXPECT_EQ(At(word), 3u);
  EXPECT_THAT(gpu_.faults, IsEmpty());
  EXPECT_EQ(memory_.Allocate(4), word);
  memory_.Free(word);
  memory_.GiveBack();
  EXPECT_EQ(At(word), 0xA5A5A5A5u);
  gpu_.Launch(add_, word, 2u);
  gpu_.Copy(kept, word, 4);
  gpu_.Fill(kept, 1, 5);  // one byte too many
  gpu_.streams.Synchronize(gpu_.stream);
  EXPECT_THAT(gpu_.faults, SizeIs(3));
  EXPECT_EQ(At(word), 0xA5A5A5A5u);
  EXPECT_EQ(At(kept), 5u);
  EXPECT_NE(memory_.Allocate(4), word);
  EXPECT_TRUE(memory_.GuardsAreIntact());
}

TEST_F(SimulatedGpuTest, PoolsDoNotShareMemory) {
  const uint64_t word = memory_.Allocate(4, 1);
  memory_.Free(word);
  EXPECT_NE(memory_.Allocate(4, 2), word);
  EXPECT_EQ(memory_.Allocate(4, 1), word);
  EXPECT_EQ(memory_.lent(), 2u);
}

}  // namespace
}  // namespace reprise::sim
