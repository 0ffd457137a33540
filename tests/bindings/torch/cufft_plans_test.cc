// When torch's cache of cuFFT's plans is full, what was recorded before is
// outdated.

#include "bindings/torch/base/cufft_plans.h"

#include <ATen/detail/CUDAHooksInterface.h>
#include <gtest/gtest.h>

namespace at {
namespace {

int64_t g_plans = 0;    // in the cache
int64_t g_most = 4096;  // that fit into it

}  // namespace

// In place of those of torch's part for CUDA, by their name.
class CUDAHooks final : public CUDAHooksInterface {
 public:
  explicit CUDAHooks(CUDAHooksArgs = {}) {}
  int64_t cuFFTGetPlanCacheSize(DeviceIndex) const override { return g_plans; }
  int64_t cuFFTGetPlanCacheMaxSize(DeviceIndex) const override {
    return g_most;
  }
};
REGISTER_CUDA_HOOKS(CUDAHooks)

}  // namespace at

namespace reprise::bindings {
namespace {

TEST(CufftPlansTest, TransformsAndWhatIsNotTorchsMayUsePlans) {
  EXPECT_TRUE(MayUseCufft("aten::_fft_c2c"));
  EXPECT_TRUE(MayUseCufft("aten::fft_rfft"));
  EXPECT_TRUE(MayUseCufft("other::transform"));
  EXPECT_FALSE(MayUseCufft("aten::mm"));
}

TEST(CufftPlansTest, IsFullBeforeTheLastPlaceIsTaken) {
  at::g_plans = 4096 - 65;
  EXPECT_FALSE(CufftCacheIsFull(0));
  at::g_plans = 4096 - 63;
  EXPECT_TRUE(CufftCacheIsFull(0));
  at::g_plans = 4096;
  EXPECT_TRUE(CufftCacheIsFull(0));
}

TEST(CufftPlansTest, OutdatesOnceWhatWasRecordedBefore) {
  at::g_plans = 0;
  EXPECT_FALSE(CufftCacheIsFull(1));
  auto seen = CufftFrees().Look();
  EXPECT_FALSE(CufftCacheIsFull(1));
  EXPECT_FALSE(seen.outdated());
  at::g_plans = 4096;
  EXPECT_TRUE(CufftCacheIsFull(1));
  EXPECT_TRUE(seen.outdated());
  // What is recorded while it is full knows that.
  seen = CufftFrees().Look();
  EXPECT_TRUE(CufftCacheIsFull(1));
  EXPECT_FALSE(seen.outdated());
  // Somebody has cleared it, and it fills again.
  at::g_plans = 0;
  EXPECT_FALSE(CufftCacheIsFull(1));
  EXPECT_FALSE(seen.outdated());
  at::g_plans = 4096;
  EXPECT_TRUE(CufftCacheIsFull(1));
  EXPECT_TRUE(seen.outdated());
}

TEST(CufftPlansTest, EachDeviceHasItsOwnCache) {
  at::g_plans = 4096;
  EXPECT_TRUE(CufftCacheIsFull(2));
  const auto seen = CufftFrees().Look();
  EXPECT_TRUE(CufftCacheIsFull(3));
  EXPECT_TRUE(seen.outdated());
}

}  // namespace
}  // namespace reprise::bindings
