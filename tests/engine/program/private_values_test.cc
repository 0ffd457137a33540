// Which externals a plan may have copies of.

#include "engine/program/private_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "engine/program/effects.h"
#include "tests/engine/fake_frontend.h"
#include "tests/engine/trace_builder.h"

namespace reprise::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint64_t kMost = 64;

class PrivateValuesTest : public testing::Test {
 protected:
  // Such as batch norm: statistics that op 1 reads and writes.
  void SetUp() override {
    const ValueId x = builder_.External();
    const ValueId a = builder_.Op({x}, {}, 1);
    mean_ = Small();
    variance_ = Small();
    b_ = builder_.Op({a}, {mean_, variance_}, 1);
  }
  ValueId Small() {
    const ValueId v = builder_.External();
    trace().values[v].size_bytes = kMost;
    return v;
  }
  // All tensors that are written are all of their storages.
  void WriteWhole() {
    for (TracedOp& op : trace().ops) {
      op.written.clear();
      for (const ValueRef& operand : op.operands) {
        if (!operand.written) continue;
        const auto elements =
            static_cast<int64_t>(trace().values[operand.value].size_bytes / 4);
        const int64_t stride = 1;
        op.written.push_back(
            kernels::MakeLayout({&elements, 1}, {&stride, 1}, 4));
      }
    }
  }
  Trace& trace() { return builder_.trace(); }
  std::vector<ValueId> Find(const std::vector<ValueId>& inputs = {}) {
    WriteWhole();
    if (partly_) trace().ops[1].written[0].sizes[0] -= 1;
    std::vector<bool> named(trace().values.size(), true);
    if (unnamed_ != 0) named[unnamed_] = false;
    return PrivateValues(trace(), inputs, named, kMost);
  }

  FakeFrontend frontend_;
  TraceBuilder builder_{&frontend_};
  ValueId mean_ = 0;
  ValueId variance_ = 0;
  ValueId b_ = 0;
  ValueId unnamed_ = 0;
  bool partly_ = false;
};

TEST_F(PrivateValuesTest, SmallStateThatOpsWriteIs) {
  EXPECT_THAT(Find(), ElementsAre(mean_, variance_));
  EXPECT_THAT(PrivateValues(trace(), {}, std::vector<bool>(8, true), 0),
              IsEmpty());
}

TEST_F(PrivateValuesTest, ItIsWrittenAheadAndWhatReadsItToo) {
  builder_.Op({b_, mean_}, {}, 1);
  const Effects effects(&trace(), {}, {}, Effects::Remake::kWhatLasts, {},
                        Find());
  for (uint32_t k = 0; k < builder_.ops(); ++k) {
    EXPECT_EQ(effects.gate(k), Effects::Gate::kNone) << k;
  }
  EXPECT_TRUE(effects.is_private(mean_));
  EXPECT_EQ(effects.last_writer(mean_), 1u);
}

// What the op made can be made again, though it has written outside since.
TEST_F(PrivateValuesTest, WhatItsWriterMadeMayBeWrittenOverAhead) {
  builder_.Op({}, {b_});
  const Effects effects(&trace(), {}, {}, Effects::Remake::kWhatLasts, {},
                        Find());
  EXPECT_EQ(effects.gate(2), Effects::Gate::kNone);
  const Effects::Restoration again =
      effects.ToRestore(2, 3, [](ValueId) { return true; });
  EXPECT_THAT(again.ops, ElementsAre(1));
  EXPECT_THAT(again.taken, ElementsAre(mean_, variance_));
}

TEST_F(PrivateValuesTest, AllThatTheOpWritesHasToBe) {
  trace().values[variance_].size_bytes = kMost + 1;
  EXPECT_THAT(Find(), IsEmpty());
}

// A squash between two writers makes it again as the first one left it.
TEST_F(PrivateValuesTest, WhatIsWrittenTwiceIsMadeAgainBetween) {
  builder_.Op({b_}, {mean_});
  EXPECT_THAT(Find(), ElementsAre(mean_, variance_));
  const Effects effects(&trace(), {}, {}, Effects::Remake::kWhatLasts, {},
                        Find());
  EXPECT_EQ(effects.gate(2), Effects::Gate::kNone);
  EXPECT_THAT(effects.private_writers(), ElementsAre(1, 2));
  const Effects::Restoration again =
      effects.ToRestore(2, 3, [](ValueId) { return false; });
  EXPECT_THAT(again.ops, ElementsAre(1));
  EXPECT_THAT(again.taken, ElementsAre(mean_, variance_));
  EXPECT_THAT(effects.PrivatesWrittenBefore(2), ElementsAre(mean_, variance_));
}

