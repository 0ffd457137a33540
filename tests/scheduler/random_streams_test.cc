// Proves on random programs that a stream through a session gives what the
// plain stream gives, whatever happens to it on the way.
//
// REPRISE_RANDOM_OPS=<count> goes on with further seeds until so many ops have
// been seen on each executor.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/sim/twin_run.h"

namespace reprise::sim {
namespace {

constexpr uint32_t kSeeds = 60;

uint64_t OpsWanted() {
  const char* text = std::getenv("REPRISE_RANDOM_OPS");
  return text == nullptr ? 0 : std::strtoull(text, nullptr, 10);
}

// A program whose passes are all alike, with outputs that it holds and inputs
// that move.
Program CalmProgram(uint32_t seed, size_t passes) {
  return RandomProgram(seed, {.passes = passes, .calm = true});
}

bool HasCuts(const RunResult& result) {
  for (const std::string& reason : result.complaints) {
    if (reason == "writes memory that its trace did not make") return true;
  }
  return false;
}

// A replay did not begin, because another thread was inside an op.
bool LeftAPassToEager(const RunResult& result) {
  return std::ranges::any_of(result.complaints, [](const std::string& note) {
    return note.find("another thread was inside an op") != std::string::npos;
  });
}

// A build would copy out of memory that has gone back to the device.
bool CopiesFromGone(const RunResult& result) {
  return std::ranges::any_of(result.complaints, [](const std::string& reason) {
    return reason.find("cuGraphAddMemcpyNode") != std::string::npos;
  });
}

class RandomStreamsTest : public testing::TestWithParam<Executes> {
 protected:
  // Of all runs of the test.
  void Add(const RunResult& result) {
#define REPRISE_ADD(name, meaning) sum_.stats.name += result.stats.name;
    REPRISE_STATS(REPRISE_ADD)
#undef REPRISE_ADD
    sum_.ops += result.ops;
    sum_.evictions += result.evictions;
    if (LeftAPassToEager(result)) ++left_to_eager_;
    sum_.backend.late_externals += result.backend.late_externals;
    sum_.backend.sharing += result.backend.sharing;
    sum_.backend.restored_ops += result.backend.restored_ops;
    sum_.backend.numbers += result.backend.numbers;
    sum_.backend.draws += result.backend.draws;
    sum_.backend.privates += result.backend.privates;
  }

  // More than so many, but none on the host executor, which overwrites nothing
  // ahead.
  void ExpectRestoredOps(uint64_t more_than) {
    if (GetParam() == Executes::kOnHost) {
      EXPECT_EQ(sum_.backend.restored_ops, 0u);
    } else {
      EXPECT_GT(sum_.backend.restored_ops, more_than);
    }
  }

  // At the end of a program whose passes are all like `pass`, all is followed
  // but for the ops that are cuts of their own.
  void ExpectReplayOf(const Pass& pass) {
    for (uint32_t seed = 0; seed < kSeeds; ++seed) {
      Program program = CalmProgram(seed, 20);
      program.passes.assign(20, pass);
      if (pass.gives_back_at >= 0) {
        // A build that copies out of what came from the host would find it
        // gone.
        for (Line& line : program.body) {
          if (line.kind == OpKind::kBring) line.kind = OpKind::kFill;
        }
      }
      const Scenario scenario{{program},
                              {.executes = GetParam(), .seed = seed}};
      const RunResult result = RunBeside(scenario.programs, scenario.options);
      ASSERT_EQ(result.failure, "") << Explain(seed, scenario);
      if (pass.gives_back_at >= 0 && CopiesFromGone(result)) {
        ++copies_from_gone_;
        continue;
      }
      EXPECT_GT(result.stats.replays, 0u) << seed << "\n" << program.ToString();
      if (HasCuts(result)) continue;
      EXPECT_EQ(result.unfollowed_ops, 0u) << seed << "\n"
                                           << program.ToString();
      Add(result);
    }
    EXPECT_GT(sum_.stats.followed, kSeeds * 50u);
    // Of what the pass before left, and an op that is a copy reads first.
    EXPECT_LT(copies_from_gone_, kSeeds / 20);
  }

