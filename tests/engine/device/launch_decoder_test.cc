// Proves what becomes of the parameters of each kind of driver call.

#include "engine/device/launch_decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

namespace reprise::device {
namespace {

using ::testing::IsEmpty;
using ::testing::NotNull;
using ::testing::SizeIs;

// A driver that knows some functions, and on which device some memory is.
class LaunchDecoderTest : public ::testing::Test {
 protected:
  LaunchDecoderTest() {
    functions_ = {{kFunction, {{0, 8}, {8, 4}}}};
    device_of_ = {{0x1000, 0}, {0x2000, 0}, {0x3000, 1}};
    questions_ = 0;
    driver_.cuFuncGetParamInfo = [](CUfunction function, size_t index,
                                    size_t* offset, size_t* size) {
      ++questions_;
      const auto found = functions_.find(function);
      if (found == functions_.end()) return CUDA_ERROR_INVALID_HANDLE;
      if (index >= found->second.size()) return CUDA_ERROR_INVALID_VALUE;
      *offset = found->second[index].offset_bytes;
      *size = found->second[index].size_bytes;
      return CUDA_SUCCESS;
    };
    driver_.cuKernelGetParamInfo = [](CUkernel, size_t, size_t*, size_t*) {
      return CUDA_ERROR_INVALID_HANDLE;
    };
    driver_.cuFuncGetName = [](const char** name, CUfunction) {
      *name = "asked";
      return CUDA_SUCCESS;
    };
    driver_.cuPointerGetAttribute = [](void* data, CUpointer_attribute asked,
                                       CUdeviceptr pointer) {
      const auto found = device_of_.find(pointer);
      if (found == device_of_.end()) return CUDA_ERROR_INVALID_VALUE;
      const int value = asked == CU_POINTER_ATTRIBUTE_MEMORY_TYPE
                            ? CU_MEMORYTYPE_DEVICE
                            : found->second;
      std::memcpy(data, &value, sizeof value);
      return CUDA_SUCCESS;
    };
    const auto name = [](CUresult, const char** text) {
      *text = "some error";
      return CUDA_SUCCESS;
    };
    driver_.cuGetErrorName = name;
    driver_.cuGetErrorString = name;

    params_.f = kFunction;
    params_.gridDimX = 3;
    params_.gridDimY = params_.gridDimZ = 1;
    params_.blockDimX = 64;
    params_.blockDimY = params_.blockDimZ = 1;
    params_.sharedMemBytes = 256;
    params_.kernelParams = pointers_;
  }

  DecodedCall DecodeKernel(const char* symbol_name = nullptr) {
    return decoder_.Decode(CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, &params_,
                           symbol_name);
  }
  // As a call whose configuration has these attributes.
  DecodedCall DecodeWith(std::vector<CUlaunchAttribute> attributes) {
    CUlaunchConfig config{};
    config.gridDimX = 3;
    config.attrs = attributes.data();
    config.numAttrs = static_cast<unsigned>(attributes.size());
    cuLaunchKernelEx_params params{};
    params.config = &config;
    params.f = kFunction;
    params.kernelParams = pointers_;
    return decoder_.Decode(CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx, &params,
                           nullptr);
  }
  DecodedCall Copy(CUdeviceptr to, CUdeviceptr from, size_t size_bytes) {
    cuMemcpyAsync_params params{to, from, size_bytes, nullptr};
    return decoder_.Decode(CUPTI_DRIVER_TRACE_CBID_cuMemcpyAsync, &params,
                           nullptr);
  }

