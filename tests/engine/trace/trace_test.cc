// Proves what a trace says of its ops, what it weighs and what it lets go of.

#include "engine/trace/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tests/engine/fake_frontend.h"
#include "tests/engine/trace_builder.h"

namespace reprise::engine {
namespace {

using ::testing::AllOf;
using ::testing::Ge;
using ::testing::IsEmpty;
using ::testing::Le;

class TraceTest : public testing::Test {
 protected:
  // a = f(x), which writes y.
  TraceTest() {
    TraceBuilder builder(&frontend_);
    x_ = builder.External();
    y_ = builder.External();
    a_ = builder.Op({x_}, {y_}, 1);
    trace_ = builder.Take();
  }
  TracedOp& op() { return trace_->ops[0]; }
  // What `change` adds to the recording's weight.
  template <typename Change>
  size_t Added(Change change) {
    const size_t before = HostBytes(*trace_);
    change();
    return HostBytes(*trace_) - before;
  }

  FakeFrontend frontend_;
  std::unique_ptr<Trace> trace_;
  ValueId x_, y_, a_;
};

TEST_F(TraceTest, AnOpWritesWhatItMakesAndItsWrittenOperands) {
  EXPECT_TRUE(op().Writes(a_));
  EXPECT_TRUE(op().Writes(y_));
  EXPECT_FALSE(op().Writes(x_));
  op().results[0].kind = ResultSpec::Kind::kOperand;  // its value means nothing
  EXPECT_FALSE(op().Writes(a_));
}

TEST_F(TraceTest, LayoutsAreThoseOfWrittenOperandsInTheirOrder) {
  TracedOp op;
  op.operands.resize(4);
  op.operands[1].written = op.operands[3].written = true;
  op.written.resize(2);
  EXPECT_EQ(&op.LayoutOf(1), &op.written[0]);
  EXPECT_EQ(&op.LayoutOf(3), &op.written[1]);
}

TEST_F(TraceTest, AResultTellsTheSeedOrTheOffsetOfAGenerator) {
  GeneratorState state;
  state.seed = 7;
  state.offset = 12;
  ResultSpec result;
  result.tells = ResultSpec::Tells::kSeed;
  EXPECT_EQ(result.Told(state), 7u);
  result.tells = ResultSpec::Tells::kOffset;
  EXPECT_EQ(result.Told(state), 12u);
}

TEST_F(TraceTest, ItsStoragesAreReleasedWithIt) {
  EXPECT_EQ(frontend_.references.size(), 3u);
  trace_.reset();
  EXPECT_THAT(frontend_.references, IsEmpty());
}

// The weight is an estimate: within a tenth, and what allocations take.
TEST_F(TraceTest, EverythingThatIsKeptWeighsAboutItsSize) {
  const auto about = [](size_t bytes) {
    return AllOf(Ge(bytes - bytes / 10), Le(bytes + bytes / 10 + 64));
  };
  EXPECT_THAT(Added([&] { op().words.resize(1000); }), about(8000));
  EXPECT_THAT(Added([&] { op().results[0].sizes.resize(500); }), about(4000));
  EXPECT_THAT(Added([&] { op().launches.resize(1); }),
              about(sizeof(device::Launch)));
  device::Launch& launch = op().launches[0];
  EXPECT_THAT(Added([&] { launch.image.resize(4096); }), about(4096));
  EXPECT_THAT(Added([&] { launch.behind.emplace(1000); }), about(4000));
  EXPECT_THAT(HostBytes(op().launches),
              about(sizeof(device::Launch) + 4096 + 4000));
  EXPECT_EQ(HostBytes(std::vector<device::Launch>()), 0u);
}

// Tensors and arguments, which nobody here can look into.
TEST_F(TraceTest, ACallThatRunsAgainWeighsMoreWithItsOperands) {
  class NoCall final : public Call {
   public:
    base::Status Run(std::span<const uint64_t>,
                     std::span<const uint64_t>) override {
      return {};
    }
    void SetScalar(uint32_t, uint64_t) override {}
  };
  const size_t of_two = Added([&] { op().call = std::make_unique<NoCall>(); });
  op().call.reset();
  op().operands.resize(4);
  const size_t of_four = Added([&] { op().call = std::make_unique<NoCall>(); });
  EXPECT_GT(of_two, 0u);
  EXPECT_GT(of_four, of_two);
}

}  // namespace
}  // namespace reprise::engine
