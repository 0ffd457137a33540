// What is a name of an architecture, and what is none.

#include "kernels/architecture.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

namespace reprise::kernels {
namespace {

TEST(ArchitectureTest, RealAndVirtualOnesHaveANumber) {
  EXPECT_EQ(ArchitectureNumber("sm_90"), 90);
  EXPECT_EQ(ArchitectureNumber("sm_90a"), 90);
  EXPECT_EQ(ArchitectureNumber("sm_103f"), 103);
  EXPECT_EQ(ArchitectureNumber("compute_120"), 120);
}

TEST(ArchitectureTest, OthersAreRefusedByName) {
  for (const char* name : {"", "sm_", "90", "hopper", "sm_9x", "sm_a", "SM_90",
                           "sm_90aa", "sm_90 ", "compute_"}) {
    EXPECT_EQ(ArchitectureNumber(name), std::nullopt) << name;
    const base::Status status = CheckArchitecture(name);
    ASSERT_FALSE(status) << name;
    EXPECT_EQ(status.error().code(), base::Code::kInvalidArgument);
    EXPECT_NE(status.error().message().find("'" + std::string(name) + "'"),
              std::string::npos);
  }
  EXPECT_TRUE(CheckArchitecture("sm_90"));
}

}  // namespace
}  // namespace reprise::kernels
