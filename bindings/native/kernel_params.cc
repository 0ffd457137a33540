#include "bindings/native/kernel_params.h"

#include <string>

namespace reprise::native {

Result<std::vector<device::ParamSpan>> ParamsOf(const device::Driver& driver,
                                                CUfunction handle) {
  const auto kernel = reinterpret_cast<CUkernel>(handle);
  size_t offset = 0;
  size_t size = 0;
  // The entry that knows the first parameter knows the others; a kernel without
  // any has an invalid index 0 there.
  const CUresult as_kernel =
      driver.cuKernelGetParamInfo(kernel, 0, &offset, &size);
  const bool by_kernel = as_kernel == CUDA_SUCCESS;
  const CUresult as_function =
      by_kernel ? CUDA_SUCCESS
                : driver.cuFuncGetParamInfo(handle, 0, &offset, &size);
  if (!by_kernel && as_function != CUDA_SUCCESS) {
    if (as_kernel == CUDA_ERROR_INVALID_VALUE ||
        as_function == CUDA_ERROR_INVALID_VALUE) {
      return std::vector<device::ParamSpan>();
    }
    const Error why = driver.Explain(as_function, "cuFuncGetParamInfo");
    return base::Fail(
        as_function == CUDA_ERROR_INVALID_HANDLE ? Code::kInvalidArgument
                                                 : why.code(),
        "the handle is neither a CUfunction nor a CUkernel: " + why.message());
  }
  std::vector<device::ParamSpan> params;
  for (;;) {
    params.push_back(
        {static_cast<uint32_t>(offset), static_cast<uint32_t>(size)});
    const CUresult result =
        by_kernel
            ? driver.cuKernelGetParamInfo(kernel, params.size(), &offset, &size)
            : driver.cuFuncGetParamInfo(handle, params.size(), &offset, &size);
    if (result == CUDA_ERROR_INVALID_VALUE) return params;
    REPRISE_RETURN_IF_ERROR(
        device::Check(driver, result, "cuKernelGetParamInfo"));
  }
}

}  // namespace reprise::native
