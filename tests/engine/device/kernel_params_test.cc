// A kernel's parameters are known by whichever handle it comes.

#include "engine/device/kernel_params.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

namespace reprise::device {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A driver that knows one handle, as a function or as a kernel; for the other
// query it has an error, and behind the last parameter one more.
class KernelParamsTest : public ::testing::Test {
 protected:
  enum class Is : uint8_t { kFunction, kKernel, kNeither };

  KernelParamsTest() {
    is_ = Is::kFunction;
    params_ = {{0, 8}, {8, 4}, {16, 8}};
    wrong_query_ = CUDA_ERROR_INVALID_HANDLE;
    behind_last_ = CUDA_ERROR_INVALID_VALUE;
    driver_.cuFuncGetParamInfo = [](CUfunction, size_t index, size_t* offset,
                                    size_t* size) {
      return is_ == Is::kFunction ? Tell(index, offset, size) : wrong_query_;
    };
    driver_.cuKernelGetParamInfo = [](CUkernel, size_t index, size_t* offset,
                                      size_t* size) {
      return is_ == Is::kKernel ? Tell(index, offset, size) : wrong_query_;
    };
    const auto name = [](CUresult, const char** text) {
      *text = "some error";
      return CUDA_SUCCESS;
    };
    driver_.cuGetErrorName = name;
    driver_.cuGetErrorString = name;
  }

  base::Result<std::vector<ParamSpan>> Ask() {
    return ParamsOf(driver_, reinterpret_cast<CUfunction>(&is_));
  }

  static inline Is is_;
  static inline std::vector<ParamSpan> params_;
  static inline CUresult wrong_query_;
  static inline CUresult behind_last_;
  Driver driver_;

 private:
  static CUresult Tell(size_t index, size_t* offset, size_t* size) {
    if (index >= params_.size()) return behind_last_;
    *offset = params_[index].offset_bytes;
    *size = params_[index].size_bytes;
    return CUDA_SUCCESS;
  }
};

TEST_F(KernelParamsTest, AreThoseOfTheFunctionOrTheKernel) {
  for (const Is is : {Is::kFunction, Is::kKernel}) {
    is_ = is;
    const auto params = Ask();
    ASSERT_TRUE(params.has_value()) << params.error().message();
    EXPECT_THAT(*params, ElementsAre(ParamSpan{0, 8}, ParamSpan{8, 4},
                                     ParamSpan{16, 8}));
  }
}

TEST_F(KernelParamsTest, OfAKernelWithoutAnyAreNone) {
  params_ = {};
  for (const Is is : {Is::kFunction, Is::kKernel}) {
    is_ = is;
    const auto params = Ask();
    ASSERT_TRUE(params.has_value()) << params.error().message();
    EXPECT_THAT(*params, IsEmpty());
  }
}

TEST_F(KernelParamsTest, OfAnotherHandleAreNotKnown) {
  is_ = Is::kNeither;
  const auto params = Ask();
  ASSERT_FALSE(params.has_value());
  EXPECT_EQ(params.error().code(), base::Code::kInvalidArgument);
  EXPECT_THAT(params.error().message(),
              HasSubstr("neither a CUfunction nor a CUkernel"));
}

// Not those of which the driver has told so far.
TEST_F(KernelParamsTest, ThatCannotBeReadToTheEndAreAnError) {
  behind_last_ = CUDA_ERROR_NOT_SUPPORTED;
  is_ = Is::kFunction;
  auto params = Ask();
  ASSERT_FALSE(params.has_value());
  EXPECT_THAT(params.error().message(), HasSubstr("cuFuncGetParamInfo"));
  is_ = Is::kKernel;
  params = Ask();
  ASSERT_FALSE(params.has_value());
  EXPECT_THAT(params.error().message(), HasSubstr("cuKernelGetParamInfo"));
}

}  // namespace
}  // namespace reprise::device
