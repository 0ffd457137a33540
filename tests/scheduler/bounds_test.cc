// Proves that what a session keeps of a program that never repeats itself stays
// within its bounds, and that what repeats is replayed all the same.

#include <gtest/gtest.h>

#include <cstdint>
#include <stdexcept>
#include <vector>

#include "tests/scheduler/twin_programs.h"

namespace reprise::scheduler {
namespace {

using sim::ModelTensor;

class BoundsTest : public TwinPrograms {
 protected:
  static constexpr size_t kTraceBudget = size_t{256} << 10;
  // So much that no trace is forgotten.
  static constexpr size_t kAmple = size_t{1} << 30;

  BoundsTest() { Restart(size_t{1} << 20, kTraceBudget); }

  // Six ops of which no other form has one, and what the program keeps.
  static Held Form(Side& side, size_t form, float seed) {
    sim::ModelProgram& p = *side.program;
    const ModelTensor x = p.Make(seed, form);
    const ModelTensor a = p.Scale(x, 2.0f);
    const ModelTensor b = p.Add(a, x);
    p.Negate(a);
    const ModelTensor c = p.Add(b, a);
    p.Mix(c, b);
    const ModelTensor d = p.Scale(c, 0.5f);
    p.Read(d);
    return {d};
  }
  void Forms(size_t begin, size_t end, int times) {
    for (size_t form = begin; form < end; ++form) {
      for (int i = 0; i < times; ++i) {
        ASSERT_NO_FATAL_FAILURE(Both([&](Side& side) {
          return Form(side, form, 1.0f + static_cast<float>(i));
        }));
      }
      ASSERT_LE(stats().trace_bytes, kTraceBudget) << form;
    }
  }
  // Passes of a form until it is replayed; how many it took.
  int PassesToReplay(size_t form) {
    const Stats before = stats();
    for (int pass = 1; pass < 100; ++pass) {
      Both([&](Side& side) {
        return Form(side, form, static_cast<float>(pass));
      });
      if (stats().replays > before.replays) return pass;
    }
    return -1;
  }
};

TEST_F(BoundsTest, TenThousandNewFormsStayWithinTheBudget) {
  Forms(1, 2000, 1);
  const uint64_t forgotten = stats().forgotten;
  EXPECT_GT(forgotten, 1000u);
  // As full as it gets: from here on as many go as come.
  EXPECT_GT(stats().trace_bytes, kTraceBudget / 2);
  Forms(2000, 10001, 1);
  EXPECT_EQ(stats().forgotten, forgotten + 8001u);
  EXPECT_EQ(stats().signatures, 10000u);
  EXPECT_EQ(stats().recorded, 0u);
  EXPECT_EQ(PassesToReplay(10000), 5) << Traces();
}

TEST_F(BoundsTest, WhatWasRecordedOnceStaysWithinTheBudget) {
  Forms(1, 1000, 2);
  EXPECT_EQ(stats().recorded, 999u);
  EXPECT_GT(stats().forgotten, 900u);
  // Six ops and more were recorded: it is full with few of them.
  EXPECT_GT(stats().trace_bytes, kTraceBudget / 2);
  // One that was forgotten begins anew, the last one goes on.
  EXPECT_EQ(PassesToReplay(1), 6) << Traces();
  EXPECT_EQ(PassesToReplay(999), 4) << Traces();
}

TEST_F(BoundsTest, APlanIsReplayedHoweverManyFormsCameInBetween) {
  ASSERT_EQ(PassesToReplay(500), 6);
  Forms(1000, 5000, 1);
  const Stats before = stats();
  EXPECT_GT(before.forgotten, 1000u);
  EXPECT_EQ(PassesToReplay(500), 1) << Traces();
  EXPECT_EQ(stats().recorded, before.recorded);
}

TEST_F(BoundsTest, FormsWithAndWithoutPlansInTurn) {
  for (size_t form = 1; form < 400; ++form) {
    const size_t often = 1000 + form % 3;
    Both([&](Side& side) { return Form(side, often, 1); });
    Forms(2000 + 10 * form, 2000 + 10 * form + 10, 1);
  }
  EXPECT_GT(stats().forgotten, 1000u);
  EXPECT_GT(stats().replays, 350u) << Traces();
  EXPECT_EQ(stats().squashes, 0u);
}

// Forms of which two have room for their plans, each so many times in a row.
class CrowdedPlansTest : public BoundsTest,
                         public testing::WithParamInterface<int> {
 protected:
  void Rounds(int count, int times = GetParam()) {
    for (int i = 0; i < count; ++i) {
      for (const size_t form : {2000u, 2001u, 2002u}) {
        for (int time = 0; time < times && !HasFatalFailure(); ++time) {
          Both([&](Side& side) {
            return Form(side, form, static_cast<float>(i + time));
          });
        }
      }
    }
  }
};

// Each gives way to the next before it comes again.
TEST_P(CrowdedPlansTest, AreNotMadeForEver) {
  Rounds(20, 1);
  ASSERT_EQ(stats().builds, 3u) << Traces();
  const size_t all = plans_->stats().charge_bytes;
  Restart(all / 4 * 3, kTraceBudget);
  Rounds(1800 / GetParam());
  EXPECT_GT(plans_->stats().evictions, 4u);
  const Stats before = stats();
  Rounds(1800 / GetParam());
  EXPECT_LE(stats().recorded - before.recorded, 40u) << Traces();
  EXPECT_GE(FollowedSince(before), 0.3) << Traces();
}

INSTANTIATE_TEST_SUITE_P(Runs, CrowdedPlansTest,
                         testing::Values(1, 2, 3, 5, 8, 20, 30));

// Of each plan that is evicted its entry is left.
TEST_F(BoundsTest, EvictedPlansLeaveNoMoreThanTheBudget) {
  constexpr size_t kPlanBudget = size_t{128} << 10;
  Restart(kPlanBudget, kTraceBudget);
  for (size_t form = 1; form < 600; ++form) {
    ASSERT_EQ(PassesToReplay(form), 6) << Traces();
    ASSERT_LE(stats().trace_bytes, kTraceBudget);
    ASSERT_LE(plans_->stats().charge_bytes, kPlanBudget);
  }
  EXPECT_GT(plans_->stats().evictions, 500u);
  size_t entries = 0;
  session_->Inspect([&entries](const Journal&, const auto& of, const auto&) {
    entries = of.size();
  });
  EXPECT_LT(entries, 400u);
  EXPECT_GT(stats().forgotten, 200u);
}

TEST_F(BoundsTest, WhatIsForgottenIsCountedFromTheReset) {
  Forms(1, 1000, 1);
  ASSERT_GT(stats().forgotten, 0u);
  session_->Reset();
  EXPECT_EQ(stats().forgotten, 0u);
  EXPECT_EQ(stats().trace_bytes, 0u);
  EXPECT_EQ(PassesToReplay(3), 6) << Traces();
}

// With an op in the middle that raises, for each form another one.
TEST_F(BoundsTest, CutsAreForgottenAndLearnedAgain) {
  const auto forms = [this](size_t begin, size_t end) {
    for (size_t form = begin; form < end; ++form) {
      const ModelTensor x = watched_.program->Make(1, form);
      EXPECT_THROW(watched_.program->MayRaise(x, true), std::runtime_error);
      watched_.program->Read(x);
    }
  };
  Restart(kAmple, kAmple);
  forms(1, 4000);
  EXPECT_EQ(stats().forgotten, 0u);
  forms(4000, 5000);
  EXPECT_EQ(stats().forgotten, 4999u - 4096u);
  // What was learned last is known, what was learned first no more.
  const uint64_t cuts = Cuts("raised an error or returned what cannot be kept");
  forms(4999, 5000);
  forms(4998, 4999);
  EXPECT_EQ(stats().forgotten, 4999u - 4096u);
  forms(1, 2);
  EXPECT_EQ(stats().forgotten, 5000u - 4096u);
  EXPECT_EQ(Cuts("raised an error or returned what cannot be kept"), cuts + 3);
}

TEST_F(BoundsTest, PlacesWhereTracesEndAreForgotten) {
  Restart(kAmple, kAmple);
  for (size_t form = 1; form <= 5000; ++form) {
    // The third pass is recorded, and stops before its fourth op.
    for (int pass = 0; pass < 3; ++pass) {
      sim::ModelProgram& p = *watched_.program;
      const ModelTensor x = p.Make(1, form);
      const ModelTensor a = p.Scale(x, 2.0f);
      const ModelTensor b = p.Add(a, x);
      const ModelTensor c = p.Add(b, a);
      if (pass == 2) foreign_work_ = "told to be there";
      p.Read(p.Scale(c, 0.5f));
      foreign_work_.reset();
    }
  }
  EXPECT_EQ(stats().forgotten, 5000u - 4096u) << Cuts("told to be there");
}

// An op with another number each time, which no build explains.
TEST_F(BoundsTest, OpsWhoseNumbersAreNotMaskedAreForgotten) {
  Restart(kAmple, kAmple);
  explains_numbers_ = false;
  float number = 3;
  for (size_t form = 1; form <= 4200; ++form) {
    for (int pass = 0; pass < 4; ++pass) {
      sim::ModelProgram& p = *watched_.program;
      const ModelTensor x = p.Make(1, form);
      const ModelTensor a = p.Scale(x, number += 0.0625f);
      p.Read(p.Add(p.Add(a, x), x));
      builds_.RunAll();
    }
  }
  EXPECT_EQ(builds_run_, 4200);
  EXPECT_EQ(stats().rejected, 4200u) << Traces();
  // And of the rejections, which the journal keeps one by one.
  EXPECT_GT(stats().forgotten, 4200u - 4096u);
}

}  // namespace
}  // namespace reprise::scheduler