  uint32_t copies_from_gone_ = 0;  // programs
  uint32_t left_to_eager_ = 0;     // the same
  RunResult sum_;
};

TEST_P(RandomStreamsTest, GiveWhatPlainStreamsGive) {
  const uint64_t ops = OpsWanted();
  for (uint32_t seed = 0; seed < 2 * kSeeds || sum_.ops < ops; ++seed) {
    const Scenario scenario = ScenarioOf(seed, GetParam());
    const RunResult result = RunBeside(scenario.programs, scenario.options);
    ASSERT_EQ(result.failure, "") << Explain(seed, scenario);
    Add(result);
  }
  // The test has not passed by doing nothing.
  EXPECT_GT(sum_.stats.replays, 300u);
  EXPECT_GT(sum_.stats.followed, 3000u);
  EXPECT_GT(sum_.stats.unshown, 500u);
  EXPECT_GT(sum_.stats.squashes, 30u);
  EXPECT_GT(sum_.stats.escapes, 300u);
  EXPECT_GT(sum_.stats.validated, 100u);
  EXPECT_GT(sum_.evictions, 5u);
  EXPECT_GT(sum_.backend.late_externals, 20u);
  EXPECT_GT(sum_.backend.sharing, 5u);
  EXPECT_GT(left_to_eager_, 2u);
  EXPECT_GT(sum_.stats.effects, 50u);
  EXPECT_GT(sum_.backend.privates, 10u);
  ExpectRestoredOps(5);
  EXPECT_GT(sum_.backend.numbers, 40u);
  // The host executor runs them where the generator is.
  if (GetParam() == Executes::kOnDevice) {
    EXPECT_GT(sum_.backend.draws, 300u);
  } else {
    EXPECT_EQ(sum_.backend.draws, 0u);
  }
}

TEST_P(RandomStreamsTest, RepetitionEndsInReplay) {
  ExpectReplayOf({.builds_at = 0});
}

// The program gives free memory back to the device before each pass, and with
// it what recordings used: the driver makes no graph of that.
TEST_P(RandomStreamsTest, RepetitionThatGivesMemoryBackEndsInReplay) {
  ExpectReplayOf({.builds_at = 1, .gives_back_at = 0});
}

// Inputs lie elsewhere at every pass, and results are held.
TEST_P(RandomStreamsTest, RepetitionOnMovingInputsEndsInReplay) {
  for (uint32_t seed = 0; seed < kSeeds; ++seed) {
    Program program = CalmProgram(seed, 40);
    program.preamble.clear();
    for (Pass& pass : program.passes) pass.builds_at = 0;
    const Scenario scenario{{program}, {.executes = GetParam(), .seed = seed}};
    const RunResult result = RunBeside(scenario.programs, scenario.options);
    ASSERT_EQ(result.failure, "") << Explain(seed, scenario);
    EXPECT_GT(result.stats.replays, 0u) << seed << "\n" << program.ToString();
    Add(result);
  }
  EXPECT_GT(sum_.stats.followed, sum_.stats.ops / 2);
}

// Numbers that are others at every pass end no trace and make none.
TEST_P(RandomStreamsTest, RepetitionWithOtherNumbersEndsInReplay) {
  for (uint32_t seed = 0; seed < kSeeds; ++seed) {
    Program program = CalmProgram(seed, 24);
    program.passes.assign(24, Pass{.builds_at = 0});
    for (Line& line : program.body) {
      // Beyond those by which ops choose.
      line.attribute += 2;
      // No kernel holds that of kTwice.
      if (HasNumber(line.kind) && line.kind != OpKind::kTwice) {
        line.grows = 1 + seed % 3;
      }
    }
    const Scenario scenario{{program}, {.executes = GetParam(), .seed = seed}};
    const RunResult result = RunBeside(scenario.programs, scenario.options);
    ASSERT_EQ(result.failure, "") << Explain(seed, scenario);
    Add(result);
  }
  EXPECT_GT(sum_.stats.followed, sum_.stats.ops / 3);
  EXPECT_GT(sum_.backend.numbers, kSeeds * 10u);
}

// The program leaves before each op of its body, in each of the passes in which
// a plan is made, validated and replayed; the inputs of other passes are gone.
TEST_P(RandomStreamsTest, LeavingAnywhereGivesPlainResults) {
  for (uint32_t seed = 0; seed < 4; ++seed) {
    const Program calm = CalmProgram(seed, 14);
    for (size_t line = 0; line < calm.body.size(); ++line) {
      for (size_t at = 2; at < 10; ++at) {
        Program program = calm;
        for (Pass& pass : program.passes) {
          pass.builds_at = 0;
          pass.uploads = seed % 2 == 1;
          pass.gives_back_at = 0;
        }
        program.passes[at].leaves_at = static_cast<int>(line);
        program.passes[at].looks = true;
        const Scenario scenario{{program},
                                {.executes = GetParam(), .seed = seed}};
        const RunResult result = RunBeside(scenario.programs, scenario.options);
        ASSERT_EQ(result.failure, "") << Explain(seed, scenario);
        Add(result);
      }
    }
  }
  EXPECT_GT(sum_.stats.squashes, 30u);
  ExpectRestoredOps(5);
}

// A trace takes its second input late, and each pass's inputs are gone when the
// next one begins: a segment that waits for the second one must not be launched
// by another op that comes in its place, be it in a validation or in a replay.
TEST_P(RandomStreamsTest, LateExternalOfAnotherPassIsNotTouched) {
  Program program;
  program.weights = 1;
  program.inputs = 2;
  program.locals = 4;
  program.lengths = {8, 40, 40};
  const Variable w0 = 0, x0 = 1, x1 = 2, v0 = 3, v1 = 4, v2 = 5, v3 = 6;
  program.body = {
      {.kind = OpKind::kCombine, .inputs = {x0, w0}, .outputs = {v0}},
      {.kind = OpKind::kScale, .inputs = {v0}, .outputs = {v1}},
      {.kind = OpKind::kCombine, .inputs = {x1, v1}, .outputs = {v2}},
      {.kind = OpKind::kScale, .inputs = {v2}, .outputs = {v3}}};
  program.detour = {{.kind = OpKind::kScale, .inputs = {v1}, .outputs = {v3}}};
  for (size_t at = 2; at < 12; ++at) {
    program.passes.assign(
        14, Pass{.uploads = true, .builds_at = 0, .gives_back_at = 0});
    program.passes[at].leaves_at = 2;
    program.passes[at].looks = true;
    const Scenario scenario{{program}, {.executes = GetParam()}};
    const RunResult result = RunBeside(scenario.programs, scenario.options);
    ASSERT_EQ(result.failure, "") << Explain(0, scenario);
    Add(result);
  }
  EXPECT_GT(sum_.stats.squashes, 2u);
  EXPECT_GT(sum_.backend.late_externals, 0u);
}

// What could only be rebuilt from an input that the program has dropped, and
// whose memory it has given back, was not overwritten ahead.
TEST_P(RandomStreamsTest, SquashAfterItsInputWasGivenBack) {
  Program program;
  program.weights = 1;
  program.inputs = 1;
  program.locals = 3;
  program.lengths = {8, 40};
  const Variable w0 = 0, x0 = 1, v0 = 2, v1 = 3, v2 = 4;
  program.body = {
      {.kind = OpKind::kCombine, .inputs = {x0, w0}, .outputs = {v0}},
      {.kind = OpKind::kScale, .inputs = {v0}, .outputs = {v1}},
      {.what = Line::What::kDrop, .inputs = {x0}},
      {.kind = OpKind::kMutate, .inputs = {v0}},
      {.kind = OpKind::kScale, .inputs = {v0}, .outputs = {v2}}};
  program.detour = {{.kind = OpKind::kScale, .inputs = {v1}, .outputs = {v2}}};
  program.passes.assign(14, Pass{.uploads = true, .builds_at = 0});
  program.passes[12].gives_back_at = 3;
  program.passes[12].leaves_at = 3;
  program.passes[12].looks = true;
  const Scenario scenario{{program},
                          {.executes = GetParam(), .segment_launches = 10}};
  const RunResult result = RunBeside(scenario.programs, scenario.options);
  EXPECT_EQ(result.failure, "") << Explain(0, scenario);
  EXPECT_EQ(result.stats.squashes, 1u);
  EXPECT_EQ(result.backend.restored_ops, 0u);
}

// All inputs and weights are replaced, and what they lay in goes back to the
// device: nothing may read it again.
TEST_P(RandomStreamsTest, MovedExternalsAreFollowed) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    Program program = CalmProgram(seed, 50);
    for (size_t i = 0; i < program.passes.size(); ++i) {
      Pass& pass = program.passes[i];
      pass.builds_at = 0;
      if (i >= 10 && i < 10 + program.weights) {
        pass.replaces_weight = static_cast<int>(i - 10);
      }
      if (i == 10 + program.weights) pass.gives_back_at = 0;
      pass.uploads = i >= 30;
      if (i >= 30) pass.gives_back_at = 0;
    }
    const Scenario scenario{{program}, {.executes = GetParam(), .seed = seed}};
    const RunResult result = RunBeside(scenario.programs, scenario.options);
    ASSERT_EQ(result.failure, "") << Explain(seed, scenario);
    Add(result);
  }
  EXPECT_GT(sum_.stats.replays, 20u * 20u);
}

