// Each kind of launch is given to the driver by itself.

#include "engine/device/single_launch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

namespace reprise::device {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// What the driver was asked to do, in words.
std::vector<std::string>* log = nullptr;

template <typename... Parts>
CUresult Note(const Parts&... parts) {
  std::string line;
  const auto add = [&](const auto& part) {
    if constexpr (std::is_arithmetic_v<std::decay_t<decltype(part)>>) {
      line += std::to_string(part);
    } else {
      line += part;
    }
  };
  (add(parts), ...);
  log->push_back(line);
  return CUDA_SUCCESS;
}

class SingleLaunchTest : public testing::Test {
 protected:
  SingleLaunchTest() {
    log = &log_;
    driver_.cuGetErrorName = [](CUresult, const char** name) {
      *name = "CUDA_ERROR_SIMULATED";
      return CUDA_SUCCESS;
    };
    driver_.cuLaunchKernelEx = [](const CUlaunchConfig* config, CUfunction,
                                  void** params, void**) {
      uint64_t first = 0;
      std::memcpy(&first, params[0], sizeof first);
      return Note("kernel of ", first, " with ", config->numAttrs,
                  " attributes");
    };
    driver_.cuMemsetD8Async = [](CUdeviceptr to, unsigned char value,
                                 size_t width, CUstream) {
      return Note("bytes ", to, " ", unsigned{value}, " x ", width);
    };
    driver_.cuMemsetD16Async = [](CUdeviceptr to, unsigned short value,
                                  size_t width, CUstream) {
      return Note("halves ", to, " ", value, " x ", width);
    };
    driver_.cuMemsetD2D32Async = [](CUdeviceptr to, size_t pitch,
                                    unsigned value, size_t width, size_t height,
                                    CUstream) {
      return Note("words ", to, " ", value, " x ", width, " x ", height, " by ",
                  pitch);
    };
    driver_.cuMemcpyDtoDAsync = [](CUdeviceptr to, CUdeviceptr from,
                                   size_t bytes, CUstream) {
      return Note("copy ", from, " to ", to, ", ", bytes);
    };
    driver_.cuStreamWaitEvent = [](CUstream, CUevent event, unsigned) {
      return Note("wait for ", reinterpret_cast<uintptr_t>(event));
    };
    driver_.cuEventRecord = [](CUevent event, CUstream) {
      return Note("record ", reinterpret_cast<uintptr_t>(event));
    };
  }

  static Launch Of(Launch::Kind kind) {
    Launch launch;
    launch.kind = kind;
    launch.image.resize(16);
    launch.SetWord(0, 300);
    launch.SetWord(8, 400);
    launch.width = 16;
    launch.params = std::make_shared<const std::vector<ParamSpan>>(
        std::vector<ParamSpan>{{0, 8}});
    return launch;
  }
  base::Status Run(const Launch& launch) {
    return Enqueue(driver_, launch, nullptr);
  }

  std::vector<std::string> log_;
  Driver driver_;
};

TEST_F(SingleLaunchTest, EachKindIsACallOfItsOwn) {
  for (const auto kind :
       {Launch::Kind::kKernel, Launch::Kind::kMemcpy, Launch::Kind::kWaitEvent,
        Launch::Kind::kRecordEvent}) {
    EXPECT_TRUE(Run(Of(kind)));
  }
  EXPECT_THAT(log_,
              ElementsAre("kernel of 300 with 0 attributes",
                          "copy 400 to 300, 16", "wait for 300", "record 300"));
}

TEST_F(SingleLaunchTest, FillsAreOfElementsAndRows) {
  Launch fill = Of(Launch::Kind::kMemset);
  fill.value = 3;
  fill.element_bytes = 1;
  ASSERT_TRUE(Run(fill));
  fill.element_bytes = 2;
  ASSERT_TRUE(Run(fill));
  fill.element_bytes = 4;
  fill.height = 2;
  fill.pitch_bytes = 128;
  ASSERT_TRUE(Run(fill));
  EXPECT_THAT(log_, ElementsAre("bytes 300 3 x 16", "halves 300 3 x 16",
                                "words 300 3 x 16 x 2 by 128"));
  fill.element_bytes = 3;
  EXPECT_FALSE(Run(fill));
}

TEST_F(SingleLaunchTest, AttributesThatAllowOverlapAreOmitted) {
  Launch kernel = Of(Launch::Kind::kKernel);
  for (const CUlaunchAttributeID id :
       {CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
        CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
        CU_LAUNCH_ATTRIBUTE_PRIORITY}) {
    kernel.attributes.emplace_back().id = id;
  }
  ASSERT_TRUE(Run(kernel));
  kernel.programmatic = true;  // unless its maker says so
  ASSERT_TRUE(Run(kernel));
  EXPECT_THAT(log_, ElementsAre("kernel of 300 with 2 attributes",
                                "kernel of 300 with 3 attributes"));
}

TEST_F(SingleLaunchTest, ForbiddenAttributesAreRefused) {
  Launch kernel = Of(Launch::Kind::kKernel);
  kernel.attributes.emplace_back().id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT;
  const base::Status forbidden = Run(kernel);
  ASSERT_FALSE(forbidden);
  EXPECT_THAT(forbidden.error().message(), HasSubstr("cannot be repeated"));
  EXPECT_THAT(log_, IsEmpty());
}

TEST_F(SingleLaunchTest, CapturedWorkIsRefused) {
  EXPECT_FALSE(Run(Of(Launch::Kind::kGraph)));
  EXPECT_THAT(log_, IsEmpty());
}

}  // namespace
}  // namespace reprise::device
