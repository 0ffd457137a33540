// Programs that draw random numbers and set their generator in the middle of a
// pass, in every way: all is followed in the end, with eager's numbers, and the
// generator is at each op where eager has it.

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/sim/twin_run.h"

namespace reprise::sim {
namespace {

constexpr size_t kPasses = 30;

class DrawsTest : public testing::TestWithParam<Executes> {
 protected:
  // x → a → b → c → d → e, of which the second, third and last one are drawn.
  DrawsTest() {
    program_.weights = 1;
    program_.inputs = 1;
    program_.locals = 5;
    program_.keeps_locals = true;  // what was drawn is compared
    program_.lengths = {8, 200};
    const Variable w0 = 0, x0 = 1, v0 = 2, v1 = 3, v2 = 4, v3 = 5, v4 = 6;
    program_.body = {
        {.kind = OpKind::kCombine, .inputs = {x0, w0}, .outputs = {v0}},
        Draw(v0, v1, /*attribute=*/2),
        Draw(v1, v2, /*attribute=*/3),
        {.kind = OpKind::kCombine, .inputs = {v2, v1}, .outputs = {v3}},
        Draw(v3, v4, /*attribute=*/4)};
    program_.passes.assign(kPasses, Pass{.builds_at = 0});
  }

  static Line Draw(Variable from, Variable to, uint32_t attribute) {
    return {.kind = OpKind::kDraw,
            .inputs = {from},
            .outputs = {to},
            .attribute = attribute};
  }
  static Event At(int line, Event::Generator how) {
    return {.what = Event::What::kGenerator, .at = line, .generator = how};
  }
  void InEachPass(const std::vector<Event>& events) {
    for (Pass& pass : program_.passes) pass.events = events;
  }

  RunResult Run() {
    const Scenario scenario{{program_}, {.executes = GetParam()}};
    RunResult result = RunBeside(scenario.programs, scenario.options);
    EXPECT_EQ(result.failure, "") << Explain(0, scenario);
    return result;
  }
  // All of the last pass, and for some time.
  void ExpectFollowed(uint64_t squashes = 0) {
    const RunResult result = Run();
    EXPECT_EQ(result.unfollowed_ops, 0u);
    EXPECT_GT(result.stats.followed, kPasses);
    EXPECT_LE(result.stats.squashes, squashes);
    for (const std::string& complaint : result.complaints) {
      EXPECT_EQ(complaint.find("random"), std::string::npos) << complaint;
    }
  }

  Program program_;
};

TEST_P(DrawsTest, NumbersAreEagersInEachPass) { ExpectFollowed(); }

TEST_P(DrawsTest, HeadMayDraw) {
  program_.body[0] = Draw(1, 2, 3);
  ExpectFollowed();
}

TEST_P(DrawsTest, SeedThatIsSetInEachPassIsFollowed) {
  for (const auto how : {Event::Generator::kSeeds, Event::Generator::kReseeds,
                         Event::Generator::kUses}) {
    for (int line = 0; line < 5; ++line) {
      InEachPass({At(line, how)});
      SCOPED_TRACE(program_.ToString());
      ExpectFollowed();
    }
  }
}

TEST_P(DrawsTest, ForkAndTheWayBackAreFollowed) {
  InEachPass(
      {At(2, Event::Generator::kForks), At(3, Event::Generator::kJoins)});
  ExpectFollowed();
  // Back to where it was when the pass began.
  InEachPass({At(2, Event::Generator::kJoins)});
  ExpectFollowed();
}

// A plan that has held for long takes a seed that nobody has seen before.
TEST_P(DrawsTest, OtherSeedBetweenPassesCostsOneRecording) {
  for (size_t pass = 12; pass < kPasses; ++pass) {
    program_.passes[pass].events = {At(0, Event::Generator::kSeeds)};
  }
  ExpectFollowed();
  EXPECT_LE(Run().stats.recorded, 4u);
}

TEST_P(DrawsTest, SettingThatNobodySawIsLeftInTime) {
  for (const auto how : {Event::Generator::kSeeds, Event::Generator::kUses}) {
    for (int line = 0; line < 5; ++line) {
      InEachPass({});
      program_.passes[12].events = {At(line, how)};
      program_.passes[12].looks = true;
      SCOPED_TRACE(program_.ToString());
      ExpectFollowed(/*squashes=*/1);
    }
  }
}

// A hundred of them: the trace is not recorded again for each.
TEST_P(DrawsTest, SettingsNowAndThenSettle) {
  program_.passes.assign(1000, Pass{.builds_at = 0});
  for (size_t pass = 10; pass < 1000; pass += 10) {
    program_.passes[pass].events = {
        At(static_cast<int>(pass / 10 % 5), Event::Generator::kSeeds)};
  }
  const RunResult result = Run();
  EXPECT_GT(result.stats.followed, result.stats.ops * 3 / 4);
  EXPECT_LT(result.stats.recorded, 32u);
}

// Whatever two passes are recorded, a third one has the generator elsewhere.
TEST_P(DrawsTest, SeedsThatTakeTurnsSettle) {
  program_.passes.assign(300, Pass{.builds_at = 0});
  for (size_t pass = 0; pass < 300; ++pass) {
    if (pass % 3 == 1) continue;  // from where the one before has left it
    program_.passes[pass].events = {At(0, pass % 3 == 0
                                              ? Event::Generator::kReseeds
                                              : Event::Generator::kForks)};
  }
  const RunResult result = Run();
  EXPECT_GT(result.stats.followed, result.stats.ops / 2);
  EXPECT_LT(result.stats.recorded, 20u);
}

INSTANTIATE_TEST_SUITE_P(Executors, DrawsTest,
                         testing::Values(Executes::kOnHost,
                                         Executes::kOnDevice),
                         [](const auto& info) {
                           return info.param == Executes::kOnHost ? "OnHost"
                                                                  : "OnDevice";
                         });

}  // namespace
}  // namespace reprise::sim
