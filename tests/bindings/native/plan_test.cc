// A plan takes arguments of the types that its launches have, and no others.

#include "bindings/native/plan.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>

#include "bindings/native/reprise.h"

namespace reprise {
namespace {

struct Pair {
  float first;
  float second;
};
using Everything = void(float, const float*, void*, int, size_t, bool, Pair,
                        double);

class PlanTest : public testing::Test {
 protected:
  PlanTest() {
    const auto kernel = *runtime_.HostKernel<Everything>(
        "everything",
        [this](const LaunchConfig&, float a, const float* from, void* to, int n,
               size_t size, bool flag, Pair pair, double) {
          ++calls_;
          a_ = a;
          n_ = n;
          size_ = size;
          flag_ = flag;
          second_ = pair.second;
          static_cast<float*>(to)[0] = from[0];
        });
    Batch batch = stream_.BeginBatch();
    batch.Launch(kernel, {}, 0.0f, In(floats_.data(), 1), &floats_[1], 0, 0,
                 false, Pair{}, 0.0);
    batch.Copy(Out(floats_.data() + 2, 1), In(floats_.data(), 1));
    batch.Fill(Out(floats_.data() + 3, 1), 0.0f);
    batch.Fill(Out(doubles_.data(), 2), 0.0);
    batch.Fill(Out(shorts_.data(), 2), uint16_t{1});
    plan_.emplace(*batch.Prepare());
  }

  template <typename T>
  std::string Why(uint32_t launch, size_t argument, const T& value) {
    const Status set = plan_->Set(launch, argument, value);
    if (set) return "";
    EXPECT_EQ(set.error().code(), Code::kInvalidArgument);
    return set.error().message();
  }

  const Runtime runtime_ = *Runtime::Create({.device = RuntimeOptions::kHost});
  const Stream stream_ = *runtime_.CreateStream();
  std::array<float, 4> floats_{5, 6, 7, 8};
  std::array<double, 2> doubles_{1, 2};
  std::array<uint16_t, 2> shorts_{};
  std::optional<Plan> plan_;
  int calls_ = 0;
  float a_ = 0;
  int n_ = 0;
  size_t size_ = 0;
  bool flag_ = false;
  float second_ = 0;
};

TEST_F(PlanTest, ArgumentsOfTheirOwnTypesAreTaken) {
  EXPECT_EQ(Why(0, 0, 1.5f), "");
  EXPECT_EQ(Why(0, 1, &floats_[1]), "");  // float* for const float*
  EXPECT_EQ(Why(0, 2, &floats_[2]), "");  // float* for void*
  EXPECT_EQ(Why(0, 3, 4u), "");           // the bits of an int
  EXPECT_EQ(Why(0, 4, int64_t{-1}), "");
  EXPECT_EQ(Why(0, 5, true), "");
  EXPECT_EQ(Why(0, 6, Pair{1, 2}), "");
  EXPECT_EQ(Why(1, 0, floats_.data() + 2), "");
  EXPECT_EQ(Why(1, 1, static_cast<const float*>(floats_.data())), "");
  ASSERT_TRUE(plan_->Launch());
  EXPECT_EQ(calls_, 1);
  EXPECT_EQ(a_, 1.5f);
  EXPECT_EQ(n_, 4);
  EXPECT_EQ(size_, ~size_t{0});
  EXPECT_TRUE(flag_);
  EXPECT_EQ(second_, 2.0f);
  EXPECT_EQ(floats_, (std::array<float, 4>{5, 6, 5, 0}));
}

TEST_F(PlanTest, NumbersOfAnotherTypeAreRefused) {
  EXPECT_EQ(Why(0, 0, 1),
            "argument 0 of launch 0 (kernel 'everything') is of type float, "
            "not int");
  EXPECT_EQ(Why(0, 0, 1.0),
            "argument 0 of launch 0 (kernel 'everything') is of type float, "
            "not double");
  EXPECT_EQ(Why(0, 3, 1.0f),
            "argument 3 of launch 0 (kernel 'everything') is of type int, not "
            "float");
  EXPECT_EQ(Why(0, 3, int16_t{1}),
            "argument 3 of launch 0 (kernel 'everything') is of type int, not "
            "short int");
  EXPECT_NE(Why(0, 5, uint8_t{2}), "");  // no bool
  EXPECT_NE(Why(0, 6, 1.0), "");         // of one size
  EXPECT_NE(Why(0, 7, Pair{}), "");
  EXPECT_NE(Why(0, 4, &floats_[0]), "");
  ASSERT_TRUE(plan_->Launch());
  EXPECT_EQ(a_, 0.0f);
  EXPECT_EQ(n_, 0);
}

TEST_F(PlanTest, OtherPointersAndNullAreRefused) {
  EXPECT_EQ(Why(0, 1, &doubles_[0]),
            "argument 1 of launch 0 (kernel 'everything') is of type const "
            "float*, not double*");
  EXPECT_EQ(
      Why(0, 1, reinterpret_cast<uint64_t>(&floats_[0]))
          .find("argument 1 of launch 0 (kernel 'everything') is of type const "
                "float*, not "),
      0u);
  const float* const reads = &floats_[0];
  EXPECT_EQ(Why(0, 2, reads),
            "argument 2 of launch 0 (kernel 'everything') is of type void*, "
            "not const float*");
  EXPECT_EQ(Why(1, 0, reads),
            "argument 0 of launch 1 is of type void*, not const float*");
  for (const uint32_t launch : {0, 1}) {
    for (const auto& null : {Why(launch, 1, static_cast<float*>(nullptr)),
                             Why(launch, 1, nullptr)}) {
      EXPECT_EQ(null, launch == 0
                          ? "argument 1 of launch 0 (kernel 'everything') is "
                            "of type const float*, and must not be null"
                          : "argument 1 of launch 1 is of type const void*, "
                            "and must not be null");
    }
  }
  EXPECT_NE(Why(2, 0, static_cast<float*>(nullptr)), "");
  ASSERT_TRUE(plan_->Launch());
  EXPECT_EQ(floats_, (std::array<float, 4>{5, 5, 5, 0}));
}

TEST_F(PlanTest, FillsTakeValuesOfTheirElements) {
  EXPECT_EQ(Why(2, 1, 1), "argument 1 of launch 2 is of type float, not int");
  EXPECT_EQ(Why(2, 1, 2.5f), "");
  EXPECT_EQ(Why(4, 1, int16_t{-1}), "");
  uint64_t bits = 0x4008'0000'4008'0000;
  double value = 0;
  std::memcpy(&value, &bits, sizeof value);
  EXPECT_EQ(Why(3, 1, value), "");
  ASSERT_TRUE(plan_->Launch());
  EXPECT_EQ(floats_[3], 2.5f);
  EXPECT_EQ(doubles_, (std::array<double, 2>{value, value}));
  EXPECT_EQ(shorts_, (std::array<uint16_t, 2>{0xffff, 0xffff}));
  EXPECT_EQ(Why(3, 1, 1.5),
            "launch 3: fills elements of type double with 0x3ff8000000000000, "
            "whose halves differ: a device repeats 1, 2 or 4 bytes, so that of "
            "values of 8 bytes it takes those of two equal halves, as 0");
  EXPECT_NE(Why(3, 1, 0.0f), "");
}

}  // namespace
}  // namespace reprise
