// A launch that wants more shared memory than is allowed gets it, if the device
// has as much.

#include "engine/device/shared_memory.h"

#include <gtest/gtest.h>

#include <bit>

namespace reprise::device {
namespace {

// A kernel's function of which the driver says what may be.
struct Function {
  int own_bytes = 1'000;
  int most_bytes = 100'000;  // of the device
  int allowed_bytes = 4'096;
  int sets = 0;
  bool is_handle = false;  // it must be asked for its function
};
Function* function = nullptr;

class SharedMemoryTest : public testing::Test {
 protected:
  SharedMemoryTest() {
    function = &function_;
    driver_.cuFuncGetAttribute = [](int* value, CUfunction_attribute,
                                    CUfunction which) {
      if (function->is_handle && which == kLaunched) {
        return CUDA_ERROR_INVALID_HANDLE;
      }
      *value = function->own_bytes;
      return CUDA_SUCCESS;
    };
    driver_.cuKernelGetFunction = [](CUfunction* found, CUkernel) {
      *found = kOfHandle;
      return function->is_handle ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
    };
    driver_.cuCtxGetDevice = [](CUdevice* device) {
      *device = 0;
      return CUDA_SUCCESS;
    };
    driver_.cuDeviceGetAttribute = [](int* value, CUdevice_attribute,
                                      CUdevice) {
      *value = function->most_bytes;
      return CUDA_SUCCESS;
    };
    driver_.cuFuncSetAttribute = [](CUfunction which, CUfunction_attribute,
                                    int bytes) {
      EXPECT_EQ(which, function->is_handle ? kOfHandle : kLaunched);
      ++function->sets;
      function->allowed_bytes = bytes;
      return CUDA_SUCCESS;
    };
    launch_.function = kLaunched;
    launch_.shared_bytes = 16'384;
  }

  CUresult Run() {
    return WithSharedMemory(driver_, launch_, [&] {
      ++calls_;
      return static_cast<int>(launch_.shared_bytes) <= function_.allowed_bytes
                 ? CUDA_SUCCESS
                 : CUDA_ERROR_INVALID_VALUE;
    });
  }

  static inline const auto kLaunched =
      std::bit_cast<CUfunction>(uintptr_t{0xf00});
  static inline const auto kOfHandle =
      std::bit_cast<CUfunction>(uintptr_t{0xf01});
  Function function_;
  Driver driver_;
  Launch launch_;
  int calls_ = 0;
};

TEST_F(SharedMemoryTest, NothingIsAskedOfALaunchThatFits) {
  launch_.shared_bytes = 4'096;
  EXPECT_EQ(Run(), CUDA_SUCCESS);
  EXPECT_EQ(calls_, 1);
  EXPECT_EQ(function_.sets, 0);
}

TEST_F(SharedMemoryTest, TheMostThatTheDeviceHasIsAllowed) {
  EXPECT_EQ(Run(), CUDA_SUCCESS);
  EXPECT_EQ(calls_, 2);
  EXPECT_EQ(function_.allowed_bytes, 99'000);
}

TEST_F(SharedMemoryTest, AHandleIsAskedForItsFunction) {
  function_.is_handle = true;
  EXPECT_EQ(Run(), CUDA_SUCCESS);
  EXPECT_EQ(function_.allowed_bytes, 99'000);
}

TEST_F(SharedMemoryTest, MoreThanThereIsFailsAfterSomeTries) {
  launch_.shared_bytes = 100'000;
  EXPECT_EQ(Run(), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(calls_, 5);
}

TEST_F(SharedMemoryTest, OtherErrorsAndLaunchesWithoutItAreNotTriedAgain) {
  int calls = 0;
  EXPECT_EQ(WithSharedMemory(driver_, launch_,
                             [&] {
                               ++calls;
                               return CUDA_ERROR_OUT_OF_MEMORY;
                             }),
            CUDA_ERROR_OUT_OF_MEMORY);
  launch_.shared_bytes = 0;
  function_.allowed_bytes = -1;
  EXPECT_EQ(Run(), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(calls + calls_, 2);
  EXPECT_EQ(function_.sets, 0);
}

}  // namespace
}  // namespace reprise::device
