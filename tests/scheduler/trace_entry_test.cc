// Proves what a trace's state says of its plan, and what is told of it.

#include "scheduler/trace_entry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <set>
#include <string>

#include "tests/engine/fake_frontend.h"

namespace reprise::scheduler {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using State = TraceEntry::State;

class TraceEntryTest : public testing::Test {
 protected:
  ~TraceEntryTest() override { base::SetLogLevel(base::LogLevel::kWarning); }

  bool PromisesIn(State state) {
    entry_.state = state;
    return entry_.promises();
  }
  bool HasPlanIn(State state) {
    entry_.state = state;
    return entry_.has_plan();
  }

  engine::FakeFrontend frontend_;
  TraceEntry entry_{Identity{Externals(&frontend_)}};
};

TEST_F(TraceEntryTest, EachStateIsToldByWordsOfItsOwn) {
  std::set<std::string> told;
  for (int i = 0; i <= static_cast<int>(State::kGivenUp); ++i) {
    told.insert(ToString(static_cast<State>(i)));
  }
  EXPECT_EQ(told.size(), static_cast<size_t>(State::kGivenUp) + 1);
  EXPECT_FALSE(told.contains("?"));
}

TEST_F(TraceEntryTest, HasAPlanFromItsValidationOn) {
  EXPECT_FALSE(HasPlanIn(State::kBuilding));
  EXPECT_TRUE(HasPlanIn(State::kCheckOps));
  EXPECT_TRUE(HasPlanIn(State::kCheckWhole));
  EXPECT_TRUE(HasPlanIn(State::kReady));
  EXPECT_FALSE(HasPlanIn(State::kGivenUp));
}

TEST_F(TraceEntryTest, PromisesWhileAPlanIsOnItsWay) {
  EXPECT_FALSE(PromisesIn(State::kSeen));
  EXPECT_TRUE(PromisesIn(State::kRecord));
  EXPECT_TRUE(PromisesIn(State::kBuilding));
  EXPECT_TRUE(PromisesIn(State::kCheckWhole));
  EXPECT_FALSE(PromisesIn(State::kGivenUp));
  // Its plan was replaced twice before it paid: it waits to be recorded again.
  for (int i = 0; i < 2; ++i) entry_.renewal.Replaced(0);
  ASSERT_TRUE(entry_.renewal.waiting());
  EXPECT_FALSE(PromisesIn(State::kRecord));
}

TEST_F(TraceEntryTest, APlanThatIsReadyPromisesUntilItIsKnownWhetherItPays) {
  EXPECT_TRUE(PromisesIn(State::kReady));
  using std::chrono::milliseconds;
  for (int i = 0; i < 1000; ++i) {
    const Profit::Mode mode = entry_.profit.Choose(0.05);
    const auto took =
        mode == Profit::Mode::kEager ? milliseconds(10) : milliseconds(1);
    entry_.profit.Passed(mode, PassTime{took, took});
  }
  ASSERT_NE(entry_.profit.finding(), Profit::Finding::kUnknown);
  EXPECT_FALSE(PromisesIn(State::kReady));
}

TEST_F(TraceEntryTest, TwoBrokenPromisesInARowAreTooMany) {
  entry_.BrokePromise();
  entry_.KeptPromise();
  entry_.BrokePromise();
  EXPECT_TRUE(entry_.keeps_promises());
  entry_.BrokePromise();
  EXPECT_FALSE(entry_.keeps_promises());
}

TEST_F(TraceEntryTest, ComesAgainOnceSeenTwiceOrIfItsPartsDo) {
  entry_.seen = 1;
  EXPECT_FALSE(entry_.comes_again());
  entry_.joined.Become({.lo = 1}, Joined(), {});
  EXPECT_TRUE(entry_.comes_again());
  entry_.joined.ComeApart();
  entry_.seen = 2;
  EXPECT_TRUE(entry_.comes_again());
}

TEST_F(TraceEntryTest, EndsSoonBehindItsLastSixteenth) {
  entry_.ops = 32;
  EXPECT_FALSE(entry_.EndsSoonBehind(29));
  EXPECT_TRUE(entry_.EndsSoonBehind(30));
}

TEST_F(TraceEntryTest, ItsRecordingIsThePlansOnceThatHasIt) {
  EXPECT_EQ(entry_.recording(), nullptr);
  auto recording = std::make_shared<engine::Trace>(&frontend_);
  entry_.first = recording;
  EXPECT_EQ(entry_.recording(), recording);
  entry_.first.reset();
  entry_.planned = recording;
  EXPECT_EQ(entry_.recording(), recording);
  recording.reset();
  EXPECT_EQ(entry_.recording(), nullptr);
}

TEST_F(TraceEntryTest, IsToldOfByTheBeginningOfItsSignature) {
  entry_.signature = {.hi = 0x123456789abcdef0, .lo = 1};
  entry_.ops = 7;
  const auto told = [this](base::LogLevel level) {
    testing::internal::CaptureStderr();
    Say(level, entry_, "was seen");
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_THAT(told(base::LogLevel::kWarning),
              AllOf(HasSubstr(entry_.signature.ToHex().substr(0, 8) + " of 7"),
                    HasSubstr("was seen")));
  EXPECT_THAT(told(base::LogLevel::kInfo), IsEmpty());
}

}  // namespace
}  // namespace reprise::scheduler
