// Which values a plan's instances share, and what they learn of them.

#include "engine/replay/plan_core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "tests/engine/fake_frontend.h"
#include "tests/engine/trace_builder.h"

namespace reprise::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class PlanCoreTest : public testing::Test {
 protected:
  // x → a; a, w → b, where w is used by the second op first; c has no memory.
  PlanCoreTest() {
    TraceBuilder builder(&frontend_);
    const ValueId x = builder.External();
    a_ = builder.Op({x}, {}, 1);
    w_ = builder.External();
    b_ = builder.Op({a_, w_}, {}, 1);
    const ValueId c = builder.Op({b_}, {}, 1);
    builder.trace().values[c].size_bytes = 0;
    program_ = std::make_shared<Program>(builder.Take());
    program_->effects =
        Effects(program_->trace.get(), {}, {}, Effects::Remake::kWhatLasts);
  }

  FakeFrontend frontend_;
  ValueId a_ = 0;
  ValueId w_ = 0;
  ValueId b_ = 0;
  std::shared_ptr<Program> program_;
};

TEST_F(PlanCoreTest, OutputsHaveMemoryAndOthersAreNotTheHeads) {
  const PlanCore core(program_);
  EXPECT_THAT(core.outputs(), ElementsAre(a_, b_));
  EXPECT_THAT(core.others(), ElementsAre(w_));
}

TEST_F(PlanCoreTest, OutputsEscapeOnceAndForGood) {
  PlanCore core(program_);
  EXPECT_THAT(core.escaping(), IsEmpty());
  core.Escape(b_);
  core.Escape(a_);
  core.Escape(b_);
  EXPECT_THAT(core.escaping(), ElementsAre(b_, a_));
  EXPECT_TRUE(core.escapes(a_));
  EXPECT_TRUE(core.escapes(b_));
  EXPECT_FALSE(core.escapes(w_));
}

}  // namespace
}  // namespace reprise::engine
