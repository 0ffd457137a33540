// The host executor, on calls that are functions: how far it gets when an op
// raises, and what it leaves behind.

#include "engine/backend/host_backend.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "tests/engine/fake_frontend.h"
#include "tests/engine/trace_builder.h"

namespace reprise::engine {
namespace {

using Words = std::vector<uint32_t*>;

class FunctionCall final : public Call {
 public:
  // Returns whether it got to its end.
  using Function = std::function<bool(const Words&, const Words&)>;

  explicit FunctionCall(Function function) : function_(std::move(function)) {}
  base::Status Run(std::span<const uint64_t> operands,
                   std::span<const uint64_t> results) override {
    const auto words = [](std::span<const uint64_t> addresses) {
      Words words;
      for (const uint64_t address : addresses) {
        words.push_back(reinterpret_cast<uint32_t*>(address));
      }
      return words;
    };
    if (function_(words(operands), words(results))) return {};
    return base::Fail(base::Code::kInternal, "raised");
  }
  void SetScalar(uint32_t, uint64_t) override {}

 private:
  Function function_;
};

// Memory that can be looked into.
class HeapFrontend final : public FakeFrontend {
 public:
  base::Result<Block> Allocate(size_t size_bytes) override {
    return Block(reinterpret_cast<uint64_t>(new std::byte[size_bytes]()),
                 nullptr, nullptr);
  }
};

// x → a = x + 1, then a[0] and a[1] are written in place, then b = a + 1.
class HostBackendTest : public testing::Test {
 protected:
  HostBackendTest() {
    TraceBuilder first(&frontend_);
    TraceBuilder second(&frontend_);
    for (TraceBuilder* builder : {&first, &second}) {
      x_ = builder->External();
      a_ = builder->Op({x_}, {}, 1);
      builder->Op({}, {a_});
      b_ = builder->Op({a_}, {}, 1);
    }
    Trace& trace = first.trace();
    const int64_t sizes[] = {2};
    const int64_t strides[] = {3};  // of the operand that is written
    trace.ops[1].written = {kernels::MakeLayout(sizes, strides, 4)};
    trace.ops[0].call = std::make_unique<FunctionCall>(
        [](const Words& operands, const Words& results) {
          for (int i = 0; i < 4; ++i) results[0][i] = operands[0][i] + 1;
          return true;
        });
    trace.ops[1].call = std::make_unique<FunctionCall>(
        [this](const Words& operands, const Words&) {
          operands[0][0] = 100;
          if (raises_at_ == 1) return false;
          operands[0][3] = 100;
          return true;
        });
    trace.ops[2].call = std::make_unique<FunctionCall>(
        [this](const Words& operands, const Words& results) {
          results[0][0] = operands[0][0] + 1;
          return raises_at_ != 2;
        });
    HostBackend backend(&frontend_, {.max_arena_bytes = 1 << 20});
    trace_ = first.Take();
    auto program = backend.Explain(trace_, *second.Take());
    EXPECT_TRUE(program.has_value());
    program_ = *std::move(program);
    auto parts = backend.Instantiate(program_, nullptr);
    EXPECT_TRUE(parts.has_value());
    parts_ = *std::move(parts);
    arena_.reset(reinterpret_cast<std::byte*>(parts_.arena.address()));
    executor().Bind(x_, reinterpret_cast<uint64_t>(input_));
  }

  Executor& executor() { return *parts_.executor; }
  uint32_t* at(ValueId value) const {
    return reinterpret_cast<uint32_t*>(parts_.places[value]);
  }

  HeapFrontend frontend_;
  ValueId x_ = 0, a_ = 0, b_ = 0;
  int raises_at_ = -1;
  uint32_t input_[4] = {1, 2, 3, 4};
  std::shared_ptr<Trace> trace_;
  std::shared_ptr<const Program> program_;
  InstanceParts parts_;
  std::unique_ptr<std::byte[]> arena_;
};

TEST_F(HostBackendTest, OpsThatOverwriteBeginSegments) {
  ASSERT_EQ(program_->segments.size(), 2u);
  EXPECT_EQ(program_->segments[1].first_op, 1u);
  EXPECT_TRUE(program_->segments[1].gated);
}

TEST_F(HostBackendTest, SegmentsRunInOrder) {
  ASSERT_TRUE(executor().LaunchSegment(0, 0).status);
  ASSERT_TRUE(executor().LaunchSegment(1, 1).status);
  EXPECT_EQ(at(a_)[0], 100u);
  EXPECT_EQ(at(a_)[1], 3u);
  EXPECT_EQ(at(a_)[3], 100u);
  EXPECT_EQ(at(b_)[0], 101u);
}

TEST_F(HostBackendTest, SaysAtWhichOpItIsStuckAndGoesOnThere) {
  ASSERT_TRUE(executor().LaunchSegment(0, 0).status);
  raises_at_ = 2;
  const Executor::Progress stuck = executor().LaunchSegment(1, 1);
  EXPECT_FALSE(stuck.status);
  EXPECT_EQ(stuck.end_op, 2u);
  EXPECT_EQ(at(a_)[0], 100u);
  raises_at_ = -1;
  at(a_)[0] = 7;  // seen, if op 1 is not run once more
  ASSERT_TRUE(executor().LaunchSegment(1, stuck.end_op).status);
  EXPECT_EQ(at(b_)[0], 8u);
}

TEST_F(HostBackendTest, OpThatRaisesHalfWayLeavesItsOperandsAsTheyWere) {
  ASSERT_TRUE(executor().LaunchSegment(0, 0).status);
  raises_at_ = 1;
  const Executor::Progress stuck = executor().LaunchSegment(1, 1);
  EXPECT_FALSE(stuck.status);
  EXPECT_EQ(stuck.end_op, 1u);
  EXPECT_EQ(at(a_)[0], 2u);
  EXPECT_EQ(at(a_)[3], 5u);
}

TEST_F(HostBackendTest, OpThatRaisesHalfWayLeavesTheGeneratorWhereItWas) {
  frontend_.keeps_generator = true;
  frontend_.generator = {7, 0};
  const auto draw_and_raise = [this](bool raises) {
    trace_->ops[0].call = std::make_unique<FunctionCall>(
        [this, raises](const Words&, const Words&) {
          frontend_.generator = {8, 0};
          return !raises;
        });
    return executor().LaunchOp(0);
  };
  trace_->ops[0].may_draw = true;
  EXPECT_FALSE(draw_and_raise(true));
  EXPECT_EQ(frontend_.generator, (GeneratorState{7, 0}));
  EXPECT_TRUE(draw_and_raise(false));
  EXPECT_EQ(frontend_.generator, (GeneratorState{8, 0}));
}

}  // namespace
}  // namespace reprise::engine
