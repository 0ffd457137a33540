// Proves what is taken over of each attribute of a launch, and which bytes of
// it count.

#include "engine/device/launch_attribute.h"

#include <gtest/gtest.h>

#include <cstring>

#include "tests/engine/device/noisy_attribute.h"

namespace reprise::device {
namespace {

// An id that has no meaning yet, of those that its type can hold.
constexpr auto kUnknown = static_cast<CUlaunchAttributeID>(31);

TEST(LaunchAttributeTest, CanonicalFormDropsNoise) {
  for (const CUlaunchAttributeID id :
       {CU_LAUNCH_ATTRIBUTE_COOPERATIVE, CU_LAUNCH_ATTRIBUTE_PRIORITY,
        CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION}) {
    const CUlaunchAttribute left = Canonical(Attribute(id, 1, 0xaa));
    const CUlaunchAttribute right = Canonical(Attribute(id, 1, 0x55));
    EXPECT_EQ(std::memcmp(left.value.pad, right.value.pad, sizeof left.value),
              0);
    EXPECT_TRUE(SameAttribute(left, right));
    EXPECT_EQ(left.value.cooperative, 1);
  }
}

TEST(LaunchAttributeTest, EveryDimensionOfAClusterCounts) {
  CUlaunchAttribute left =
      Attribute(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, 0, 0xaa);
  CUlaunchAttribute right =
      Attribute(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, 0, 0x55);
  left.value.clusterDim = right.value.clusterDim = {2, 1, 4};
  EXPECT_TRUE(SameAttribute(left, right));
  right.value.clusterDim.z = 8;
  EXPECT_FALSE(SameAttribute(left, right));
  EXPECT_EQ(Canonical(left).value.clusterDim.z, 4u);
}

TEST(LaunchAttributeTest, NoAddressIsKeptOfAnAccessPolicy) {
  const CUlaunchAttribute left =
      Attribute(CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW, 1, 0xaa);
  const CUlaunchAttribute right =
      Attribute(CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW, 2, 0x55);
  EXPECT_TRUE(SameAttribute(left, right));
  EXPECT_EQ(Canonical(left).value.accessPolicyWindow.base_ptr, nullptr);
}

TEST(LaunchAttributeTest, AttributesOfAnotherIdDiffer) {
  EXPECT_FALSE(SameAttribute(Attribute(CU_LAUNCH_ATTRIBUTE_COOPERATIVE, 1, 0),
                             Attribute(CU_LAUNCH_ATTRIBUTE_PRIORITY, 1, 0)));
}

// An unknown value may have a meaning in each of its bytes.
TEST(LaunchAttributeTest, AllBytesOfAnUnknownAttributeCount) {
  EXPECT_TRUE(SameAttribute(Attribute(kUnknown, 1, 0xaa),
                            Attribute(kUnknown, 1, 0xaa)));
  EXPECT_FALSE(SameAttribute(Attribute(kUnknown, 1, 0xaa),
                             Attribute(kUnknown, 1, 0x55)));
}

// A launch that records an event, or does what nobody here has heard of, must
// not be repeated without it.
TEST(LaunchAttributeTest, EventsAndUnknownAttributesAreForbidden) {
  EXPECT_EQ(UseOf(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT),
            AttributeUse::kForbidden);
  EXPECT_EQ(UseOf(CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT),
            AttributeUse::kForbidden);
  EXPECT_EQ(UseOf(kUnknown), AttributeUse::kForbidden);
}

TEST(LaunchAttributeTest, WhatAKernelDoesIsRequiredAndItsSpeedAHint) {
  EXPECT_EQ(UseOf(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION),
            AttributeUse::kRequired);
  EXPECT_EQ(UseOf(CU_LAUNCH_ATTRIBUTE_COOPERATIVE), AttributeUse::kRequired);
  EXPECT_EQ(UseOf(CU_LAUNCH_ATTRIBUTE_PRIORITY), AttributeUse::kHint);
  EXPECT_EQ(UseOf(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION),
            AttributeUse::kOmitted);
  EXPECT_EQ(UseOf(CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW),
            AttributeUse::kOmitted);
}

}  // namespace
}  // namespace reprise::device
