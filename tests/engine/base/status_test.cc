#include "engine/base/status.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

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

Result<std::unique_ptr<int>> Own(std::unique_ptr<int> number) {
  REPRISE_ASSIGN_OR_RETURN(std::unique_ptr<int> owned,
                           Result<std::unique_ptr<int>>(std::move(number)));
  return owned;
}

TEST(StatusTest, MovesWhatCannotBeCopied) {
  EXPECT_EQ(*Own(std::make_unique<int>(7)).value(), 7);
}

}  // namespace
}  // namespace reprise::base
