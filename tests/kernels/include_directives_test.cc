// What a text may include, however it is written.

#include "kernels/include_directives.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace reprise::kernels {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Definition = IncludeDirectives::Definition;

std::vector<std::string> Names(std::string_view text) {
  return FindIncludeDirectives(text).names;
}

bool Complete(std::string_view text) {
  return FindIncludeDirectives(text).complete;
}

TEST(FindIncludeDirectivesTest, FindsIncludesHoweverWritten) {
  EXPECT_THAT(Names("#include <a/b.h>\n#include \"c d.h\""),
              ElementsAre("a/b.h", "c d.h"));
  EXPECT_THAT(Names(" \t# /* x */ include /* y */ <a>"), ElementsAre("a"));
  EXPECT_THAT(Names("#include<a>\r\n#include\"b\"\r\n"), ElementsAre("a", "b"));
  EXPECT_THAT(Names("#include_next <a>"), ElementsAre("a"));
  EXPECT_THAT(Names("%:include <a>"), ElementsAre("a"));
  EXPECT_THAT(Names("#inc\\\nlude \\ \n <a>"), ElementsAre("a"));
  EXPECT_THAT(Names("/* the comment\nends */ #include <a>"), ElementsAre("a"));
  EXPECT_THAT(Names("#include <a> // and \"b\""), ElementsAre("a"));
}

TEST(FindIncludeDirectivesTest, HeedsNoConditionsOrComments) {
  EXPECT_THAT(Names("#if 0\n#include <a>\n#endif\n/*\n#include <b>\n*/"),
              ElementsAre("a", "b"));
}

TEST(FindIncludeDirectivesTest, FindsWhatIsAskedFor) {
  EXPECT_THAT(Names("#if __has_include(<a>) || __has_include(\"b\")"),
              ElementsAre("a", "b"));
  EXPECT_THAT(Names("#define HAS(x) __has_include(x)\n"
                    "#elif MY_HAS_INCLUDE( <c> )"),
              ElementsAre("c"));
}

TEST(FindIncludeDirectivesTest, OtherTextNamesNothing) {
  const char* text =
      "int include = 3; // include <a>\nconst char* s = \"include \";\n"
      "#define INCLUDED\n#ifdef INCLUDE_ALL\n#endif\nx = a # include;\n";
  EXPECT_THAT(Names(text), IsEmpty());
  EXPECT_TRUE(Complete(text));
}

TEST(FindIncludeDirectivesTest, SaysWhenTextDoesNotTell) {
  EXPECT_TRUE(Complete("#include <a>\n#if __has_include(<b>)\n#endif"));
  EXPECT_FALSE(Complete("#include /* goes on\n */ <a>"));
  EXPECT_FALSE(Complete("# /* goes on\n */ include <a>"));
  EXPECT_FALSE(Complete("?\?=include <a>"));
  EXPECT_FALSE(Complete("#inc?\?/\nlude <a>"));
  EXPECT_FALSE(Complete("const char* made = __DATE__;"));
  EXPECT_FALSE(Complete("const char* made = __TIME__;"));
}

TEST(FindIncludeDirectivesTest, KeepsWhatMacrosMakeANameOf) {
  const IncludeDirectives found = FindIncludeDirectives(
      "#include HEADER // comment\n#include /**/ ROOT/a.h /* comment */\n"
      "#include_next NEXT(x)\n");
  EXPECT_TRUE(found.complete);
  EXPECT_THAT(found.names, IsEmpty());
  EXPECT_THAT(found.computed, ElementsAre("HEADER", "ROOT/a.h", "NEXT(x)"));
}

TEST(FindIncludeDirectivesTest, FindsDefinitions) {
  const auto found = FindIncludeDirectives(
      "#define A <a/b.h> // comment\n  # define B_1\n#define C(x) x\n"
      "#define D a##b\n#define E \"a//b.h\"\n#define F f \\\n g\n"
      "#undef A\n#defined_not\n");
  EXPECT_THAT(found.definitions,
              ElementsAre(Definition{"A", "<a/b.h>"}, Definition{"B_1", ""},
                          Definition{"C", "", true}, Definition{"D", "", true},
                          Definition{"E", "", true}, Definition{"F", "f  g"}));
}

}  // namespace
}  // namespace reprise::kernels
