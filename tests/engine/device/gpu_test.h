// What tests that need a GPU have in common.

#ifndef REPRISE_TESTS_ENGINE_DEVICE_GPU_TEST_H_
#define REPRISE_TESTS_ENGINE_DEVICE_GPU_TEST_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/device/driver.h"
#include "engine/device/unique_handle.h"
#include "kernels/nvrtc.h"
#include "tests/engine/device/count_devices.h"
#include "tests/engine/device/cuda_libraries.h"

namespace reprise::device {

// Fails the test that runs where a driver call fails.
#define REPRISE_ASSERT_CU(call) ASSERT_EQ(driver().call, CUDA_SUCCESS) << #call

// Device memory. Copies are synchronous and follow all work of the device that
// was enqueued on a stream which waits for the default stream.
class Buffer {
 public:
  Buffer(const Driver& driver, size_t size_bytes)
      : driver_(driver), size_bytes_(size_bytes) {
    EXPECT_EQ(driver.cuMemAlloc(&address_, size_bytes), CUDA_SUCCESS);
  }
  ~Buffer() { driver_.cuMemFree(address_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  CUdeviceptr address() const { return address_; }
  size_t size_bytes() const { return size_bytes_; }

  template <typename T>
  void Upload(const std::vector<T>& values) {
    EXPECT_EQ(driver_.cuMemcpyHtoDAsync(address_, values.data(),
                                        values.size() * sizeof(T), nullptr),
              CUDA_SUCCESS);
    EXPECT_EQ(driver_.cuStreamSynchronize(nullptr), CUDA_SUCCESS);
  }

  template <typename T>
  std::vector<T> Download() const {
    std::vector<T> values(size_bytes_ / sizeof(T));
    EXPECT_EQ(driver_.cuMemcpyDtoHAsync(values.data(), address_,
                                        values.size() * sizeof(T), nullptr),
              CUDA_SUCCESS);
    EXPECT_EQ(driver_.cuStreamSynchronize(nullptr), CUDA_SUCCESS);
    return values;
  }

 private:
  const Driver& driver_;
  const size_t size_bytes_;
  CUdeviceptr address_ = 0;
};

// The primary context of device 0 is current. Skips where there is no device,
// and only there.
class GpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    PreloadCudaLibraries();
    REPRISE_NEEDS_DEVICES(1);
    const auto loaded = Driver::Load();
    ASSERT_TRUE(loaded) << loaded.error().message();
    driver_ = *loaded;
    REPRISE_ASSERT_CU(cuDeviceGet(&device_, 0));
    CUcontext context;
    REPRISE_ASSERT_CU(cuDevicePrimaryCtxRetain(&context, device_));
    REPRISE_ASSERT_CU(cuCtxSetCurrent(context));
    CUstream stream;
    REPRISE_ASSERT_CU(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
    stream_ = UniqueStream(driver(), stream);
  }

  // The context is kept: retaining it again for each test takes long.

  const Driver& driver() const { return *driver_; }
  CUdevice device() const { return device_; }
  CUstream stream() const { return stream_.get(); }

  void Synchronize() {
    EXPECT_EQ(driver().cuStreamSynchronize(stream()), CUDA_SUCCESS);
  }

  std::vector<char> Compile(const std::string& source) {
    int major = 0;
    int minor = 0;
    driver().cuDeviceGetAttribute(
        &major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device_);
    driver().cuDeviceGetAttribute(
        &minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device_);
    const auto nvrtc = kernels::Nvrtc::Load();
    EXPECT_TRUE(nvrtc) << nvrtc.error().message();
    if (!nvrtc) return {};
    const std::string arch =
        "sm_" + std::to_string(major) + std::to_string(minor);
    auto code = (*nvrtc)->CompileFor(
        arch, {.source = source, .name = "test.cu", .architecture = arch});
    EXPECT_TRUE(code) << code.error().message();
    return code ? std::move(code->image) : std::vector<char>{};
  }

  UniqueLibrary LoadLibrary(const std::string& source) {
    const std::vector<char> cubin = Compile(source);
    CUlibrary library = nullptr;
    EXPECT_EQ(driver().cuLibraryLoadData(&library, cubin.data(), nullptr,
                                         nullptr, 0, nullptr, nullptr, 0),
              CUDA_SUCCESS);
    return UniqueLibrary(driver(), library);
  }

 private:
  const Driver* driver_ = nullptr;
  CUdevice device_ = 0;
  UniqueStream stream_;
};

}  // namespace reprise::device

#endif  // REPRISE_TESTS_ENGINE_DEVICE_GPU_TEST_H_