// In the middle of a pass the program drops a weight, an input or what it has
// made, before any line, and all free memory goes back to the device at once:
// what is launched later reads none of it, and what a squash makes right was
// made right before.
TEST_P(RandomStreamsTest, MemoryGivenBackInMidPassIsNotTouched) {
  for (uint32_t seed = 0; seed < 4; ++seed) {
    Program calm = CalmProgram(seed, 14);
    for (Pass& pass : calm.passes) {
      pass.builds_at = 0;
      pass.uploads = seed % 2 == 1;
    }
    const auto variables = static_cast<Variable>(calm.variables());
    for (size_t line = 0; line < calm.body.size(); ++line) {
      for (Variable freed = 0; freed < variables; ++freed) {
        Program program = calm;
        Pass& pass = program.passes[8 + (line + freed) % 4];
        pass.frees = freed;
        pass.frees_at = static_cast<int>(line);
        pass.gives_back_at = static_cast<int>(line);
        pass.looks = true;
        const Scenario scenario{
            {program},
            {.executes = GetParam(),
             .seed = seed,
             .segment_launches = 2 + static_cast<uint32_t>(line % 6)}};
        const RunResult result = RunBeside(scenario.programs, scenario.options);
        ASSERT_EQ(result.failure, "") << Explain(seed, scenario);
        Add(result);
      }
    }
  }
  EXPECT_GT(sum_.stats.squashes, 100u);
}

