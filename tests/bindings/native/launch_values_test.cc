// What a launch is given reaches the kernel with its value, or Submit refuses
// the batch and says which value it was.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "bindings/native/conversion.h"
#include "bindings/native/reprise.h"

namespace reprise {
namespace {

class LaunchValuesTest : public testing::Test {
 protected:
  // A kernel with one parameter of type P is launched with `value`: what is
  // wrong with that, or, if nothing is, the value that the kernel has seen.
  template <typename P, typename A>
  std::string Why(const A& value, P* seen = nullptr) {
    int calls = 0;
    const auto kernel = *runtime_.HostKernel<void(P)>(
        "take", [&](const LaunchConfig&, P parameter) {
          ++calls;
          if (seen != nullptr) *seen = parameter;
        });
    Batch batch = stream_.BeginBatch();
    batch.Launch(kernel, {}, value);
    const Status submitted = batch.Submit();
    EXPECT_EQ(calls, submitted ? 1 : 0);
    return submitted ? "" : submitted.error().message();
  }

  std::string WhyConfig(const LaunchConfig& config) {
    const auto kernel =
        *runtime_.HostKernel<void()>("none", [](const LaunchConfig&) {});
    Batch batch = stream_.BeginBatch();
    batch.Launch(kernel, config);
    const Status submitted = batch.Submit();
    return submitted ? "" : submitted.error().message();
  }

