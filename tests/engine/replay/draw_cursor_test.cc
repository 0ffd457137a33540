// Draws are bound to where the generator is, come one after the other, and can
// be taken back.

#include "engine/replay/draw_cursor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "tests/engine/fake_executor.h"
#include "tests/engine/fake_frontend.h"
#include "tests/engine/trace_builder.h"

namespace reprise::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

class DrawCursorTest : public testing::Test {
 protected:
  // Ops 1 and 3 draw 4 each, from where the head finds the generator.
  DrawCursorTest() {
    TraceBuilder builder(&frontend_);
    for (int k = 0; k < 4; ++k) builder.Op({}, {}, 1);
    Trace second(&frontend_);
    second.ops.resize(4);
    builder.trace().generator = {7, 40};
    second.generator = {7, 80};
    for (const uint32_t k : {1, 3}) {
      builder.trace().ops[k].generator = {
          .draws = true, .before = {7, k == 1 ? 40u : 44u}, .increment = 4};
      second.ops[k].generator.before = {7, k == 1 ? 80u : 84u};
    }
    program_ = std::make_unique<Program>(builder.Take());
    program_->effects =
        Effects(program_->trace.get(), {}, {}, Effects::Remake::kWhatLasts,
                Draws::Ahead(*program_->trace, second));
    cursor_ = std::make_unique<DrawCursor>(program_.get(), &executor_);
    frontend_.generator = {7, 100};
  }

  FakeFrontend frontend_;
  FakeExecutor::Log log_;
  FakeExecutor executor_{&log_};
  std::unique_ptr<Program> program_;
  std::unique_ptr<DrawCursor> cursor_;
};

TEST_F(DrawCursorTest, AnExecutorIsToldWhereEachOpDraws) {
  ASSERT_TRUE(cursor_->Bind(Draws::kHead));
  EXPECT_THAT(log_.generator, ElementsAre(Pair(1, GeneratorState{7, 100}),
                                          Pair(3, GeneratorState{7, 104})));
  EXPECT_EQ(frontend_.generator, (GeneratorState{7, 100}));
}

TEST_F(DrawCursorTest, NothingIsBoundToASeedThatNoRecordingHasSeen) {
  frontend_.generator = {8, 100};
  EXPECT_FALSE(cursor_->Bind(Draws::kHead));
  EXPECT_THAT(log_.generator, IsEmpty());
  frontend_.generator = {7, 40};  // the draws are as recorded
  cursor_->Rewind();
  EXPECT_TRUE(cursor_->Draw());
}

TEST_F(DrawCursorTest, TheGeneratorMovesWithEachDraw) {
  ASSERT_TRUE(cursor_->Bind(Draws::kHead));
  cursor_->Rewind();
  EXPECT_EQ(cursor_->next_op(), 1u);
  EXPECT_EQ(cursor_->drawn(), 0u);
  ASSERT_TRUE(cursor_->Draw());
  EXPECT_EQ(frontend_.generator, (GeneratorState{7, 104}));
  EXPECT_EQ(cursor_->next_op(), 3u);
  EXPECT_EQ(cursor_->last(), (GeneratorState{7, 100}));
  ASSERT_TRUE(cursor_->Draw());
  EXPECT_EQ(frontend_.generator, (GeneratorState{7, 108}));
  EXPECT_EQ(cursor_->next_op(), DrawCursor::kNoOp);
  EXPECT_EQ(cursor_->drawn(), 2u);
  EXPECT_EQ(cursor_->last(), (GeneratorState{7, 104}));
}

TEST_F(DrawCursorTest, NothingIsDrawnFromWhereOthersHaveMovedTheGenerator) {
  ASSERT_TRUE(cursor_->Bind(Draws::kHead));
  cursor_->Rewind();
  frontend_.generator = {7, 101};
  EXPECT_FALSE(cursor_->Draw());
  EXPECT_FALSE(cursor_->DrawBesideEager());
  EXPECT_EQ(frontend_.generator, (GeneratorState{7, 101}));
  EXPECT_EQ(cursor_->next_op(), 1u);
}

TEST_F(DrawCursorTest, ADrawIsTakenBackUnlessOthersHaveDrawnBehindIt) {
  ASSERT_TRUE(cursor_->Bind(Draws::kHead));
  cursor_->Rewind();
  ASSERT_TRUE(cursor_->Draw());
  cursor_->TakeBack();
  EXPECT_EQ(frontend_.generator, (GeneratorState{7, 100}));
  EXPECT_EQ(cursor_->next_op(), 1u);
  ASSERT_TRUE(cursor_->Draw());
  frontend_.generator = {7, 120};
  cursor_->TakeBack();
  EXPECT_EQ(frontend_.generator, (GeneratorState{7, 120}));
  EXPECT_EQ(cursor_->drawn(), 0u);
}

TEST_F(DrawCursorTest, BesideEagerTheGeneratorIsEagersToMove) {
  ASSERT_TRUE(cursor_->Bind(Draws::kHead));
  cursor_->Rewind();
  EXPECT_TRUE(cursor_->DrewBesideEager(0));
  ASSERT_TRUE(cursor_->DrawBesideEager());
  EXPECT_EQ(frontend_.generator, (GeneratorState{7, 100}));
  EXPECT_FALSE(cursor_->DrewBesideEager(1));
  EXPECT_TRUE(cursor_->DrewBesideEager(2));  // it draws nothing
  frontend_.generator = {7, 104};
  EXPECT_TRUE(cursor_->DrewBesideEager(1));
}

}  // namespace
}  // namespace reprise::engine
