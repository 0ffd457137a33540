// What small programs do with a result.

#include "bindings/native/value_or_exit.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "bindings/native/reprise.h"

namespace reprise {
namespace {

Result<std::unique_ptr<int>> Make(int value) {
  if (value < 0) {
    return Fail(Code::kInvalidArgument,
                std::to_string(value) + " is negative: give 0 or more");
  }
  return std::make_unique<int>(value);
}
Status Check(int value) {
  REPRISE_RETURN_IF_ERROR(Make(value));
  return {};
}

TEST(ValueOrExitTest, GivesTheValueAwayAlsoOfWhatOnlyMoves) {
  const std::unique_ptr<int> three = ValueOrExit(Make(3));
  EXPECT_EQ(*three, 3);
  ValueOrExit(Check(3));
}

TEST(ValueOrExitDeathTest, AnErrorEndsTheProgramWithTheCallersLine) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT((void)ValueOrExit(Make(-3)), testing::ExitedWithCode(1),
              "^value_or_exit_test\\.cc:[0-9]+: -3 is negative: give 0 or "
              "more\n$");
  EXPECT_EXIT(ValueOrExit(Check(-1)), testing::ExitedWithCode(1),
              "^value_or_exit_test\\.cc:[0-9]+: -1 is negative");
}

// A runtime with threads is there when the process ends.
TEST(ValueOrExitDeathTest, EndsBesideARuntime) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        const Runtime runtime =
            ValueOrExit(Runtime::Create({.device = RuntimeOptions::kHost}));
        const Stream stream = ValueOrExit(runtime.CreateStream());
        ValueOrExit(stream.BeginBatch().Submit());
        (void)ValueOrExit(runtime.AdoptStream(nullptr));
      },
      testing::ExitedWithCode(1), "has no streams to adopt");
}

}  // namespace
}  // namespace reprise