TEST_F(PrivateValuesTest, TheSecondWriterWaitsWhereTheFirstCannotRunAgain) {
  const ValueId x = 0;  // an input: it may be gone
  trace().ops[1].operands.back().value = x;
  builder_.Op({b_}, {mean_});
  const Effects lasts(&trace(), {x}, {}, Effects::Remake::kWhatLasts, {},
                      Find({x}));
  EXPECT_EQ(lasts.gate(1), Effects::Gate::kNone);
  EXPECT_EQ(lasts.gate(2), Effects::Gate::kRemake);
  const Effects nothing(&trace(), {}, {}, Effects::Remake::kNothing, {},
                        Find());
  EXPECT_EQ(nothing.gate(1), Effects::Gate::kNone);
  EXPECT_EQ(nothing.gate(2), Effects::Gate::kRemake);
}

// An op that has to wait for what it writes elsewhere takes others with it.
TEST_F(PrivateValuesTest, WhatAnyOfItsWritersMustWaitForIsNot) {
  const ValueId large = Small();
  trace().values[large].size_bytes = kMost + 1;
  builder_.Op({}, {mean_, large});
  EXPECT_THAT(Find(), IsEmpty());
}

// Counts of steps in front of an optimizer's step, say: they wait together.
TEST_F(PrivateValuesTest, WhatIsWrittenInFrontOfOpsThatWaitIsNot) {
  const ValueId large = Small();
  trace().values[large].size_bytes = kMost + 1;
  const ValueId count = Small();
  const ValueId other_count = Small();
  builder_.Op({}, {count});
  builder_.Op({}, {other_count});
  EXPECT_THAT(Find(), ElementsAre(mean_, variance_, count, other_count));
  builder_.Op({}, {large});
  EXPECT_THAT(Find(), ElementsAre(mean_, variance_, count));
  // That one waits for no other now.
  builder_.Op({}, {other_count});
  EXPECT_THAT(Find(), ElementsAre(mean_, variance_, count, other_count));
}

TEST_F(PrivateValuesTest, WhatIsElsewhereEachTimeIsNot) {
  EXPECT_THAT(Find({mean_}), IsEmpty());
}

TEST_F(PrivateValuesTest, WhatRecordedWorkDoesNotNameIsNot) {
  unnamed_ = mean_;
  EXPECT_THAT(Find(), IsEmpty());
}

// The rest of the storage may be somebody else's.
TEST_F(PrivateValuesTest, WhatIsWrittenInPartIsNot) {
  partly_ = true;
  EXPECT_THAT(Find(), IsEmpty());
}

TEST_F(PrivateValuesTest, WhatIsNotOfTheFrameworksAllocatorIsNot) {
  Value& mean = trace().values[mean_];
  mean.base = mean.origin = FakeFrontend::kEndAddress;
  EXPECT_THAT(Find(), IsEmpty());
}

TEST_F(PrivateValuesTest, WhatSharesMemoryWithAnotherExternalIsNot) {
  const ValueId view = Small();
  trace().values[view].base = trace().values[view].origin =
      trace().values[mean_].origin + kMost - 1;
  builder_.Op({view}, {}, 1);
  EXPECT_THAT(Find(), IsEmpty());
}

TEST_F(PrivateValuesTest, WhatEagerUsesWithinThePassIsNot) {
  builder_.Op({mean_}, {});
  trace().ops.back().by_eager = true;
  EXPECT_THAT(Find(), IsEmpty());
}

TEST_F(PrivateValuesTest, WhatLiesBeforeItsFirstTensorIsNot) {
  builder_.Op({mean_}, {}, 1);
  trace().ops.back().operands[0].offset_bytes = ~uint64_t{0} - 7;
  EXPECT_THAT(Find(), IsEmpty());
}

TEST_F(PrivateValuesTest, WritersThatDrawOrAreNondeterministicHaveNone) {
  trace().ops[1].may_draw = true;
  EXPECT_THAT(Find(), IsEmpty());
  trace().ops[1].may_draw = false;
  trace().ops[1].nondeterministic = true;
  EXPECT_THAT(Find(), IsEmpty());
}

TEST_F(PrivateValuesTest, ThereAreNoMoreThanSomeOfThem) {
  for (int i = 0; i < 100; ++i) builder_.Op({}, {Small()});
  // The last of 64 stands in front of one that waits.
  EXPECT_EQ(Find().size(), 63u);
}

}  // namespace
}  // namespace reprise::engine
