#include "engine/base/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

namespace reprise::base {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Sets a variable for the length of a test.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    setenv(name, value, /*overwrite=*/1);
  }
  ~Variable() { unsetenv(name_); }

 private:
  const char* name_;
};

class OptionsTest : public ::testing::Test {
 protected:
  OptionsTest() {
    for (const OptionRow& row : OptionTable()) {
      unsetenv(std::string(row.variable).c_str());
    }
  }
};

TEST_F(OptionsTest, TableShowsTheDefaultsOfTheStruct) {
  for (const OptionRow& row : OptionTable()) {
    Options options;
    ASSERT_TRUE(options.Set(row.name, row.default_value)) << row.name;
    EXPECT_EQ(options, Options()) << row.name;
  }
}

TEST_F(OptionsTest, SetsEveryOption) {
  Options options;
  EXPECT_TRUE(options.Set("enabled", "0"));
  EXPECT_TRUE(options.Set("policy", "measured"));
  EXPECT_TRUE(options.Set("margin", "0.25"));
  EXPECT_TRUE(options.Set("validate_share", "1e-05"));
  EXPECT_TRUE(options.Set("plan_budget_bytes", "1GiB"));
  EXPECT_TRUE(options.Set("max_arena_bytes", "65536"));
  EXPECT_TRUE(options.Set("max_instances", "3"));
  EXPECT_TRUE(options.Set("branches", "0"));
  EXPECT_TRUE(options.Set("max_trace_ops", "100"));
  EXPECT_TRUE(options.Set("log", "debug"));
  EXPECT_TRUE(options.Set("nvtx", "1"));
  EXPECT_TRUE(options.Set("build_delays", "18446744073709551615"));
  EXPECT_FALSE(options.enabled);
  EXPECT_EQ(options.policy, Policy::kMeasured);
  EXPECT_EQ(options.margin, 0.25);
  EXPECT_EQ(options.validate_share, 1e-5);
  EXPECT_EQ(options.plan_budget_bytes, size_t{1} << 30);
  EXPECT_EQ(options.max_arena_bytes, 65536u);
  EXPECT_EQ(options.max_instances, 3u);
  EXPECT_FALSE(options.branches);
  EXPECT_EQ(options.max_trace_ops, 100u);
  EXPECT_EQ(options.log, LogLevel::kDebug);
  EXPECT_TRUE(options.nvtx);
  EXPECT_EQ(options.build_delays, ~uint64_t{0});
}

TEST_F(OptionsTest, RefusalNamesTheOptionAndWhatItAccepts) {
  for (const OptionRow& row : OptionTable()) {
    for (std::string_view value : {"", "x", "-1", " ", "nan", "1e99"}) {
      Options options;
      const Status set = options.Set(row.name, value);
      ASSERT_FALSE(set) << row.name << " '" << value << "'";
      EXPECT_EQ(set.error().code(), Code::kInvalidArgument);
      EXPECT_THAT(set.error().message(),
                  AllOf(HasSubstr("'" + std::string(row.name) + "'"),
                        HasSubstr("'" + std::string(value) + "'"),
                        HasSubstr(std::string(row.accepted))));
      EXPECT_EQ(options, Options());
    }
  }
}

TEST_F(OptionsTest, BytesThatOverflowAreRefused) {
  Options options;
  EXPECT_FALSE(options.Set("plan_budget_bytes", "99999999999999999999"));
  EXPECT_FALSE(options.Set("plan_budget_bytes", "18014398509481984GiB"));
  EXPECT_FALSE(options.Set("plan_budget_bytes", "MiB"));
  EXPECT_FALSE(options.Set("plan_budget_bytes", "1 MiB"));
}

TEST_F(OptionsTest, LimitsThatAreNotSetAreSharesOfTheDevice) {
  Options options;
  options.max_arena_bytes = 100;
  const Options on_device = options.For(size_t{32} << 30);
  EXPECT_EQ(on_device.plan_budget_bytes, size_t{4} << 30);
  EXPECT_EQ(on_device.max_arena_bytes, 100u);
  EXPECT_EQ(Options().For(size_t{32} << 30).max_arena_bytes, size_t{2} << 30);
}

TEST_F(OptionsTest, UnknownOptionNamesTheKnown) {
  Options options;
  const Status set = options.Set("polcy", "always");
  ASSERT_FALSE(set);
  EXPECT_THAT(
      set.error().message(),
      AllOf(HasSubstr("'polcy'"), HasSubstr("policy"), HasSubstr("log")));
}

TEST_F(OptionsTest, EnvironmentChangesTheDefaults) {
  EXPECT_EQ(Options::FromEnvironment().value(), Options());
  Variable off("REPRISE", "0");
  Variable policy("REPRISE_POLICY", "always");
  Variable empty("REPRISE_MARGIN", "");
  const Options options = Options::FromEnvironment().value();
  EXPECT_FALSE(options.enabled);
  EXPECT_EQ(options.policy, Policy::kAlways);
  EXPECT_EQ(options.margin, Options().margin);
}

TEST_F(OptionsTest, BadEnvironmentNamesTheVariable) {
  Variable policy("REPRISE_POLICY", "sometimes");
  const Result<Options> options = Options::FromEnvironment();
  ASSERT_FALSE(options);
  EXPECT_THAT(options.error().message(),
              AllOf(HasSubstr("REPRISE_POLICY"), HasSubstr("'sometimes'"),
                    HasSubstr("measured")));
}

// Run with REPRISE_UPDATE_DOCS=1 to write the page anew.
TEST_F(OptionsTest, PageShowsTheTable) {
  const std::string path = REPRISE_SOURCE_DIR "/docs/options.md";
  if (std::getenv("REPRISE_UPDATE_DOCS") != nullptr) {
    std::ofstream(path) << OptionsDocument();
  }
  std::stringstream page;
  page << std::ifstream(path).rdbuf();
  EXPECT_EQ(page.str(), OptionsDocument())
      << "write docs/options.md anew: REPRISE_UPDATE_DOCS=1 ctest -R Options";
}

}  // namespace
}  // namespace reprise::base
