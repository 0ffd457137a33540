// Names of files that macros make.

#include "kernels/include_macros.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

namespace reprise::kernels {
namespace {

using ::testing::Optional;
using ::testing::UnorderedElementsAre;

class IncludeMacrosTest : public ::testing::Test {
 protected:
  void Define(std::string macro, std::string body, bool opaque = false) {
    definitions_.push_back({std::move(macro), std::move(body), opaque});
    macros_.Add(definitions_.back());
  }

  std::deque<IncludeMacros::Definition> definitions_;  // stay where they are
  IncludeMacros macros_;
};

TEST_F(IncludeMacrosTest, ExpandsWithinBrackets) {
  Define("ROOT", "lib/SYSTEM");
  Define("SYSTEM", "cpp");
  Define("HEADER", "<ROOT/detail/copy.h>");
  EXPECT_THAT(macros_.Expand("HEADER"),
              Optional(UnorderedElementsAre("ROOT/detail/copy.h",
                                            "lib/SYSTEM/detail/copy.h",
                                            "lib/cpp/detail/copy.h")));
}

TEST_F(IncludeMacrosTest, TakesEveryDefinition) {
  Define("HEADER", "<a.h>");
  Define("HEADER", "\"b.h\"");
  Define("HEADER", "<a.h>");
  Define("HEADER", "nothing");
  EXPECT_THAT(macros_.Expand("HEADER"),
              Optional(UnorderedElementsAre("a.h", "b.h")));
}

TEST_F(IncludeMacrosTest, ExpandsNothingWithinQuotesOrNumbers) {
  Define("a", "wrong");
  Define("x1", "wrong");
  EXPECT_THAT(macros_.Expand("\"a/b.h\""),
              Optional(UnorderedElementsAre("a/b.h")));
  EXPECT_THAT(macros_.Expand("<0x1>"), Optional(UnorderedElementsAre("0x1")));
}

TEST_F(IncludeMacrosTest, BlanksMayCountOrNot) {
  Define("ROOT", "lib");
  EXPECT_THAT(macros_.Expand("< a / b.h >"),
              Optional(UnorderedElementsAre(" a / b.h ", "a/b.h")));
}

TEST_F(IncludeMacrosTest, SaysWhenItCannotTell) {
  EXPECT_EQ(macros_.Expand("HEADER"), std::nullopt);
  EXPECT_EQ(macros_.Expand("<__VERSION_OF_IT__/a.h>"), std::nullopt);
  Define("CALL", "", true);
  EXPECT_EQ(macros_.Expand("CALL(a)"), std::nullopt);
  Define("INDIRECT", "<CALL>");
  EXPECT_EQ(macros_.Expand("INDIRECT"), std::nullopt);
  Define("EMPTY", "");
  EXPECT_EQ(macros_.Expand("EMPTY"), std::nullopt);
}

TEST_F(IncludeMacrosTest, EndsWhereMacrosGoInCirclesOrAllWays) {
  Define("A", "B");
  Define("B", "A");
  EXPECT_EQ(macros_.Expand("<A>"), std::nullopt);
  Define("SELF", "SELF");
  EXPECT_THAT(macros_.Expand("<SELF>"), Optional(UnorderedElementsAre("SELF")));
  for (int i = 0; i < 300; ++i) Define("MANY", "m" + std::to_string(i));
  EXPECT_EQ(macros_.Expand("<MANY>"), std::nullopt);
}

}  // namespace
}  // namespace reprise::kernels
