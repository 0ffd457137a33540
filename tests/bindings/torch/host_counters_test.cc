// What tensors of the host will hold when they are read.

#include "bindings/torch/region/host_counters.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdint>

#include "bindings/torch/region/tape_record.h"

namespace reprise::bindings {
namespace {

const c10::TensorImpl& Of(const at::Tensor& tensor) {
  return *tensor.unsafeGetTensorImpl();
}

TEST(HostCountersTest, ACounterIsOneFloatingPointNumberOfTheHost) {
  EXPECT_TRUE(HostCounters::IsCounter(Of(at::scalar_tensor(1.0, at::kFloat))));
  EXPECT_TRUE(HostCounters::IsCounter(Of(at::scalar_tensor(1.0, at::kDouble))));
  EXPECT_TRUE(HostCounters::IsCounter(Of(at::ones({1, 1}))));
  EXPECT_FALSE(HostCounters::IsCounter(Of(at::ones({2}))));
  EXPECT_FALSE(HostCounters::IsCounter(Of(at::scalar_tensor(1, at::kLong))));
  EXPECT_FALSE(HostCounters::IsCounter(Of(at::scalar_tensor(1, at::kHalf))));
  EXPECT_FALSE(
      HostCounters::IsCounter(Of(at::zeros({1}, at::kComplexFloat).conj())));
}

TEST(HostCountersTest, ItHoldsWhatItHolds) {
  const at::Tensor many = at::arange(4, at::kDouble);
  EXPECT_EQ(HostCounters::ValueOf(Of(many[2])), 2);
  EXPECT_EQ(HostCounters::ValueOf(Of(at::scalar_tensor(0.1, at::kFloat))),
            static_cast<double>(0.1F));
}

// Torch's own sum is what is foretold, also where a float is too narrow for it.
TEST(HostCountersTest, SumsAreOfTheTensorsType) {
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    for (const double before : {0.0, 0.1, 16777216.0, -3.5, 1e30}) {
      for (const double added : {1.0, 0.1, 1e-9, -2.0}) {
        const at::Tensor counter = at::scalar_tensor(before, type);
        const NumberRead read{.added = {{.value = added}, {.value = added}}};
        const double foretold = HostCounters::ValueOf(read, Of(counter));
        counter.add_(added).add_(added);
        EXPECT_EQ(HostCounters::ValueOf(Of(counter)), foretold)
            << before << " + " << added;
      }
    }
  }
}

}  // namespace
}  // namespace reprise::bindings