  const Runtime runtime_ = *Runtime::Create({.device = RuntimeOptions::kHost});
  const Stream stream_ = *runtime_.CreateStream();
};

TEST_F(LaunchValuesTest, IntegersThatDoNotFitAreRefused) {
  EXPECT_EQ(Why<int>(size_t{5'000'000'000}),
            "launch 0 (kernel 'take') has 5000000000 as argument 0, which the "
            "parameter's type, int, cannot hold");
  EXPECT_EQ(Why<uint64_t>(-1),
            "launch 0 (kernel 'take') has -1 as argument 0, which the "
            "parameter's type, long unsigned int, cannot hold");
  EXPECT_EQ(Why<int>(std::numeric_limits<uint64_t>::max()),
            "launch 0 (kernel 'take') has 18446744073709551615 as argument 0, "
            "which the parameter's type, int, cannot hold");
  EXPECT_NE(Why<int64_t>(std::numeric_limits<uint64_t>::max()), "");
  EXPECT_NE(Why<int8_t>(128), "");
  EXPECT_NE(Why<uint8_t>(256), "");
  EXPECT_NE(Why<uint32_t>(int64_t{-5}), "");
  enum : uint64_t { kLarge = uint64_t{1} << 40 };
  EXPECT_NE(Why<int>(kLarge), "");
}

TEST_F(LaunchValuesTest, IntegersThatFitArrive) {
  int small = 0;
  EXPECT_EQ(Why<int>(size_t{2'147'483'647}, &small), "");
  EXPECT_EQ(small, 2'147'483'647);
  EXPECT_EQ(Why<int>(int64_t{-2'147'483'648}, &small), "");
  EXPECT_EQ(small, std::numeric_limits<int>::min());
  EXPECT_EQ(Why<int>(true, &small), "");
  EXPECT_EQ(small, 1);
  int64_t wide = 0;
  EXPECT_EQ(Why<int64_t>(-1, &wide), "");
  EXPECT_EQ(wide, -1);
  uint8_t byte = 0;
  EXPECT_EQ(Why<uint8_t>(255, &byte), "");
  EXPECT_EQ(byte, 255);
  EXPECT_EQ(Why<int>(Count(7), &small), "");
  EXPECT_EQ(small, 7);
}

TEST_F(LaunchValuesTest, FloatingPointNumbersAreRoundedButNotLost) {
  float seen = 0;
  EXPECT_EQ(Why<float>(0.1, &seen), "");
  EXPECT_EQ(seen, 0.1f);
  EXPECT_EQ(Why<float>(std::numeric_limits<double>::infinity(), &seen), "");
  EXPECT_TRUE(std::isinf(seen));
  EXPECT_EQ(Why<float>(std::nan(""), &seen), "");
  EXPECT_TRUE(std::isnan(seen));
  EXPECT_EQ(Why<float>(-0.0, &seen), "");
  EXPECT_TRUE(std::signbit(seen));
  EXPECT_EQ(Why<float>(1e300),
            "launch 0 (kernel 'take') has 1e+300 as argument 0, which the "
            "parameter's type, float, cannot hold");
  EXPECT_NE(Why<float>(1e-300), "");
}

TEST_F(LaunchValuesTest, IntegersAreNotRounded) {
  float seen = 0;
  EXPECT_EQ(Why<float>(16'777'216, &seen), "");
  EXPECT_EQ(seen, 16'777'216.0f);
  EXPECT_NE(Why<float>(16'777'217), "");
  EXPECT_NE(Why<double>((int64_t{1} << 53) + 1), "");
  EXPECT_NE(Why<double>(std::numeric_limits<uint64_t>::max()), "");
  EXPECT_EQ(Why<double>(int64_t{1} << 62), "");
}

TEST_F(LaunchValuesTest, FillsConvertAlike) {
  std::vector<int> to(2);
  const auto fill = [&](auto value) {
    Batch batch = stream_.BeginBatch();
    batch.Fill(Out(to.data(), 2), value);
    const Status submitted = batch.Submit();
    return submitted ? "" : submitted.error().message();
  };
  EXPECT_EQ(fill(int64_t{9}), "");
  EXPECT_EQ(to, (std::vector<int>{9, 9}));
  EXPECT_EQ(fill(int64_t{1} << 32),
            "launch 0 (fill) has 4294967296 as argument 1, which the "
            "parameter's type, int, cannot hold");
  EXPECT_EQ(to, (std::vector<int>{9, 9}));
}

TEST_F(LaunchValuesTest, GridsTakeIntegersOfAnyType) {
  const int n = 1000;
  const int64_t blocks = 3;
  uint32_t seen = 0;
  const auto kernel =
      *runtime_.HostKernel<void()>("grid", [&](const LaunchConfig& config) {
        seen = config.grid.x * 10 + config.grid.y;
      });
  Batch batch = stream_.BeginBatch();
  batch.Launch(kernel, {.grid = {(n + 127) / 128, blocks},
                        .block = {128},
                        .shared_bytes = blocks * sizeof(float)});
  ASSERT_TRUE(batch.Submit());
  EXPECT_EQ(seen, 83u);
}

TEST_F(LaunchValuesTest, GridsOutOfRangeAreRefused) {
  const std::string launch = "launch 0 (kernel 'none') has ";
  EXPECT_EQ(
      WhyConfig({.grid = {-3}}),
      launch + "a grid of -3 in direction 0, no device takes less than 1");
  EXPECT_EQ(
      WhyConfig({.grid = {1, 5'000'000'000}}),
      launch + "a grid of 5000000000 in direction 1, no device takes so many");
  EXPECT_EQ(
      WhyConfig({.block = {1, 1, -1}}),
      launch + "a block of -1 in direction 2, no device takes less than 1");
  EXPECT_EQ(
      WhyConfig({.cluster = {-2}}),
      launch + "a cluster of -2 in direction 0, no device takes less than 1");
  EXPECT_EQ(WhyConfig({.grid = {0}}), launch +
                                          "a grid of 0 in direction 0: give 1 "
                                          "or more, or leave the launch out");
  EXPECT_EQ(WhyConfig({.block = {1, 0}}),
            launch +
                "a block of 0 in direction 1: give 1 or more, or leave the "
                "launch out");
  // 2^32 blocks are none of them in 32 bits.
  EXPECT_NE(WhyConfig({.grid = {int64_t{1} << 32}}), "");
  EXPECT_NE(WhyConfig({.grid = {std::numeric_limits<uint64_t>::max()}}), "");
  EXPECT_EQ(WhyConfig({.shared_bytes = -4}),
            launch +
                "-4 bytes of dynamic shared memory, no device takes less than "
                "0");
  EXPECT_NE(WhyConfig({.shared_bytes = size_t{1} << 32}), "");
  LaunchConfig later;
  later.grid.x = size_t{1} << 40;
  EXPECT_NE(WhyConfig(later), "");
}

}  // namespace
}  // namespace reprise
