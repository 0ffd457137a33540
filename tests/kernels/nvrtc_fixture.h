// Tests that compile with the real NVRTC; they need no device.

#ifndef REPRISE_TESTS_KERNELS_NVRTC_FIXTURE_H_
#define REPRISE_TESTS_KERNELS_NVRTC_FIXTURE_H_

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "kernels/nvrtc.h"
#include "tests/engine/device/cuda_libraries.h"

// NVRTC's own threads may be ending while the leak checker stops the process,
// whose tracer then crashes. What leaks of ours is found by the other tests.
extern "C" [[gnu::used, gnu::visibility("default")]] inline int
__lsan_is_turned_off() {
  return 1;
}

namespace reprise::kernels {

// Skips where there is no NVRTC, and fails on any other error.
class NvrtcFixture : public ::testing::Test {
 protected:
  void SetUp() override {
    device::PreloadCudaLibraries();
    const auto nvrtc = Nvrtc::Load();
    if (nvrtc) {
      nvrtc_ = *nvrtc;
      return;
    }
    if (nvrtc.error().code() == base::Code::kUnavailable) {
      GTEST_SKIP() << nvrtc.error().message();
    }
    FAIL() << nvrtc.error().message();
  }

  const Nvrtc* nvrtc_ = nullptr;
};

inline bool IsElf(const std::vector<char>& image) {
  return std::string_view(image.data(), image.size())
      .starts_with(
          "\x7f"
          "ELF");
}

inline bool Mentions(const std::vector<char>& image, std::string_view text) {
  return std::string_view(image.data(), image.size()).find(text) !=
         std::string_view::npos;
}

}  // namespace reprise::kernels

#endif  // REPRISE_TESTS_KERNELS_NVRTC_FIXTURE_H_
