// Graphs get their arguments in every way, and become other graphs, on the
// simulated driver.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bindings/native/reprise.h"
#include "bindings/native/runtime_core.h"
#include "bindings/native/stream_core.h"
#include "tests/bindings/native/simulated_runtime.h"
#include "tests/engine/batch/patching_fixture.h"
#include "tests/sim/simulated_gpu.h"

namespace reprise::native {
namespace {

using engine::PatchingTest;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Step = void(float*, const float*, float);

// --- Fills and copies -------------------------------------------------------

template <typename T>
class FillTest : public testing::Test {
 protected:
  void Make(Patching patching = Patching::kSetParams) {
    runtime_ = RuntimeOn(MakeCudaDevice(gpu_.driver, gpu_.context), patching);
    stream_ =
        std::make_shared<StreamCore>(runtime_, gpu_.stream, /*owned=*/false);
  }

  sim::SimulatedGpu gpu_;
  std::shared_ptr<RuntimeCore> runtime_;
  std::shared_ptr<StreamCore> stream_;
};
using Elements = testing::Types<uint8_t, uint16_t, uint32_t, float>;
TYPED_TEST_SUITE(FillTest, Elements);

// Whatever its value and its addresses are: one graph.
TYPED_TEST(FillTest, ValuesAndAddressesArePatched) {
  using T = TypeParam;
  for (const Patching patching :
       {Patching::kSetParams, Patching::kExecUpdate}) {
    SCOPED_TRACE(ToString(patching));
    this->Make(patching);
    constexpr size_t kCount = 5;
    for (uint32_t call = 0; call < 8; ++call) {
      // Every byte is another one.
      const auto value = static_cast<T>(0x10203040u + 0x01010101u * call);
      std::vector<std::vector<T>> memory(4, std::vector<T>(kCount));
      std::vector<T>& filled = memory[call % 2];
      std::vector<T>& copied = memory[2 + call % 2];
      Batch batch(this->stream_);
      batch.Fill(Out(filled.data(), kCount - 1), value);
      batch.Copy(Out(copied.data() + 1, kCount - 1),
                 In(filled.data(), kCount - 1));
      ASSERT_TRUE(batch.Submit());
      this->runtime_->queue().WaitIdle(std::nullopt);
      const auto v = value;
      EXPECT_THAT(filled, ElementsAre(v, v, v, v, T{}));
      EXPECT_THAT(copied, ElementsAre(T{}, v, v, v, v));
    }
    EXPECT_EQ(this->stream_->batches().stats().built, 1u);
    EXPECT_EQ(this->stream_->batches().stats().replayed, 6u);
    EXPECT_EQ(this->stream_->batches().plans()[0].patching, patching);
  }
}

// Another size is another batch: the driver may refuse to change it.
TYPED_TEST(FillTest, SizesAreNotPatched) {
  using T = TypeParam;
  this->Make();
  for (size_t call = 0; call < 8; ++call) {
    std::vector<T> memory(4);
    const size_t count = 2 + call % 2;
    Batch batch(this->stream_);
    batch.Fill(Out(memory.data(), count), T{7});
    batch.Fill(Out(memory.data() + 3, 1), T{9});
    ASSERT_TRUE(batch.Submit());
    this->runtime_->queue().WaitIdle(std::nullopt);
    EXPECT_THAT(memory, ElementsAre(T{7}, T{7}, count == 3 ? T{7} : T{}, T{9}));
  }
  EXPECT_EQ(this->stream_->batches().stats().built, 2u);
  EXPECT_EQ(this->stream_->batches().stats().replayed, 4u);
}

TYPED_TEST(FillTest, PlanTakesItsValueFromSet) {
  using T = TypeParam;
  this->Make();
  std::vector<T> memory(4);
  Batch batch(this->stream_);
  const uint32_t fill = batch.Fill(Out(memory.data(), 2), T{3});
  auto plan = batch.Prepare();
  ASSERT_TRUE(plan);
  ASSERT_TRUE(plan->Set(fill, 1, T{5}));
  ASSERT_TRUE(plan->Launch());
  EXPECT_THAT(memory, ElementsAre(T{5}, T{5}, T{}, T{}));
  ASSERT_TRUE(plan->Set(fill, 0, memory.data() + 2));
  ASSERT_TRUE(plan->Set(fill, 1, T{6}));
  ASSERT_TRUE(plan->Launch());
  EXPECT_THAT(memory, ElementsAre(T{5}, T{5}, T{6}, T{6}));

  const Status wide = plan->Set(fill, 1, uint64_t{5});
  ASSERT_FALSE(wide);
  EXPECT_EQ(wide.error().message(),
            "argument 1 of launch 0 is of type " +
                engine::ParamType::Of<T>().Spelled() + ", not " +
                engine::ParamType::Of<uint64_t>().Spelled());
  EXPECT_FALSE(plan->Set(fill, 2, T{}));
}

// --- Takeovers of one batch's graph by another -------------------------------

class TakeoverTest : public PatchingTest {
 protected:
  Status Submit(const std::shared_ptr<engine::KernelCode>& kernel, float by,
                uint32_t grid = 1) {
    Status submitted = stream_->batches().Submit(Record(kernel, by, 3, grid));
    runtime_->queue().WaitIdle(std::nullopt);
    return submitted;
  }

