// What an op's work gives, run twice upon the same bits.

#include "engine/replay/run_twice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <functional>
#include <set>
#include <vector>

#include "engine/backend/host_backend.h"
#include "tests/engine/fake_executor.h"
#include "tests/engine/fake_frontend.h"

namespace reprise::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int64_t kSizes[] = {4};
constexpr int64_t kStrides[] = {1};
using Numbers = std::array<float, 4>;

uint64_t AddressOf(Numbers& numbers) {
  return reinterpret_cast<uint64_t>(numbers.data());
}

// Memory of the host.
class HeapFrontend : public FakeFrontend {
 public:
  base::Result<Block> Allocate(size_t size_bytes) override {
    if (allocations_left == 0) return FakeFrontend::Allocate(size_bytes);
    void* memory = std::calloc(size_bytes, 1);
    return Block(reinterpret_cast<uint64_t>(memory), memory, &std::free);
  }
};

// Its only op is what a test says, on memory of the host.
class OneOp : public FakeExecutor {
 public:
  explicit OneOp(std::function<void()> op)
      : FakeExecutor(nullptr), op_(std::move(op)) {}

  base::Status LaunchOp(size_t) override {
    ++runs;
    op_();
    return {};
  }
  base::Status Copy(uint64_t to, uint64_t from,
                    const kernels::Layout& layout) override {
    kernels::CopyOnHost(reinterpret_cast<void*>(to),
                        reinterpret_cast<const void*>(from), layout);
    return {};
  }
  base::Status Compare(uint64_t eager, uint64_t replayed,
                       const kernels::Layout& layout, Alike alike,
                       uint32_t tag) override {
    if (!AlikeOnHost(eager, replayed, layout, alike)) differing.insert(tag);
    return {};
  }

  int runs = 0;
  std::set<uint32_t> differing;

 private:
  std::function<void()> op_;
};

class RunTwiceTest : public testing::Test {
 protected:
  static constexpr TwiceTags kTags{.op = 3, .repeated = 7};

  // Of `plans_`, beside `eagers_`.
  base::Status Run(OneOp& executor, bool outside = false) {
    kernels::Layout layout = kernels::MakeLayout(kSizes, kStrides, 4);
    layout.element = kernels::Element::kFloat32;
    const WrittenPair pair{.eager = AddressOf(eagers_),
                           .replayed = AddressOf(plans_),
                           .layout = layout,
                           .outside = outside};
    return RunTwice(frontend_, executor, kTags, {&pair, 1}, [&] {
      ++put_back_;
      if (outside) plans_ = {1, 2, 3, 4};
      return base::Status{};
    });
  }

  HeapFrontend frontend_;
  Numbers plans_{1, 2, 3, 4};
  Numbers eagers_{};
  int put_back_ = 0;
};

TEST_F(RunTwiceTest, BothRunsBeginWithTheSameBits) {
  for (const bool outside : {false, true}) {
    OneOp doubles([this] {
      for (float& number : plans_) number *= 2;
    });
    plans_ = {1, 2, 3, 4};
    eagers_ = {2, 4, 6, 8};
    ASSERT_TRUE(Run(doubles, outside));
    EXPECT_EQ(doubles.runs, 2);
    EXPECT_THAT(plans_, ElementsAre(2, 4, 6, 8));
    EXPECT_THAT(doubles.differing, IsEmpty());
  }
  EXPECT_EQ(put_back_, 2);
}

TEST_F(RunTwiceTest, OneThatRepeatsItselfHasToGiveEagersBits) {
  OneOp doubles([this] {
    for (float& number : plans_) number *= 2;
  });
  eagers_ = {2, 4, 6, 9};
  ASSERT_TRUE(Run(doubles));
  EXPECT_THAT(doubles.differing, ElementsAre(kTags.op));
}

TEST_F(RunTwiceTest, OneThatDoesNotHasToComeAsCloseAsItIsToItself) {
  const auto off_by = [this](float eager, float share) {
    float off = 1;
    OneOp varies([&, this] {
      off += share;
      for (float& number : plans_) number *= 2 * off;
    });
    plans_ = {1, 2, 3, 4};
    for (size_t i = 0; i < 4; ++i) eagers_[i] = 2 * plans_[i] * (1 + eager);
    EXPECT_TRUE(Run(varies));
    return varies.differing;
  };
  constexpr float kSome = 0x1p-18f;
  EXPECT_THAT(off_by(kSome, kSome), ElementsAre(kTags.repeated));
  EXPECT_THAT(off_by(5 * kSome, kSome), ElementsAre(kTags.repeated));
  EXPECT_THAT(off_by(40 * kSome, kSome), ElementsAre(kTags.op, kTags.repeated));
  // And never further than another order of a sum explains.
  constexpr float kMuch = 0x1p-8f;
  EXPECT_THAT(off_by(0, kMuch), ElementsAre(kTags.op, kTags.repeated));
}

TEST_F(RunTwiceTest, WithoutMemoryNothingIsRun) {
  OneOp nothing([] {});
  frontend_.allocations_left = 0;
  const base::Status run = Run(nothing);
  ASSERT_FALSE(run);
  EXPECT_EQ(run.error().code(), base::Code::kResourceExhausted);
  EXPECT_EQ(nothing.runs, 0);
}

}  // namespace
}  // namespace reprise::engine
