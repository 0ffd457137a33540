#include "bindings/native/kernel_code.h"

#include <utility>

#include "engine/device/exiting.h"

namespace reprise::native {

KernelCode::KernelCode(std::string name, std::vector<device::ParamSpan> params)
    : name_(std::make_shared<const std::string>(std::move(name))),
      params_(std::make_shared<const std::vector<device::ParamSpan>>(
          std::move(params))) {}

KernelCode::~KernelCode() {
  if (library_ != nullptr && !device::Exiting()) {
    driver_->cuLibraryUnload(library_);
  }
}

Status KernelCode::Load(const device::Driver& driver,
                        const std::vector<char>& code) {
  driver_ = &driver;
  REPRISE_CU(driver, cuLibraryLoadData(&library_, code.data(), nullptr, nullptr,
                                       0, nullptr, nullptr, 0));
  CUkernel kernel = nullptr;
  if (driver.cuLibraryGetKernel(&kernel, library_, name_->c_str()) !=
      CUDA_SUCCESS) {
    return base::Fail(
        Code::kInvalidArgument,
        "the source has no kernel '" + *name_ +
            "': declare it extern \"C\" __global__, or correct the name");
  }
  // The function of this context: patching by it is quicker.
  REPRISE_CU(driver, cuKernelGetFunction(&function_, kernel));
  return CheckParams(driver);
}

Status KernelCode::CheckParams(const device::Driver& driver) const {
  // The handle may be a CUkernel in disguise: the entry that knows its first
  // parameter is asked for the others. One without parameters has an invalid
  // index 0 there.
  const auto kernel = reinterpret_cast<CUkernel>(function_);
  const std::vector<device::ParamSpan>& expected = *params_;
  size_t first[2] = {};
  const bool by_kernel = driver.cuKernelGetParamInfo(
                             kernel, 0, &first[0], &first[1]) == CUDA_SUCCESS ||
                         driver.cuFuncGetParamInfo(function_, 0, &first[0],
                                                   &first[1]) != CUDA_SUCCESS;
  for (size_t i = 0; i <= expected.size(); ++i) {
    size_t offset = 0;
    size_t size = 0;
    const CUresult result =
        by_kernel ? driver.cuKernelGetParamInfo(kernel, i, &offset, &size)
                  : driver.cuFuncGetParamInfo(function_, i, &offset, &size);
    if (result == CUDA_ERROR_INVALID_VALUE && i == expected.size()) return {};
    if (result == CUDA_ERROR_INVALID_VALUE || i == expected.size()) {
      return base::Fail(Code::kInvalidArgument,
                        "kernel '" + *name_ + "' takes " +
                            (i == expected.size() ? "more than " : "") +
                            std::to_string(i) + " parameters, not " +
                            std::to_string(expected.size()));
    }
    REPRISE_RETURN_IF_ERROR(
        device::Check(driver, result, "cuKernelGetParamInfo"));
    if (size != expected[i].size_bytes || offset != expected[i].offset_bytes) {
      return base::Fail(Code::kInvalidArgument,
                        "parameter " + std::to_string(i) + " of kernel '" +
                            *name_ + "' has " + std::to_string(size) +
                            " bytes at " + std::to_string(offset) + ", not " +
                            std::to_string(expected[i].size_bytes) + " at " +
                            std::to_string(expected[i].offset_bytes));
    }
  }
  return {};
}

void KernelCode::FinishLoading(const device::Driver& driver,
                               const std::vector<char>& code) {
  Publish(Load(driver, code));
}

void KernelCode::FinishAdopting(const device::Driver& driver,
                                CUfunction handle) {
  // The function of this context also where the handle is a CUkernel, for
  // entries that take functions only.
  if (driver.cuKernelGetFunction(
          &function_, reinterpret_cast<CUkernel>(handle)) != CUDA_SUCCESS) {
    function_ = handle;
  }
  Publish(CheckParams(driver));
}

void KernelCode::FinishHost(HostFunction function) {
  host_ = std::move(function);
  Publish({});
}

void KernelCode::Fail(Error error) {
  Publish(tl::unexpected(std::move(error)));
}

void KernelCode::Publish(Status status) {
  const base::MutexLock lock(mutex_);
  if (status) ready_.store(true, std::memory_order_release);
  status_ = std::move(status);
  finished_.NotifyAll();
}

Status KernelCode::Wait() {
  if (ready()) return {};
  const base::MutexLock lock(mutex_);
  while (!status_.has_value()) finished_.Wait(mutex_);
  return *status_;
}

Status Wait(KernelCode& code) { return code.Wait(); }

}  // namespace reprise::native
