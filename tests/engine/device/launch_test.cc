// Launches as values: what makes two of them the same but for their addresses.

#include "engine/device/launch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>

#include "tests/engine/device/noisy_attribute.h"

namespace reprise::device {
namespace {

using ::testing::HasSubstr;

Launch SomeKernel() {
  Launch launch;
  launch.function = std::bit_cast<CUfunction>(uintptr_t{0x10});
  launch.grid = {4, 2, 1};
  launch.block = {128, 1, 1};
  launch.shared_bytes = 1024;
  launch.image.resize(16);
  launch.params = std::make_shared<const std::vector<ParamSpan>>(
      std::vector<ParamSpan>{{0, 8}, {8, 8}});
  launch.name = std::make_shared<const std::string>("_Z3addPfi");
  return launch;
}

TEST(LaunchTest, WordIsReadWhereItWasWritten) {
  Launch launch = SomeKernel();
  launch.SetWord(8, 0x1234'5678'9abc'def0);
  EXPECT_EQ(launch.Word(0), 0u);
  EXPECT_EQ(launch.Word(8), 0x1234'5678'9abc'def0);
}

TEST(LaunchTest, ImageBytesAreNoPartOfTheShape) {
  Launch other = SomeKernel();
  other.SetWord(8, 1);
  other.name = nullptr;
  EXPECT_TRUE(SameShape(SomeKernel(), other));
}

TEST(LaunchTest, EveryOtherFieldOfAKernelIs) {
  const auto differs = [](auto change) {
    Launch other = SomeKernel();
    change(other);
    return !SameShape(SomeKernel(), other);
  };
  EXPECT_TRUE(differs([](Launch& l) { l.kind = Launch::Kind::kMemset; }));
  EXPECT_TRUE(differs([](Launch& l) { l.packed = true; }));
  EXPECT_TRUE(differs([](Launch& l) { l.image.resize(24); }));
  EXPECT_TRUE(differs([](Launch& l) { l.function = nullptr; }));
  EXPECT_TRUE(differs([](Launch& l) { l.grid.y = 3; }));
  EXPECT_TRUE(differs([](Launch& l) { l.block.x = 64; }));
  EXPECT_TRUE(differs([](Launch& l) { l.shared_bytes = 0; }));
  EXPECT_TRUE(differs([](Launch& l) { l.params = nullptr; }));
  EXPECT_TRUE(differs([](Launch& l) { l.behind = {1}; }));
  EXPECT_TRUE(differs([](Launch& l) {
    l.attributes.push_back(Attribute(CU_LAUNCH_ATTRIBUTE_COOPERATIVE, 1, 0));
  }));
}

TEST(LaunchTest, FieldsOfAFillAreItsShape) {
  Launch fill;
  fill.kind = Launch::Kind::kMemset;
  fill.image.resize(8);
  fill.value = 7;
  fill.width = 100;
  Launch other = fill;
  EXPECT_TRUE(SameShape(fill, other));
  other.value = 8;
  EXPECT_FALSE(SameShape(fill, other));
  other = fill;
  other.width = 101;
  EXPECT_FALSE(SameShape(fill, other));
}

TEST(LaunchTest, AttributesAreComparedByWhatTheirIdMeans) {
  Launch left = SomeKernel();
  Launch right = SomeKernel();
  left.attributes = {Attribute(CU_LAUNCH_ATTRIBUTE_PRIORITY, 3, 0xaa)};
  right.attributes = {Attribute(CU_LAUNCH_ATTRIBUTE_PRIORITY, 3, 0x55)};
  EXPECT_TRUE(SameShape(left, right));
  right.attributes[0].value.priority = 4;
  EXPECT_FALSE(SameShape(left, right));
}

TEST(LaunchTest, DescriptionNamesTheKernelForPeople) {
  const std::string line = Describe(SomeKernel());
  EXPECT_THAT(line, HasSubstr("add(float*, int)"));
  EXPECT_THAT(line, HasSubstr("(4, 2, 1)"));
  EXPECT_THAT(line, HasSubstr("(128, 1, 1)"));
  EXPECT_THAT(line, HasSubstr("1024"));
  Launch unnamed = SomeKernel();
  unnamed.name = nullptr;
  EXPECT_THAT(Describe(unnamed), HasSubstr("kernel ?"));
}

}  // namespace
}  // namespace reprise::device
