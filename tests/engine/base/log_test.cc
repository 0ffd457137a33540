#include "engine/base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace reprise::base {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class LogTest : public ::testing::Test {
 protected:
  ~LogTest() override { SetLogLevel(LogLevel::kWarning); }

  static std::string Written(LogLevel level, std::string_view message) {
    ::testing::internal::CaptureStderr();
    Log(level, message);
    return ::testing::internal::GetCapturedStderr();
  }
};

TEST_F(LogTest, SaysOnlyWarningsAndErrorsAtFirst) {
  EXPECT_THAT(Written(LogLevel::kError, "broken"), HasSubstr("broken"));
  EXPECT_THAT(Written(LogLevel::kWarning, "careful"),
              AllOf(HasSubstr("[reprise]"), HasSubstr("[warning]"),
                    HasSubstr("careful")));
  EXPECT_THAT(Written(LogLevel::kInfo, "by the way"), IsEmpty());
}

TEST_F(LogTest, EachLevelIncludesThoseBeforeIt) {
  SetLogLevel(LogLevel::kInfo);
  EXPECT_TRUE(LogEnabled(LogLevel::kWarning));
  EXPECT_TRUE(LogEnabled(LogLevel::kInfo));
  EXPECT_FALSE(LogEnabled(LogLevel::kDebug));
  EXPECT_THAT(Written(LogLevel::kInfo, "by the way"), HasSubstr("by the way"));
}

TEST_F(LogTest, OffSaysNothing) {
  SetLogLevel(LogLevel::kOff);
  EXPECT_THAT(Written(LogLevel::kError, "broken"), IsEmpty());
  EXPECT_FALSE(LogEnabled(LogLevel::kOff));
}

TEST_F(LogTest, MessageIsTextAndNoFormat) {
  EXPECT_THAT(Written(LogLevel::kError, "{} {0:x} %s"),
              HasSubstr("{} {0:x} %s"));
}

}  // namespace
}  // namespace reprise::base
