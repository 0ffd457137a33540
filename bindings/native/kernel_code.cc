#include "bindings/native/kernel_code.h"

#include <utility>

#include "bindings/native/kernel_params.h"
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
  const std::vector<device::ParamSpan>& expected = *params_;
  auto params = ParamsOf(driver, function_);
  if (!params) {
    return tl::unexpected(params.error().In("kernel '" + *name_ + "'"));
  }
  if (params->size() != expected.size()) {
    return base::Fail(Code::kInvalidArgument,
                      "kernel '" + *name_ + "' takes " +
                          std::to_string(params->size()) + " parameters, not " +
                          std::to_string(expected.size()));
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    const device::ParamSpan& param = (*params)[i];
    if (param == expected[i]) continue;
    return base::Fail(Code::kInvalidArgument,
                      "parameter " + std::to_string(i) + " of kernel '" +
                          *name_ + "' has " + std::to_string(param.size_bytes) +
                          " bytes at " + std::to_string(param.offset_bytes) +
                          ", not " + std::to_string(expected[i].size_bytes) +
                          " at " + std::to_string(expected[i].offset_bytes));
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
