// A runtime on a GPU, for tests that need one.

#ifndef REPRISE_TESTS_BINDINGS_NATIVE_GPU_RUNTIME_TEST_H_
#define REPRISE_TESTS_BINDINGS_NATIVE_GPU_RUNTIME_TEST_H_

#include <gtest/gtest.h>

#include <optional>

#include "bindings/native/reprise.h"
#include "tests/engine/device/count_devices.h"

namespace reprise {

// Skips where there is no device. A SetUp that goes on from this one returns
// where there is no runtime then.
class GpuRuntimeTest : public testing::Test {
 protected:
  void SetUp() override {
    REPRISE_NEEDS_DEVICES(1);
    auto runtime = Runtime::Create({});
    ASSERT_TRUE(runtime) << runtime.error().message();
    runtime_.emplace(*runtime);
  }

  std::optional<Runtime> runtime_;
};

}  // namespace reprise

#endif  // REPRISE_TESTS_BINDINGS_NATIVE_GPU_RUNTIME_TEST_H_
