#include "engine/base/status.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <type_traits>
#include <utility>

namespace reprise::base {
namespace {

Result<int> Half(int number) {
  if (number % 2 != 0) {
    return Fail(Code::kInvalidArgument, std::to_string(number) + " is odd");
  }
  return number / 2;
}

Result<int> Quarter(int number) {
  REPRISE_ASSIGN_OR_RETURN(const int half, Half(number));
  REPRISE_ASSIGN_OR_RETURN(int quarter, Half(half));
  return quarter;
}

Status CheckEven(int number) {
  REPRISE_RETURN_IF_ERROR(Half(number));
  return {};
}

Result<std::unique_ptr<int>> Own(std::unique_ptr<int> number) {
  REPRISE_ASSIGN_OR_RETURN(std::unique_ptr<int> owned,
                           Result<std::unique_ptr<int>>(std::move(number)));
  return owned;
}

TEST(StatusTest, ValuePassesThrough) {
  EXPECT_EQ(Quarter(12).value(), 3);
  EXPECT_TRUE(CheckEven(2));
}

TEST(StatusTest, FirstErrorLeaves) {
  const Result<int> result = Quarter(6);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code(), Code::kInvalidArgument);
  EXPECT_EQ(result.error().message(), "3 is odd");
  EXPECT_EQ(CheckEven(5).error().message(), "5 is odd");
}

TEST(StatusTest, InKeepsTheCodeAndNamesThePlace) {
  const Error error = Quarter(6).error().In("quarter");
  EXPECT_EQ(error.code(), Code::kInvalidArgument);
  EXPECT_EQ(error.message(), "quarter: 3 is odd");
}

TEST(StatusTest, AndThenGoesOnWithTheValue) {
  const Result<int> twelve = 12;
  EXPECT_EQ(*twelve.and_then(Half), 6);
  EXPECT_EQ(*Half(12).and_then(Half), 3);
  EXPECT_EQ(Half(6).and_then(Half).error().message(), "3 is odd");
  EXPECT_EQ(*CheckEven(2).and_then([] { return Half(4); }), 2);
  EXPECT_EQ(CheckEven(1).and_then([] { return Half(4); }).error().message(),
            "1 is odd");
  const auto take = [](std::unique_ptr<int> owned) -> Result<int> {
    return *owned;
  };
  EXPECT_EQ(*Own(std::make_unique<int>(5)).and_then(take), 5);
}

TEST(StatusTest, ConvertsAsItsValueDoes) {
  const auto base = [](bool fails) -> Result<std::shared_ptr<const int>> {
    if (fails) return Result<std::shared_ptr<int>>(Fail(Code::kInternal, "no"));
    return Result<std::shared_ptr<int>>(std::make_shared<int>(3));
  };
  EXPECT_EQ(**base(false), 3);
  EXPECT_EQ(base(true).error().message(), "no");
  static_assert(std::is_convertible_v<const char*, Result<std::string>>);
  static_assert(!std::is_convertible_v<int, Result<std::string>>);
  static_assert(!std::is_convertible_v<int, Result<std::unique_ptr<int>>>);
}

// A copy is one, also of a result of what every result converts to.
TEST(StatusTest, CopiesOfResultsOfBoolAreCopies) {
  Result<bool> no = false;
  const Result<bool> copy(no);
  ASSERT_TRUE(copy);
  EXPECT_FALSE(*copy);
  Result<bool> failed = Fail(Code::kInternal, "no");
  const Result<bool> same(failed);
  EXPECT_FALSE(same);
}

TEST(StatusTest, MovesWhatCannotBeCopied) {
  EXPECT_EQ(*Own(std::make_unique<int>(7)).value(), 7);
}

}  // namespace
}  // namespace reprise::base
