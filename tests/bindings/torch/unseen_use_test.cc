// What was run ahead is taken back before the program looks into memory in a
// way that no hook sees.

#include "bindings/torch/runtime/unseen_use.h"

#include <gtest/gtest.h>

#include "bindings/torch/runtime/thread_state.h"
#include "tests/bindings/torch/host_runtime.h"

namespace reprise::bindings {
namespace {

using UnseenUseTest = HostRuntimeTest;

TEST_F(UnseenUseTest, EndsTheReplayThatIsUnderWay) {
  EXPECT_EQ(SquashedBy([] {}), 0u);
  EXPECT_EQ(SquashedBy(&BeforeUnseenUse), 1u);
}

// Of the host, which the host executor has run ahead.
TEST_F(UnseenUseTest, ContentsAreLookedAtBehindTheReplay) {
  EXPECT_EQ(SquashedBy(&BeforeContents), 1u);
}

TEST_F(UnseenUseTest, InsideOfAnOpItIsTheOpsBusiness) {
  EXPECT_EQ(SquashedBy([] {
              const DepthGuard inside;
              BeforeUnseenUse();
              BeforeContents();
            }),
            0u);
}

TEST_F(UnseenUseTest, WhereNobodyWatchesNothingIsDone) {
  Learn();
  TorchRuntime& runtime = Active();
  ASSERT_TRUE(ActivateRuntime(nullptr));
  const uint64_t squashes = runtime.scheduler().stats().squashes;
  BeforeUnseenUse();
  BeforeContents();
  EXPECT_EQ(runtime.scheduler().stats().squashes, squashes);
}

}  // namespace
}  // namespace reprise::bindings
