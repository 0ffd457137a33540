// Proves that an op's warnings reach the program once, when eager runs the op.

#include "bindings/torch/runtime/op_warnings.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/bindings/torch/fake_session.h"

namespace reprise::bindings {
namespace {

// In the place of Python's.
class Told final : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override {
    texts.push_back(warning.msg());
  }
  std::vector<std::string> texts;
};

class OpWarningsTest : public ::testing::Test {
 protected:
  static void Warn(const char* text) { TORCH_WARN(text); }

  Told told_;
  c10::WarningUtils::WarningHandlerGuard guard_{&told_};
};

TEST_F(OpWarningsTest, AreNotedAndGoOn) {
  OpWarnings warnings;
  warnings.Begin();
  EXPECT_FALSE(warnings.any());
  Warn("one");
  EXPECT_TRUE(warnings.any());
  warnings.End();
  Warn("two");
  EXPECT_EQ(told_.texts, (std::vector<std::string>{"one", "two"}));
}

TEST_F(OpWarningsTest, EndOnEveryWay) {
  {
    OpWarnings warnings;
    warnings.Begin();
  }
  EXPECT_EQ(c10::WarningUtils::get_warning_handler(), &told_);
}

TEST_F(OpWarningsTest, AreToldNobody) {
  {
    const UntoldWarnings warnings;
    Warn("one");
    EXPECT_TRUE(warnings.any());
  }
  EXPECT_TRUE(told_.texts.empty());
  EXPECT_EQ(c10::WarningUtils::get_warning_handler(), &told_);
}

// An op without degrees of freedom warns.
TEST_F(OpWarningsTest, AnOpThatWarnsIsSaidToHave) {
  FakeSession session;
  const auto x = at::ones({4, 1});
  session.Record();
  at::neg(x);
  at::std(x, 1);
  session.Pass();
  ASSERT_EQ(session.seen().size(), 2u);
  EXPECT_FALSE(session.seen()[0].warned);
  EXPECT_TRUE(session.seen()[1].warned);
  EXPECT_EQ(told_.texts.size(), 1u);
}

TEST_F(OpWarningsTest, ACallThatWarnsIsRefusedAndToldNobody) {
  FakeSession session;
  const auto x = at::ones({4, 1});
  session.WantCalls();
  session.Record();
  at::std(x, 1);
  session.Replay();
  at::std(x, 1);
  session.Pass();
  EXPECT_EQ(session.follows(), 0u);
  ASSERT_EQ(session.failures().size(), 1u);
  EXPECT_NE(session.failures()[0].find("warns"), std::string::npos);
  EXPECT_EQ(told_.texts.size(), 2u);  // eager's alone
}

}  // namespace
}  // namespace reprise::bindings
