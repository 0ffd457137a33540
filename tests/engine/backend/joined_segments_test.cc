// Proves that joined launches do what their executor's do, as these are bound.

#include "engine/backend/joined_segments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tests/sim/simulated_gpu.h"

namespace reprise::engine {
namespace {

using ::testing::ElementsAre;

// An executor of four launches, each of which fills a word with its number and
// one; the two in the middle are joined.
class JoinedSegmentsTest : public testing::Test {
 protected:
  JoinedSegmentsTest() {
    for (uint32_t i = 0; i < 4; ++i) {
      device::Launch& launch = launches_.emplace_back();
      launch.kind = device::Launch::Kind::kMemset;
      launch.image.resize(sizeof(uint64_t));
      launch.value = i + 1;
      launch.element_bytes = 4;
      launch.width = 1;
      Bind(i, i);
    }
    joined_.emplace(gpu_.driver, gpu_.context, 1,
                    std::span(launches_).subspan(1, 2), std::nullopt,
                    frees_.Look());
  }
  ~JoinedSegmentsTest() override {
    joined_.reset();
    EXPECT_EQ(gpu_.objects(), 0u);
  }

  void Bind(uint32_t launch, size_t word) {
    launches_[launch].SetWord(0, reinterpret_cast<uint64_t>(&memory_[word]));
  }

  sim::SimulatedGpu gpu_;
  LibraryFrees frees_;
  std::vector<uint32_t> memory_ = std::vector<uint32_t>(6);
  std::vector<device::Launch> launches_;
  std::optional<JoinedSegments> joined_;
};

TEST_F(JoinedSegmentsTest, TheyAreLaunchedAsOneGraph) {
  EXPECT_EQ(joined_->size(), 2u);
  EXPECT_FALSE(joined_->ready());
  joined_->Build();
  ASSERT_TRUE(joined_->ready());
  ASSERT_TRUE(joined_->Launch(launches_, gpu_.stream));
  EXPECT_THAT(memory_, ElementsAre(0, 2, 3, 0, 0, 0));
  EXPECT_EQ(gpu_.graph_launches, 1);
}

TEST_F(JoinedSegmentsTest, WhatWasBoundAnewIsTakenOverOnce) {
  joined_->Build();
  Bind(2, 5);
  joined_->MarkDirty(2);
  joined_->MarkDirty(2);
  joined_->MarkDirty(0);  // others of the executor's
  joined_->MarkDirty(3);
  ASSERT_TRUE(joined_->Launch(launches_, gpu_.stream));
  EXPECT_THAT(memory_, ElementsAre(0, 2, 0, 0, 0, 3));
  EXPECT_EQ(gpu_.updates, 1);
  ASSERT_TRUE(joined_->Launch(launches_, gpu_.stream));
  EXPECT_EQ(gpu_.updates, 1);
}

// The executor goes on to patch its own while they are built.
TEST_F(JoinedSegmentsTest, TheyAreBuiltAsTheyWereBoundWhenJoined) {
  Bind(1, 4);
  joined_->Build();
  ASSERT_TRUE(joined_->Launch(launches_, gpu_.stream));
  EXPECT_THAT(memory_, ElementsAre(0, 2, 3, 0, 0, 0));
  joined_->MarkDirty(1);
  ASSERT_TRUE(joined_->Launch(launches_, gpu_.stream));
  EXPECT_EQ(memory_[4], 2u);
}

TEST_F(JoinedSegmentsTest, AFailedUpdateIsMadeGoodByTheNextLaunch) {
  joined_->Build();
  Bind(1, 4);
  Bind(2, 5);
  joined_->MarkDirty(1);
  joined_->MarkDirty(2);
  int failures = 0;
  gpu_.FailAfter(0);
  while (!joined_->Launch(launches_, gpu_.stream)) ++failures;
  EXPECT_EQ(failures, 1);
  EXPECT_THAT(memory_, ElementsAre(0, 0, 0, 0, 2, 3));
}

TEST_F(JoinedSegmentsTest, TheyStayApartWhereALibraryHasFreedKernels) {
  frees_.Announce();
  joined_->Build();
  EXPECT_FALSE(joined_->ready());
  EXPECT_THAT(gpu_.calls, testing::IsEmpty());
}

TEST_F(JoinedSegmentsTest, WhateverCallFailsTheyAreRightOrStayApart) {
  int apart = 0;
  for (int calls = 0;; ++calls) {
    gpu_.failed.clear();
    gpu_.FailAfter(calls);
    JoinedSegments joined(gpu_.driver, gpu_.context, 1,
                          std::span(launches_).subspan(1, 2), std::nullopt,
                          frees_.Look());
    joined.Build();
    gpu_.FailAfter(-1);
    if (!joined.ready()) {
      ++apart;
      continue;
    }
    memory_.assign(6, 0);
    ASSERT_TRUE(joined.Launch(launches_, gpu_.stream)) << gpu_.failed;
    EXPECT_THAT(memory_, ElementsAre(0, 2, 3, 0, 0, 0)) << gpu_.failed;
    if (gpu_.failed.empty()) break;
  }
  // Of a stream, the graph, its two launches, and of having it run once.
  EXPECT_GE(apart, 5);
}

TEST_F(JoinedSegmentsTest, BuildingBreaksNoCapture) {
  gpu_.capturing = true;
  joined_->Build();
  gpu_.capturing = false;
  EXPECT_TRUE(joined_->ready());
  EXPECT_EQ(gpu_.broken_captures, 0);
  EXPECT_FALSE(gpu_.upload_streams.contains(gpu_.stream));
}

}  // namespace
}  // namespace reprise::engine
