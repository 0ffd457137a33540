#include "engine/device/kernel_params.h"

#include <string>

namespace reprise::device {

base::Result<std::vector<ParamSpan>> ParamsOf(const Driver& driver,
                                              CUfunction handle) {
  const auto kernel = reinterpret_cast<CUkernel>(handle);
  size_t offset = 0;
  size_t size = 0;
  // The entry that knows the first parameter knows the others; a kernel without
  // any has an invalid index 0 there.
  const CUresult as_function =
      driver.cuFuncGetParamInfo(handle, 0, &offset, &size);
  const bool by_function = as_function == CUDA_SUCCESS;
  const CUresult as_kernel =
      by_function ? CUDA_SUCCESS
                  : driver.cuKernelGetParamInfo(kernel, 0, &offset, &size);
  if (!by_function && as_kernel != CUDA_SUCCESS) {
    if (as_kernel == CUDA_ERROR_INVALID_VALUE ||
        as_function == CUDA_ERROR_INVALID_VALUE) {
      return std::vector<ParamSpan>();
    }
    const base::Error why = driver.Explain(as_function, "cuFuncGetParamInfo");
    return base::Fail(
        as_function == CUDA_ERROR_INVALID_HANDLE ? base::Code::kInvalidArgument
                                                 : why.code(),
        "the handle is neither a CUfunction nor a CUkernel: " + why.message());
  }
  std::vector<ParamSpan> params;
  for (;;) {
    params.push_back(
        {static_cast<uint32_t>(offset), static_cast<uint32_t>(size)});
    const CUresult result =
        by_function
            ? driver.cuFuncGetParamInfo(handle, params.size(), &offset, &size)
            : driver.cuKernelGetParamInfo(kernel, params.size(), &offset,
                                          &size);
    if (result == CUDA_ERROR_INVALID_VALUE) return params;
    REPRISE_RETURN_IF_ERROR(
        Check(driver, result,
              by_function ? "cuFuncGetParamInfo" : "cuKernelGetParamInfo"));
  }
}

}  // namespace reprise::device
