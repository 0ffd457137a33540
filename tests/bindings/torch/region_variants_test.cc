// The tapes of one callable: when they are trusted, sampled and withdrawn.

#include "bindings/torch/region/region_variants.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>
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
