// Proves what a batch holds of each launch, and which mistakes it keeps.

#include "engine/batch/batch_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string>

#include "engine/batch/batch_event.h"
#include "engine/batch/kernel_code.h"

namespace reprise::engine {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class NoEvent final : public BatchEvent {
 public:
  NoEvent() : BatchEvent(nullptr, /*recorded=*/false) {}
};

class BatchRecordTest : public testing::Test {
 protected:
  // The mistake of the batch, which is empty then; empty if it has none.
  std::string TakeMistake() {
    const std::string mistake = record_.mistake().value_or("");
    record_.Clear();
    return mistake;
  }
  std::string MistakeOf(const LaunchConfig& config) {
    record_.AddKernel(&kernel_, config, 0);
    return TakeMistake();
  }
  template <typename T>
  static ParamType TypeOf(const T&) {
    return ParamType::Of<T>();
  }

  BatchRecord record_;
  KernelCode kernel_{"raise", {}};
  std::array<float, 8> memory_{};
};

TEST_F(BatchRecordTest, ArgumentsLieWhereAnyMayBeReadInPlace) {
  for (const uint32_t bytes : {1u, 20u, 8u}) {
    std::byte* image = record_.AddKernel(&kernel_, {}, bytes);
    std::memset(image, static_cast<int>(bytes), bytes);
    record_.EndLaunch();
  }
  ASSERT_THAT(record_.nodes(), SizeIs(3));
  for (const Node& node : record_.nodes()) {
    EXPECT_EQ(node.image_begin % 16, 0u);
    for (uint32_t i = 0; i < node.image_bytes; ++i) {
      EXPECT_EQ(record_.image()[node.image_begin + i],
                static_cast<std::byte>(node.image_bytes));
    }
  }
}

TEST_F(BatchRecordTest, ACopyReadsAndWritesWhatItNames) {
  EXPECT_EQ(record_.AddCopy(&memory_[0], &memory_[4], 3, sizeof(float)), 0u);
  const Node& node = record_.nodes()[0];
  EXPECT_EQ(node.kind, Node::Kind::kCopy);
  EXPECT_EQ(node.width, 12u);
  ASSERT_EQ(node.accesses, 2u);
  const Access& to = record_.accesses()[node.access_begin];
  const Access& from = record_.accesses()[node.access_begin + 1];
  EXPECT_EQ(to.begin, reinterpret_cast<uint64_t>(&memory_[0]));
  EXPECT_EQ(to.written, 1u);
  EXPECT_EQ(from.begin, reinterpret_cast<uint64_t>(&memory_[4]));
  EXPECT_EQ(from.written, 0u);
  EXPECT_EQ(from.bytes, 12u);
  EXPECT_EQ(TakeMistake(), "");
  record_.AddCopy(&memory_[0], &memory_[2], 3, sizeof(float));
  EXPECT_THAT(TakeMistake(), HasSubstr("begins 8 bytes from their own"));
  record_.AddCopy(&memory_[0], &memory_[2], 0, sizeof(float));
  EXPECT_EQ(TakeMistake(), "launch 0 (copy) copies nothing: leave it out");
}

TEST_F(BatchRecordTest, AFillRepeatsAtMostFourBytes) {
  const auto fill = [this](auto value) {
    record_.AddFill(memory_.data(), 2, TypeOf(value), &value);
    const Node& node = record_.nodes().back();
    return std::array<uint64_t, 3>{
        node.element_bytes, node.width,
        BatchRecord::ValueIn(record_.image().data() + node.image_begin)};
  };
  using Expected = std::array<uint64_t, 3>;
  EXPECT_EQ(fill(uint8_t{7}), (Expected{1, 2, 7}));
  EXPECT_EQ(fill(uint16_t{0x1234}), (Expected{2, 2, 0x1234}));
  EXPECT_EQ(fill(1.0f), (Expected{4, 2, 0x3f80'0000}));
  EXPECT_EQ(fill(uint64_t{0x7'0000'0007}), (Expected{4, 4, 7}));
  ASSERT_THAT(record_.fills(), SizeIs(4));
  EXPECT_EQ(record_.fills()[3].node, 3u);
  EXPECT_EQ(TakeMistake(), "");
  fill(1.0);
  EXPECT_THAT(TakeMistake(), HasSubstr("with 0x3ff0000000000000, whose halves "
                                       "differ"));
}

TEST_F(BatchRecordTest, CountsThatNoDeviceTakesAreTold) {
  EXPECT_EQ(MistakeOf({.grid = {1u << 31}, .shared_bytes = (1u << 31) - 1}),
            "");
  EXPECT_EQ(MistakeOf({.grid = {1, 0}}),
            "launch 0 (kernel 'raise') has a grid of 0 in direction 1: give 1 "
            "or more, or leave the launch out");
  EXPECT_EQ(MistakeOf({.block = {-2}}),
            "launch 0 (kernel 'raise') has a block of -2 in direction 0, no "
            "device takes less than 1");
  EXPECT_THAT(MistakeOf({.grid = {(int64_t{1} << 31) + 1}}),
              HasSubstr("a grid of 2147483649 in direction 0, no device takes "
                        "so many"));
  EXPECT_THAT(MistakeOf({.shared_bytes = -1}),
              HasSubstr("-1 bytes of dynamic shared memory, no device takes "
                        "less than 0"));
  EXPECT_THAT(MistakeOf({.shared_bytes = int64_t{1} << 31}),
              HasSubstr("no device takes so many"));
}

TEST_F(BatchRecordTest, AClusterDividesTheGrid) {
  EXPECT_EQ(MistakeOf({.grid = {8, 6}, .cluster = {4, 3}}), "");
  EXPECT_THAT(MistakeOf({.grid = {8, 6}, .cluster = {4, 4}}),
              HasSubstr("has a cluster of 4 blocks in direction 1, which does "
                        "not divide the grid of 6"));
}

TEST_F(BatchRecordTest, ArgumentsThatNameNoMemoryAreTold) {
  record_.AddKernel(&kernel_, {}, 0);
  record_.AddAccess(nullptr, 1, 4, true, 2);
  EXPECT_THAT(TakeMistake(), HasSubstr("has a null pointer as argument 2"));
  record_.AddKernel(&kernel_, {}, 0);
  record_.AddAccess(memory_.data(), ~uint64_t{0} / 4, 4, true, 1);
  EXPECT_THAT(TakeMistake(), HasSubstr("which go beyond the last address"));
  record_.AddKernel(&kernel_, {}, 0);
  record_.RefuseValue(3, -1, /*is_integer=*/true, ParamType::Of<unsigned>());
  EXPECT_THAT(TakeMistake(), HasSubstr("has -1 as argument 3, which the "
                                       "parameter's type, unsigned int"));
}

TEST_F(BatchRecordTest, TheFirstMistakeIsKept) {
  record_.AddKernel(&kernel_, {}, 0);
  record_.EndLaunch();
  record_.AddKernel(&kernel_, {}, 0);
  record_.Refuse("is wrong");
  record_.AddCopy(nullptr, nullptr, 0, 4);
  EXPECT_EQ(TakeMistake(), "launch 1 (kernel 'raise') is wrong");
}

TEST_F(BatchRecordTest, CapturesAreTheSameByTheirKeys) {
  const auto nodes = [this](int value) {
    record_.Clear();
    const CaptureKey key(value);
    record_.AddCapture(&key, [](CUstream) { return base::Status(); });
    EXPECT_FALSE(record_.has_unknown_work());
    return record_.nodes();
  };
  const auto of_one = nodes(1);
  const auto of_two = nodes(2);
  EXPECT_FALSE(record_.SameNodes(of_one));
  EXPECT_TRUE(record_.SameNodes(of_two));
  EXPECT_EQ(BatchRecord::CaptureIn(record_.image().data()), 0u);
  record_.AddCapture(nullptr, [](CUstream) { return base::Status(); });
  EXPECT_TRUE(record_.has_unknown_work());
  EXPECT_THAT(record_.captures(), SizeIs(2));
}

TEST_F(BatchRecordTest, EventsKeepTheirPlaceAndLiveOn) {
  auto event = std::make_shared<NoEvent>();
  const std::weak_ptr<NoEvent> alive = event;
  record_.AddWait(event);
  record_.AddPoint(std::move(event));
  EXPECT_FALSE(alive.expired());
  EXPECT_EQ(record_.nodes()[0].kind, Node::Kind::kWait);
  EXPECT_EQ(record_.nodes()[1].kind, Node::Kind::kRecord);
  EXPECT_EQ(record_.nodes()[1].ordered, 1u);
  EXPECT_EQ(record_.points().at(0).node, 1u);
  EXPECT_EQ(&BatchEvent::In(record_.image().data()),
            record_.waits().at(0).event.get());
  record_.Clear();
  EXPECT_TRUE(alive.expired());
}

TEST_F(BatchRecordTest, NothingIsLeftOfABatchThatWasCleared) {
  const float value = 0;
  record_.SetName("step");
  record_.AddFill(memory_.data(), 0, TypeOf(value), &value);
  record_.AddCapture(nullptr, nullptr);
  record_.Clear();
  EXPECT_THAT(record_.name(), IsEmpty());
  EXPECT_THAT(record_.nodes(), IsEmpty());
  EXPECT_THAT(record_.accesses(), IsEmpty());
  EXPECT_THAT(record_.image(), IsEmpty());
  EXPECT_THAT(record_.fills(), IsEmpty());
  EXPECT_THAT(record_.captures(), IsEmpty());
  EXPECT_FALSE(record_.has_unknown_work());
  EXPECT_FALSE(record_.mistake().has_value());
}

}  // namespace
}  // namespace reprise::engine
