// Plans that are replaced before they pay are recorded ever more rarely, and
// those that pay at once.

#include "scheduler/renewal.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace reprise::scheduler {
namespace {

class RenewalTest : public testing::Test {
 protected:
  // The passes that are waited for after a plan is replaced.
  uint32_t WaitAfter(uint64_t replays) {
    renewal_.Replaced(replays);
    uint32_t passes = 0;
    for (; renewal_.waiting(); ++passes) renewal_.Pass();
    return passes;
  }

  static constexpr uint64_t kPays = Renewal::kReplaysThatPay;
  Renewal renewal_;
};

TEST_F(RenewalTest, PlansThatPayAreRenewedAtOnce) {
  EXPECT_FALSE(renewal_.waiting());
  for (int i = 0; i < 10; ++i) EXPECT_EQ(WaitAfter(kPays), 0u);
}

TEST_F(RenewalTest, WaitsTwiceAsLongEachTime) {
  std::vector<uint32_t> waits;
  for (int i = 0; i < 6; ++i) waits.push_back(WaitAfter(kPays / 2 - 1));
  EXPECT_EQ(waits, (std::vector<uint32_t>{0, 1, 2, 4, 8, 16}));
}

// As of a trace whose plan gives way once a phase of fifty passes.
TEST_F(RenewalTest, WaitsLessWhereHalfWasPaid) {
  for (int i = 0; i < 10; ++i) EXPECT_LE(WaitAfter(kPays - 1), 1u);
  for (int i = 0; i < 6; ++i) WaitAfter(0);
  std::vector<uint32_t> waits;
  for (int i = 0; i < 7; ++i) waits.push_back(WaitAfter(kPays / 2));
  EXPECT_EQ(waits, (std::vector<uint32_t>{32, 16, 8, 4, 2, 1, 0}));
}

TEST_F(RenewalTest, WaitHasABound) {
  for (int i = 0; i < 40; ++i) WaitAfter(0);
  EXPECT_EQ(WaitAfter(0), Renewal::kLongestWait);
}

TEST_F(RenewalTest, PlanThatPaidForgivesTheOthers) {
  for (int i = 0; i < 6; ++i) WaitAfter(0);
  EXPECT_EQ(WaitAfter(kPays), 0u);
  EXPECT_EQ(WaitAfter(0), 0u);
  EXPECT_EQ(WaitAfter(0), 1u);
}

}  // namespace
}  // namespace reprise::scheduler