  const std::shared_ptr<RuntimeCore> runtime_ =
      RuntimeOn(MakeCudaDevice(gpu_.driver, gpu_.context));
  const std::shared_ptr<StreamCore> stream_ =
      std::make_shared<StreamCore>(runtime_, gpu_.stream, /*owned=*/false);
};

TEST_F(TakeoverTest, BatchesThatNeverComeAgainHaveOneGraph) {
  for (int call = 0; call < 4; ++call) {
    ASSERT_TRUE(Submit(add_code_, 1));
    ExpectSums(1);
  }
  // Other grids each time: plain until the first graph is idle.
  for (uint32_t grid = 2; grid < 40; ++grid) {
    ASSERT_TRUE(Submit(add_code_, static_cast<float>(grid), grid));
    ExpectSums(static_cast<float>(grid));
  }
  EXPECT_GT(stream_->batches().stats().taken_over, 20u);
  EXPECT_EQ(stream_->batches().stats().built, 1u);
  EXPECT_EQ(gpu_.execs().size(), 1u);
  ASSERT_EQ(stream_->batches().plans().size(), 1u);
  EXPECT_EQ(stream_->batches().plans()[0].taken_over,
            stream_->batches().stats().taken_over);
  // Another function.
  std::fill(memory_.begin(), memory_.end(), 7.0f);
  ASSERT_TRUE(Submit(multiply_code_, 2));
  EXPECT_EQ(memory_[3], 7.0f * 2 * 3 * 4);
}

TEST_F(TakeoverTest, GraphsInUseAreLeftAlone) {
  for (int call = 0; call < 40; ++call) {
    ASSERT_TRUE(Submit(add_code_, 1, 1));
    ASSERT_TRUE(Submit(add_code_, 1, 2));
  }
  EXPECT_EQ(stream_->batches().stats().taken_over, 0u);
  EXPECT_EQ(stream_->batches().plans().size(), 2u);
}

TEST_F(TakeoverTest, RefusalLeavesTheGraphAsItWas) {
  for (int call = 0; call < 4; ++call) ASSERT_TRUE(Submit(add_code_, 1));
  gpu_.refuses_updates = true;
  std::fill(memory_.begin(), memory_.end(), 0.0f);
  for (uint32_t grid = 2; grid < 40; ++grid) {
    ASSERT_TRUE(Submit(add_code_, static_cast<float>(grid), grid));
    ExpectSums(static_cast<float>(grid));
  }
  EXPECT_EQ(stream_->batches().stats().taken_over, 0u);
  EXPECT_THAT(stream_->batches().plans()[0].why_not, HasSubstr("a takeover"));
  const int launches = gpu_.graph_launches;
  ASSERT_TRUE(Submit(add_code_, 4));
  ExpectSums(4);
  EXPECT_EQ(gpu_.graph_launches, launches + 1);
}

// The graph names memory that is freed by then, so that it cannot be described
// as it was.
TEST_F(TakeoverTest, RefusalLeavesAGraphOfFreedMemoryAsItWas) {
  for (const Patching patching :
       {Patching::kSetParams, Patching::kExecUpdate}) {
    SCOPED_TRACE(ToString(patching));
    const auto runtime =
        RuntimeOn(MakeCudaDevice(gpu_.driver, gpu_.context), patching);
    const auto stream =
        std::make_shared<StreamCore>(runtime, gpu_.stream, /*owned=*/false);
    const float* freed = nullptr;
    gpu_.accessible = [&](uint64_t address, size_t) {
      return address != reinterpret_cast<uint64_t>(freed);
    };
    // by, by + 1 and by + 2 are added to a zero.
    const auto submit = [&](float* zero, float by, uint32_t grid) {
      Batch batch(stream);
      batch.Fill(Out(zero, 1), 0.0f);
      for (size_t i = 0; i < 3; ++i) {
        batch.Launch(
            Kernel<Step>(add_code_), {.grid = {grid}}, Out(&memory_[i + 1], 1),
            In(i == 0 ? zero : &memory_[i], 1), by + static_cast<float>(i));
      }
      ASSERT_TRUE(batch.Submit());
      runtime->queue().WaitIdle(std::nullopt);
      ExpectSums(by);
    };
    float first = 1, second = 1, third = 1;
    for (int call = 0; call < 4; ++call) submit(&first, 1, 1);
    freed = &first;
    gpu_.refuses_updates = true;
    for (uint32_t grid = 2; grid < 40; ++grid) {
      submit(&second, static_cast<float>(grid), grid);
    }
    EXPECT_EQ(stream->batches().stats().taken_over, 0u);
    gpu_.refuses_updates = false;
    const int launches = gpu_.graph_launches;
    submit(&third, 1, 1);  // all but the zero's place as it was
    submit(&third, 4, 1);
    EXPECT_EQ(gpu_.graph_launches, launches + 2);
    EXPECT_EQ(stream->batches().stats().built, 1u);
    gpu_.accessible = nullptr;
  }
}

TEST_F(TakeoverTest, EveryDriverCallMayFailOnce) {
  for (int calls = 0; calls < 400; ++calls) {
    SCOPED_TRACE(testing::Message() << "after " << calls << " calls");
    gpu_.FailAfter(calls % 30);
    for (uint32_t batch = 0; batch < 3; ++batch) {
      const auto by = static_cast<float>(batch);
      if (Submit(add_code_, by, 2 + calls)) {
        ExpectSums(by);
      } else {
        std::fill(memory_.begin(), memory_.end(), 0.0f);
      }
    }
    gpu_.FailAfter(-1);
    ASSERT_TRUE(Submit(add_code_, 3, 2 + calls));
    ExpectSums(3);
  }
  EXPECT_GT(stream_->batches().stats().taken_over, 50u);
}

}  // namespace
}  // namespace reprise::native