  static inline const CUfunction kFunction =
      std::bit_cast<CUfunction>(uintptr_t{0xf00});
  static inline std::map<CUfunction, std::vector<ParamSpan>> functions_;
  static inline std::map<CUdeviceptr, int> device_of_;
  static inline int questions_ = 0;
  Driver driver_;
  LaunchDecoder decoder_{driver_};
  uint64_t address_ = 0x7f00'0000'1000;
  int count_ = 17;
  void* pointers_[2] = {&address_, &count_};
  cuLaunchKernel_params params_{};
};

TEST_F(LaunchDecoderTest, ParametersAreReadByTheDriversLayout) {
  const DecodedCall call = DecodeKernel("told");
  ASSERT_TRUE(call.launch.has_value());
  EXPECT_EQ(call.refusal, nullptr);
  EXPECT_EQ(call.launch->kind, Launch::Kind::kKernel);
  EXPECT_EQ(call.launch->function, kFunction);
  EXPECT_EQ(call.launch->grid, (Dim3{3, 1, 1}));
  EXPECT_EQ(call.launch->block, (Dim3{64, 1, 1}));
  EXPECT_EQ(call.launch->shared_bytes, 256u);
  ASSERT_THAT(call.launch->image, SizeIs(12));
  EXPECT_EQ(call.launch->Word(0), address_);
  int count = 0;
  std::memcpy(&count, call.launch->image.data() + 8, sizeof count);
  EXPECT_EQ(count, 17);
  EXPECT_EQ(*call.launch->name, "told");
}

TEST_F(LaunchDecoderTest, AFunctionIsAskedAboutOnceAGeneration) {
  decoder_.SetGeneration(1);
  EXPECT_EQ(*DecodeKernel().launch->name, "asked");
  const int once = questions_;
  decoder_.SetGeneration(1);
  ASSERT_TRUE(DecodeKernel().launch.has_value());
  EXPECT_EQ(questions_, once);
  // The handle has come to name a function of one parameter.
  functions_[kFunction] = {{0, 8}};
  decoder_.SetGeneration(2);
  EXPECT_THAT(DecodeKernel().launch->image, SizeIs(8));
}

TEST_F(LaunchDecoderTest, AFunctionOfUnknownLayoutIsRefusedAndAskedAboutAgain) {
  const auto known = std::exchange(functions_, {});
  EXPECT_THAT(DecodeKernel().refusal, NotNull());
  functions_ = known;
  EXPECT_TRUE(DecodeKernel().launch.has_value());
}

TEST_F(LaunchDecoderTest, ParametersThatAreNotThereAreRefused) {
  params_.kernelParams = nullptr;
  EXPECT_THAT(DecodeKernel().refusal, NotNull());
  decoder_.SetGeneration(1);
  functions_[kFunction] = {};
  const DecodedCall call = DecodeKernel();
  ASSERT_TRUE(call.launch.has_value());
  EXPECT_THAT(call.launch->image, IsEmpty());
}

TEST_F(LaunchDecoderTest, APackedBufferIsTakenWhole) {
  functions_.clear();  // its layout need not be known
  uint64_t buffer[3] = {0xa, 0xb, 0xc};
  size_t size_bytes = sizeof buffer;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_SIZE, &size_bytes,
                   CU_LAUNCH_PARAM_BUFFER_POINTER, buffer, CU_LAUNCH_PARAM_END};
  params_.kernelParams = nullptr;
  params_.extra = extra;
  const DecodedCall call = DecodeKernel();
  ASSERT_TRUE(call.launch.has_value());
  EXPECT_TRUE(call.launch->packed);
  ASSERT_THAT(call.launch->image, SizeIs(sizeof buffer));
  EXPECT_EQ(call.launch->Word(16), 0xcu);
  extra[2] = CU_LAUNCH_PARAM_END;  // a size without a buffer
  EXPECT_THAT(DecodeKernel().refusal, NotNull());
}

TEST_F(LaunchDecoderTest, AttributesAreKeptButForThoseThatMeanNothing) {
  CUlaunchAttribute ignored{};
  ignored.id = CU_LAUNCH_ATTRIBUTE_IGNORE;
  CUlaunchAttribute cluster{};
  cluster.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  cluster.value.clusterDim = {2, 1, 1};
  CUlaunchAttribute overlap{};
  overlap.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
  std::memset(&overlap.value, 0xaa, sizeof overlap.value);
  overlap.value.programmaticStreamSerializationAllowed = 1;
  const DecodedCall call = DecodeWith({ignored, cluster, overlap});
  ASSERT_TRUE(call.launch.has_value());
  EXPECT_EQ(call.launch->grid.x, 3u);
  ASSERT_THAT(call.launch->attributes, SizeIs(2));
  EXPECT_EQ(call.launch->attributes[0].value.clusterDim.x, 2u);
  EXPECT_EQ(call.launch->attributes[1].id,
            CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
  // Bytes without a meaning are no caller's noise.
  EXPECT_EQ(call.launch->attributes[1].value.pad[sizeof(int)], 0);

  CUlaunchAttribute event{};
  event.id = CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT;
  EXPECT_THAT(DecodeWith({cluster, event}).refusal, NotNull());
}

TEST_F(LaunchDecoderTest, ACooperativeCallIsALaunchWithThatAttribute) {
  cuLaunchCooperativeKernel_params params{};
  params.f = kFunction;
  params.kernelParams = pointers_;
  const DecodedCall call = decoder_.Decode(
      CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel, &params, nullptr);
  ASSERT_TRUE(call.launch.has_value());
  ASSERT_THAT(call.launch->attributes, SizeIs(1));
  EXPECT_EQ(call.launch->attributes[0].id, CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
  EXPECT_EQ(call.launch->attributes[0].value.cooperative, 1);
}

TEST_F(LaunchDecoderTest, AFillHasTheWidthOfItsElements) {
  cuMemsetD8Async_params bytes{0x1000, 7, 100, nullptr};
  const DecodedCall by_bytes =
      decoder_.Decode(CUPTI_DRIVER_TRACE_CBID_cuMemsetD8Async, &bytes, nullptr);
  ASSERT_TRUE(by_bytes.launch.has_value());
  EXPECT_EQ(by_bytes.launch->value, 7u);
  EXPECT_EQ(by_bytes.launch->element_bytes, 1u);
  EXPECT_EQ(by_bytes.launch->width, 100u);
  cuMemsetD16Async_params halves{0x2000, 0x1234, 50, nullptr};
  const DecodedCall by_halves = decoder_.Decode(
      CUPTI_DRIVER_TRACE_CBID_cuMemsetD16Async, &halves, nullptr);
  ASSERT_TRUE(by_halves.launch.has_value());
  EXPECT_EQ(by_halves.launch->value, 0x1234u);
  EXPECT_EQ(by_halves.launch->element_bytes, 2u);
}

TEST_F(LaunchDecoderTest, AFillHasItsRowsUnlessNoGapIsBetweenThem) {
  const auto fill = [&](size_t pitch_bytes, size_t width, size_t height) {
    cuMemsetD2D32Async_params params{0x3000, pitch_bytes, 9,
                                     width,  height,      nullptr};
    return decoder_.Decode(CUPTI_DRIVER_TRACE_CBID_cuMemsetD2D32Async, &params,
                           nullptr);
  };
  const DecodedCall rows = fill(256, 8, 5);
  ASSERT_TRUE(rows.launch.has_value());
  EXPECT_EQ(rows.launch->kind, Launch::Kind::kMemset);
  EXPECT_EQ(rows.launch->Word(0), 0x3000u);
  EXPECT_EQ(rows.launch->value, 9u);
  EXPECT_EQ(rows.launch->element_bytes, 4u);
  EXPECT_EQ(rows.launch->width, 8u);
  EXPECT_EQ(rows.launch->height, 5u);
  EXPECT_EQ(rows.launch->pitch_bytes, 256u);
  const DecodedCall dense = fill(32, 8, 5);
  ASSERT_TRUE(dense.launch.has_value());
  EXPECT_EQ(dense.launch->width, 40u);
  EXPECT_EQ(dense.launch->height, 1u);
  const DecodedCall none = fill(32, 8, 0);
  EXPECT_FALSE(none.launch.has_value());
  EXPECT_EQ(none.refusal, nullptr);
}

TEST_F(LaunchDecoderTest, ACopyStaysOnOneDevice) {
  const DecodedCall within = Copy(0x1000, 0x2000, 64);
  ASSERT_TRUE(within.launch.has_value());
  EXPECT_EQ(within.launch->kind, Launch::Kind::kMemcpy);
  EXPECT_EQ(within.launch->Word(0), 0x1000u);
  EXPECT_EQ(within.launch->Word(8), 0x2000u);
  EXPECT_EQ(within.launch->width, 64u);
  EXPECT_STREQ(Copy(0x1000, 0x3000, 64).refusal, "a copy between devices");
  EXPECT_STREQ(Copy(0x9000, 0x1000, 64).refusal,
               "a copy between host and device");
  const DecodedCall none = Copy(0x9000, 0x1000, 0);
  EXPECT_FALSE(none.launch.has_value());
  EXPECT_EQ(none.refusal, nullptr);
}

TEST_F(LaunchDecoderTest, AnotherKindOfCallIsRefused) {
  EXPECT_THAT(decoder_.Decode(CUPTI_DRIVER_TRACE_CBID_INVALID, nullptr, nullptr)
                  .refusal,
              NotNull());
}

}  // namespace
}  // namespace reprise::device
