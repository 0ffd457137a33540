// Forks of an op's stream: what its launches wait for.

#include "engine/device/forked_streams.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <optional>
#include <vector>

namespace reprise::device {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsNull;
using ::testing::Optional;
using ::testing::UnorderedElementsAre;

CUstream Stream(uintptr_t value) { return std::bit_cast<CUstream>(value); }
CUevent Event(uintptr_t value) { return std::bit_cast<CUevent>(value); }

class ForkedStreamsTest : public ::testing::Test {
 protected:
  // `to` waits for all that `from` has done by now.
  void Order(CUstream from, CUstream to, CUevent event = Event(1)) {
    EXPECT_THAT(streams_.Record(from, event), IsNull());
    EXPECT_THAT(streams_.Wait(to, event), IsNull());
  }
  // How many launches back those are that this one waits for.
  std::optional<std::vector<uint32_t>> Launch(CUstream stream) {
    std::optional<std::vector<uint32_t>> behind;
    EXPECT_THAT(streams_.Launch(stream, behind), IsNull());
    return behind;
  }

  const CUstream own_ = Stream(0x100);
  const CUstream a_ = Stream(0x200);
  const CUstream b_ = Stream(0x300);
  ForkedStreams streams_{own_};
};

TEST_F(ForkedStreamsTest, OneStreamIsALine) {
  EXPECT_EQ(Launch(own_), std::nullopt);
  EXPECT_EQ(Launch(own_), std::nullopt);
  EXPECT_THAT(streams_.End(), IsNull());
}

TEST_F(ForkedStreamsTest, LaunchesWaitForTheirStreamAndItsEvents) {
  EXPECT_EQ(Launch(own_), std::nullopt);
  Order(own_, a_);
  Order(own_, b_);
  EXPECT_THAT(Launch(a_), Optional(ElementsAre(1)));
  EXPECT_THAT(Launch(b_), Optional(ElementsAre(2)));
  EXPECT_THAT(Launch(a_), Optional(ElementsAre(2)));
  EXPECT_THAT(Launch(own_), Optional(ElementsAre(4)));
  Order(a_, own_);
  Order(b_, own_);
  EXPECT_THAT(Launch(own_), Optional(UnorderedElementsAre(1, 2, 3)));
  EXPECT_THAT(Launch(own_), Optional(ElementsAre(1)));
  EXPECT_THAT(streams_.End(), IsNull());
}

// What is behind one launch that is waited for is not waited for again.
TEST_F(ForkedStreamsTest, OnlyTheNewestIsWaitedFor) {
  Launch(own_);
  Order(own_, a_);
  Launch(a_);
  Order(a_, b_, Event(2));
  EXPECT_THAT(Launch(b_), Optional(ElementsAre(1)));
  Order(a_, own_, Event(3));
  Order(b_, own_, Event(4));
  EXPECT_THAT(Launch(own_), Optional(ElementsAre(1)));
}

// Whatever the first launch waits for, which nobody here knows.
TEST_F(ForkedStreamsTest, NoLaunchIsBeforeTheFirst) {
  Order(own_, a_);
  EXPECT_EQ(Launch(a_), std::nullopt);
  EXPECT_THAT(Launch(own_), Optional(ElementsAre(1)));
  Order(own_, b_);
  EXPECT_THAT(Launch(b_), Optional(ElementsAre(1)));
}

TEST_F(ForkedStreamsTest, AnotherStreamMustWaitForTheOp) {
  std::optional<std::vector<uint32_t>> behind;
  EXPECT_THAT(streams_.Launch(a_, behind), HasSubstr("another stream"));
  EXPECT_THAT(streams_.Record(a_, Event(1)), HasSubstr("another stream"));
}

TEST_F(ForkedStreamsTest, EventsAreTheOpsOwn) {
  EXPECT_THAT(streams_.Wait(own_, Event(1)), HasSubstr("before the op"));
  EXPECT_THAT(streams_.Wait(a_, Event(1)), HasSubstr("before the op"));
}

TEST_F(ForkedStreamsTest, WhatIsNotJoinedIsRefused) {
  Order(own_, a_);
  EXPECT_THAT(streams_.End(), IsNull());  // it has done nothing
  Launch(a_);
  EXPECT_THAT(streams_.End(), HasSubstr("nothing waits for"));
  Order(a_, own_);
  EXPECT_THAT(streams_.End(), IsNull());
  Launch(a_);  // behind the event
  EXPECT_THAT(streams_.End(), HasSubstr("nothing waits for"));
}

// The op's stream waits for one that has waited for the other.
TEST_F(ForkedStreamsTest, JoinsGoThroughOtherStreams) {
  Order(own_, a_);
  Launch(a_);
  Order(a_, b_, Event(2));
  Launch(b_);
  EXPECT_THAT(streams_.End(), HasSubstr("nothing waits for"));
  Order(b_, own_, Event(3));
  EXPECT_THAT(streams_.End(), IsNull());
}

// An event means what its last record says.
TEST_F(ForkedStreamsTest, EventsAreRecordedAgain) {
  Order(own_, a_);
  Launch(a_);
  EXPECT_THAT(streams_.Record(a_, Event(2)), IsNull());
  EXPECT_THAT(streams_.Record(own_, Event(2)), IsNull());
  EXPECT_THAT(streams_.Wait(own_, Event(2)), IsNull());
  EXPECT_THAT(streams_.End(), HasSubstr("nothing waits for"));
}

// An event from before a stream was forked knows nothing of it.
TEST_F(ForkedStreamsTest, EventsAreOlderThanForks) {
  EXPECT_THAT(streams_.Record(own_, Event(1)), IsNull());
  EXPECT_THAT(streams_.Wait(a_, Event(1)), IsNull());
  Launch(a_);
  EXPECT_THAT(streams_.Wait(own_, Event(1)), IsNull());
  EXPECT_THAT(streams_.End(), HasSubstr("nothing waits for"));
}

}  // namespace
}  // namespace reprise::device
