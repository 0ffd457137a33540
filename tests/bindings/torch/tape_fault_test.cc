// The first thing that is wrong with a recording is what people are told.

#include "bindings/torch/region/tape_fault.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>

namespace reprise::bindings {
namespace {

TEST(TapeFaultTest, NothingIsWrongAtFirst) {
  TapeFault fault;
  EXPECT_FALSE(fault.refused());
  EXPECT_FALSE(fault.differs());
  EXPECT_EQ(fault.reason(), "");
  EXPECT_EQ(fault.TakePlace(), "");
}

TEST(TapeFaultTest, TheFirstRefusalStays) {
  TapeFault fault;
  fault.Refuse("first");
  fault.Refuse(Refusal::kSeeded);
  fault.RefuseAt(7, Refusal::kHooksInside);
  EXPECT_TRUE(fault.refused());
  EXPECT_EQ(fault.reason(), "first");
}

TEST(TapeFaultTest, TheFirstDifferenceStays) {
  TapeFault fault;
  fault.Differ("first");
  fault.Differ("second");
  EXPECT_TRUE(fault.differs());
  EXPECT_FALSE(fault.refused());
  EXPECT_EQ(fault.reason(), "first");
}

TEST(TapeFaultTest, ARefusalCountsMoreThanADifference) {
  TapeFault fault;
  fault.Differ("another call");
  fault.Refuse(Refusal::kSeeded);
  EXPECT_EQ(fault.reason(), SentenceOf(Refusal::kSeeded));
  fault.Differ("later");
  EXPECT_EQ(fault.reason(), SentenceOf(Refusal::kSeeded));
}

TEST(TapeFaultTest, NamesWhatRefuses) {
  const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("aten::add", "Tensor");
  TapeFault by_op;
  by_op.Refuse(Refusal::kRaised, op);
  EXPECT_EQ(by_op.reason(), "aten::add.Tensor raised an error");
  TapeFault by_name;
  by_name.Refuse(Refusal::kHandsDataOut, "x");
  EXPECT_EQ(by_name.reason(), "x: hands data to the host");
}

TEST(TapeFaultTest, EachPlaceIsAnotherQuestion) {
  const uint64_t first = TapeFault::AskForPlace();
  EXPECT_NE(first, 0u);
  EXPECT_NE(TapeFault::AskForPlace(), first);
}

}  // namespace
}  // namespace reprise::bindings
