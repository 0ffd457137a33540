// The tapes of one callable: when they are trusted, sampled and withdrawn.

#include "bindings/torch/region/region_variants.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <vector>

namespace reprise::bindings {
namespace {

using Step = RegionVariants::Step;
using Verdict = RegionVariants::Verdict;
using Tensors = std::vector<at::Tensor>;

class RegionVariantsTest : public ::testing::Test {
 protected:
  // Calls as a region does; the callable adds `added_`.
  Step Call(const at::Tensor& x, std::vector<double> numbers = {}) {
    const at::NoGradGuard no_grad;
    const Tensors given = {x};
    RegionVariants::Ran ran = variants_.Run({given, numbers});
    if (ran.step == Step::kRecord) {
      EXPECT_TRUE(variants_.Begin(given, numbers, {}));
      learned_ = variants_.End({at::add(x, added_)}, computed_);
    } else if (ran.step == Step::kDone) {
      EXPECT_EQ(ran.outputs.size(), 1u);
      EXPECT_TRUE(ran.outputs[0].equal(at::add(x, trusted_)));
    }
    return ran.step;
  }

  RegionVariants variants_;
  RegionVariants::Learned learned_;
  // Of the floats that recordings are given; empty: these are ordinary ones.
  std::vector<bool> computed_;
  double added_ = 1;
  double trusted_ = 1;
};

TEST_F(RegionVariantsTest, TwoRecordingsAreTrusted) {
  const at::Tensor x = at::randn({3});
  EXPECT_EQ(Call(x), Step::kRecord);
  EXPECT_EQ(learned_.verdict, Verdict::kSeen);
  EXPECT_EQ(learned_.calls, 1u);
  EXPECT_EQ(Call(x), Step::kRecord);
  EXPECT_EQ(learned_.verdict, Verdict::kTrusted);
  EXPECT_EQ(Call(x), Step::kDone);
  EXPECT_EQ(Call(at::randn({4})), Step::kRecord);
  EXPECT_EQ(Call(x), Step::kDone);
}

TEST_F(RegionVariantsTest, TrustTakesBothKindsOfFloats) {
  const at::Tensor x = at::randn({3});
  for (int call = 0; call < 3; ++call) {
    EXPECT_EQ(Call(x, {0.5}), Step::kRecord);
    EXPECT_EQ(learned_.verdict, Verdict::kSeen);
  }
  computed_ = {false};
  EXPECT_EQ(Call(x, {0.5}), Step::kRecord);
  EXPECT_EQ(learned_.verdict, Verdict::kTrusted);
  EXPECT_EQ(Call(x, {0.5}), Step::kDone);
}

TEST_F(RegionVariantsTest, NumberThatWasComputedWithDoesNotVary) {
  const at::Tensor x = at::randn({3});
  computed_ = {true};
  added_ = 0.5;
  EXPECT_EQ(Call(x, {0.5}), Step::kRecord);
  computed_ = {};  // ordinary floats do not tell, but the recording before did
  added_ = 0.25;
  EXPECT_EQ(Call(x, {0.25}), Step::kRecord);
  EXPECT_EQ(learned_.verdict, Verdict::kSeen);
  EXPECT_NE(learned_.reason.find("computes with a number"), std::string::npos);
}

TEST_F(RegionVariantsTest, SamplesComeEverMoreRarely) {
  const at::Tensor x = at::randn({3});
  Call(x);
  Call(x);
  std::vector<int> samples;
  for (int call = 1; samples.size() < 7; ++call) {
    if (Call(x) == Step::kRecord) {
      EXPECT_EQ(learned_.verdict, Verdict::kSame);
      samples.push_back(call);
      call = 0;
    }
  }
  EXPECT_EQ(samples, std::vector({257, 513, 1025, 2049, 4097, 4097, 4097}));
}

TEST_F(RegionVariantsTest, SampleThatDiffersWithdraws) {
  const at::Tensor x = at::randn({3});
  Call(x);
  Call(x);
  added_ = 2;  // a broken promise: it is not asked for until the sample
  while (Call(x) == Step::kDone) {
  }
  EXPECT_EQ(learned_.verdict, Verdict::kWithdrawn);
  EXPECT_NE(learned_.reason.find("aten::add"), std::string::npos);
  EXPECT_EQ(Call(x), Step::kRecord);
}

TEST_F(RegionVariantsTest, OnesThatDifferEachTimeAreGivenUp) {
  const at::Tensor x = at::randn({3});
  for (int call = 0; call < 20 && learned_.verdict != Verdict::kDiffers;
       ++call) {
    added_ = call;
    EXPECT_EQ(Call(x), Step::kRecord);
  }
  EXPECT_EQ(learned_.verdict, Verdict::kDiffers);
}

TEST_F(RegionVariantsTest, ValuesThatSeldomComeAgainAreRecordedEverLess) {
  const at::NoGradGuard no_grad;
  const Tensors given = {at::ones({3})};
  int passed = 0;
  int recorded = 0;
  for (int call = 0; call < 1000; ++call) {
    const at::Tensor value = at::full({}, call / 2);  // each comes twice
    const Tensors both = {given[0], value};
    const RegionVariants::Ran ran = variants_.Run({both, {}});
    if (ran.step == Step::kPassed) ++passed;
    if (ran.step != Step::kRecord) continue;
    ++recorded;
    ASSERT_TRUE(variants_.Begin(both, {}, {}));
    (void)value.item();
    learned_ = variants_.End({given[0] + 1}, {});
  }
  EXPECT_GT(passed, 500);
  EXPECT_LT(recorded, 300);
}

TEST_F(RegionVariantsTest, FormsWithoutEndAreRecordedEverLess) {
  int recorded = 0;
  for (int rows = 1; rows <= 500; ++rows) {
    const Step step = Call(at::randn({rows}));
    recorded += step == Step::kRecord;
    EXPECT_NE(step, Step::kDone);
    EXPECT_NE(step, Step::kPlain);
  }
  EXPECT_GE(recorded, 32);
  EXPECT_LT(recorded, 80);
  // One that comes again is still found in time.
  const at::Tensor x = at::randn({3});
  int calls = 0;
  while (Call(x) != Step::kDone && calls < 100) ++calls;
  EXPECT_LT(calls, 50);
}

// How many calls of the last of `rounds` were replayed, by sizes in turn.
int ReplaysOfTurns(RegionVariants& variants, int64_t sizes, int rounds) {
  const at::NoGradGuard no_grad;
  int replayed = 0;
  for (int round = 0; round < rounds; ++round) {
    replayed = 0;
    for (int64_t rows = 1; rows <= sizes; ++rows) {
      const Tensors given = {at::randn({rows})};
      const RegionVariants::Ran ran = variants.Run({given, {}});
      if (ran.step == Step::kRecord) {
        EXPECT_TRUE(variants.Begin(given, {}, {}));
        variants.End({at::add(given[0], 1)}, {});
      } else if (ran.step == Step::kDone) {
        ++replayed;
        EXPECT_TRUE(ran.outputs.at(0).equal(at::add(given[0], 1)));
      }
    }
  }
  return replayed;
}

TEST_F(RegionVariantsTest, ManyFormsInTurnAreAllReplayed) {
  for (const int64_t sizes : {17, 40, 100, 1000}) {
    RegionVariants variants;
    const int rounds = sizes == 1000 ? 80 : 10;
    EXPECT_EQ(ReplaysOfTurns(variants, sizes, rounds), sizes);
  }
}

TEST_F(RegionVariantsTest, OfTooManyFormsInTurnSomeAreReplayed) {
  // There is no room for any but the few that are kept in any case.
  for (const int64_t sizes : {17, 24, 64}) {
    RegionVariants variants(TapePass::kWhole, 0);
    int replayed = 0;
    for (int part = 0; part < 10; ++part) {
      replayed += ReplaysOfTurns(variants, sizes, 10);
    }
    EXPECT_GE(replayed / 10, static_cast<int>(TapeCache::kFew) / 2) << sizes;
    EXPECT_LT(replayed / 10, sizes) << sizes;
  }
}

TEST_F(RegionVariantsTest, FormsThatAreUsedStayWhereOthersComeOnce) {
  const at::NoGradGuard no_grad;
  RegionVariants variants(TapePass::kWhole, 0);
  EXPECT_EQ(ReplaysOfTurns(variants, 8, 10), 8);
  for (int64_t once = 0; once < 100; ++once) {
    const Tensors given = {at::randn({100 + once})};
    if (variants.Run({given, {}}).step == Step::kRecord) {
      EXPECT_TRUE(variants.Begin(given, {}, {}));
      variants.End({at::add(given[0], 1)}, {});
    }
    EXPECT_EQ(ReplaysOfTurns(variants, 8, 1), 8) << once;
  }
}

TEST_F(RegionVariantsTest, FormsThatComeNoMoreGiveWay) {
  RegionVariants variants(TapePass::kWhole, 0);
  EXPECT_EQ(ReplaysOfTurns(variants, 12, 20), 12);
  const at::NoGradGuard no_grad;
  int replayed = 0;
  for (int call = 0; call < 2000; ++call) {
    const Tensors given = {at::randn({100 + call % 10})};
    const RegionVariants::Ran ran = variants.Run({given, {}});
    if (ran.step == Step::kRecord) {
      EXPECT_TRUE(variants.Begin(given, {}, {}));
      variants.End({at::add(given[0], 1)}, {});
    }
    replayed += call >= 1000 && ran.step == Step::kDone ? 1 : 0;
  }
  EXPECT_GE(replayed, 900);
}

TEST_F(RegionVariantsTest, TapesThatGoGiveTheirBytesBack) {
  const size_t before = TapeCache::bytes();
  {
    RegionVariants variants;
    ReplaysOfTurns(variants, 40, 3);
    EXPECT_GE(TapeCache::bytes(), before + 40 * sizeof(TapeCall));
  }
  EXPECT_EQ(TapeCache::bytes(), before);
}

TEST_F(RegionVariantsTest, TapesThatHaveGoneAreNamed) {
  const at::NoGradGuard no_grad;
  RegionVariants variants(TapePass::kWhole, 0);
  std::set<int64_t> kept;
  for (int64_t rows = 1; rows <= 400; ++rows) {
    const Tensors given = {at::randn({rows})};
    if (variants.Run({given, {}}).step != Step::kRecord) continue;
    EXPECT_TRUE(variants.Begin(given, {}, {}));
    const auto learned = variants.End({at::add(given[0], 1)}, {});
    kept.insert(learned.tape);
    for (const int64_t gone : learned.dropped) EXPECT_EQ(kept.erase(gone), 1u);
  }
  EXPECT_EQ(kept.size(), TapeCache::kFew);
}

TEST_F(RegionVariantsTest, SamplesAlwaysOrNever) {
  const at::Tensor x = at::randn({3});
  variants_.SampleNever();
  Call(x);
  Call(x);
  for (int call = 0; call < 2000; ++call) ASSERT_EQ(Call(x), Step::kDone);
  variants_.SampleAlways();
  EXPECT_EQ(Call(x), Step::kRecord);
  EXPECT_EQ(Call(x), Step::kRecord);
}

TEST_F(RegionVariantsTest, CallableThatRaisedIsForgotten) {
  const at::Tensor x = at::randn({3});
  ASSERT_TRUE(variants_.Begin({x}, {}, {}));
  variants_.Abandon();
  EXPECT_FALSE(TapeRecorder::RecordsHere());
  EXPECT_EQ(Call(x), Step::kRecord);
  EXPECT_EQ(learned_.verdict, Verdict::kSeen);
}

}  // namespace
}  // namespace reprise::bindings