// A library's workspace, which kernels name and no value is, is freed before
// any line of a pass, and its memory is given to others or goes back to the
// device.
TEST_P(RandomStreamsTest, WorkspaceThatIsFreedIsNotTouched) {
  for (uint32_t seed = 0; seed < 8; ++seed) {
    Program calm = CalmProgram(seed, 24);
    calm.body.insert(
        calm.body.begin() + static_cast<ptrdiff_t>(calm.body.size() / 2),
        {.kind = OpKind::kFold,
         .inputs = {0},
         .outputs = {static_cast<Variable>(calm.weights + calm.inputs)}});
    calm.passes.assign(24, Pass{.builds_at = 0});
    for (size_t line = 0; line < calm.body.size(); ++line) {
      for (const size_t at : {3, 4, 5, 6, 7, 9}) {
        Program program = calm;
        Pass& pass = program.passes[at];
        pass.clears_at = static_cast<int>(line);
        if (at % 2 == 0) pass.gives_back_at = static_cast<int>(line);
        if (at % 3 == 0) pass.leaves_at = static_cast<int>(line) + 1;
        pass.looks = true;
        const Scenario scenario{{program},
                                {.executes = GetParam(), .seed = seed}};
        const RunResult result = RunBeside(scenario.programs, scenario.options);
        ASSERT_EQ(result.failure, "") << Explain(seed, scenario);
        EXPECT_GT(result.stats.replays, 0u) << program.ToString();
        Add(result);
      }
    }
  }
  EXPECT_GT(sum_.stats.replays, 2000u);
}

// A value is overwritten in place ahead of the program, which then drops the
// weight that could rebuild it, gives its memory back and leaves.
TEST_P(RandomStreamsTest, SquashAfterItsWeightWasGivenBack) {
  Program program;
  program.weights = 2;
  program.inputs = 1;
  program.locals = 3;
  program.lengths = {8, 8, 40};
  const Variable w0 = 0, w1 = 1, x0 = 2, v0 = 3, v1 = 4, v2 = 5;
  program.body = {
      {.kind = OpKind::kCombine, .inputs = {x0, w0}, .outputs = {v0}},
      {.kind = OpKind::kCombine, .inputs = {v0, w1}, .outputs = {v1}},
      {.kind = OpKind::kScale, .inputs = {v1}, .outputs = {v2}},
      {.kind = OpKind::kMutate, .inputs = {v1}},
      {.kind = OpKind::kScale, .inputs = {v1}, .outputs = {v2}}};
  program.detour = {{.kind = OpKind::kScale, .inputs = {v2}, .outputs = {v2}}};
  program.passes.assign(14, Pass{.builds_at = 0});
  Pass& last = program.passes[12];
  last.frees = w1;
  last.frees_at = 3;
  last.gives_back_at = 3;
  last.leaves_at = 3;
  last.looks = true;
  const Scenario scenario{{program},
                          {.executes = GetParam(), .segment_launches = 10}};
  const RunResult result = RunBeside(scenario.programs, scenario.options);
  EXPECT_EQ(result.failure, "") << Explain(0, scenario);
  EXPECT_EQ(result.stats.squashes, 1u);
  // The host executor never ran ahead of it.
  EXPECT_EQ(result.backend.restored_ops,
            GetParam() == Executes::kOnDevice ? 1u : 0u);
}

INSTANTIATE_TEST_SUITE_P(Executors, RandomStreamsTest,
                         testing::Values(Executes::kOnHost,
                                         Executes::kOnDevice),
                         [](const auto& info) {
                           return info.param == Executes::kOnHost ? "OnHost"
                                                                  : "OnDevice";
                         });

}  // namespace
}  // namespace reprise::sim
