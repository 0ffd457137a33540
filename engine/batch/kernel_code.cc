#include "engine/batch/kernel_code.h"

#include <utility>

#include "engine/device/context_scope.h"
#include "engine/device/kernel_params.h"

namespace reprise::engine {

using base::Code;
using base::Error;
using base::Result;
using base::Status;

KernelCode::KernelCode(std::string name, std::vector<device::ParamSpan> params,
                       std::span<const ParamType> types)
    : name_(std::make_shared<const std::string>(std::move(name))),
      params_(std::make_shared<const std::vector<device::ParamSpan>>(
          std::move(params))),
      types_(types.begin(), types.end()) {}

ParamType KernelCode::TypeOf(size_t index) const {
  return index < types_.size()
             ? types_[index].type()
             : ParamType{.size_bytes = (*params_)[index].size_bytes};
}

void KernelCode::Load(std::shared_ptr<kernels::Compilation> compilation,
                      std::shared_ptr<kernels::LibraryTable> libraries,
                      std::shared_ptr<const kernels::KernelSource> source,
                      Check check) {
  const base::MutexLock lock(mutex_);
  source_.emplace(Source{std::move(compilation), std::move(libraries),
                         std::move(source), std::move(check)});
}

void KernelCode::RunIfQueued() {
  std::optional<Source> source;
  {
    const base::MutexLock lock(mutex_);
    source.swap(source_);
  }
  if (source.has_value()) Publish(LoadFrom(*source));
}

Status KernelCode::LoadFrom(const Source& source) {
  REPRISE_ASSIGN_OR_RETURN(const kernels::Compilation::CodePtr code,
                           source.compilation->Wait());
  if (source.check) REPRISE_RETURN_IF_ERROR(source.check(*code));
  kernels::LibraryTable& libraries = *source.libraries;
  auto library = libraries.Load(code->image);
  if (!library) {
    return tl::unexpected(library.error().In("code for " + code->architecture));
  }
  const auto lowered = code->lowered_names.find(*name_);
  REPRISE_ASSIGN_OR_RETURN(
      function_,
      (*library)->Find(
          lowered != code->lowered_names.end() ? lowered->second : *name_,
          source.source->source));
  // The driver tells parameters in a context only.
  const device::ContextScope scope(libraries.driver(), libraries.context());
  REPRISE_RETURN_IF_ERROR(scope.status());
  REPRISE_RETURN_IF_ERROR(CheckParams(libraries.driver()));
  context_ = libraries.context();
  library_ = *std::move(library);
  lowered_names_ = code->lowered_names;
  log_ = code->log;
  kernel_source_ = source.source;
  return {};
}

Status KernelCode::CheckParams(const device::Driver& driver) const {
  const std::vector<device::ParamSpan>& expected = *params_;
  auto params = device::ParamsOf(driver, function_);
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

void KernelCode::FinishAdopting(const device::Driver& driver,
                                CUfunction handle) {
  // The function of this context also where the handle is a CUkernel, for
  // entries that take functions only.
  if (driver.cuKernelGetFunction(
          &function_, reinterpret_cast<CUkernel>(handle)) != CUDA_SUCCESS) {
    function_ = handle;
  }
  Status adopted = device::Check(driver, driver.cuCtxGetCurrent(&context_),
                                 "cuCtxGetCurrent");
  if (adopted) adopted = CheckParams(driver);
  Publish(std::move(adopted));
}

void KernelCode::FinishHost(CUcontext context, HostFunction function) {
  context_ = context;
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
  RunIfQueued();
  const base::MutexLock lock(mutex_);
  while (!status_.has_value()) finished_.Wait(mutex_);
  return *status_;
}

Result<kernels::KernelLibrary::Variable> KernelCode::FindVariable(
    const std::string& name) {
  REPRISE_RETURN_IF_ERROR(Wait());
  if (host_ != nullptr) {
    return base::Fail(Code::kUnavailable,
                      "kernel '" + *name_ +
                          "' is a function of the host, which "
                          "has no variable '" +
                          name + "' on a device: let the function capture it");
  }
  if (library_ == nullptr) {
    return base::Fail(Code::kInvalidArgument,
                      "kernel '" + *name_ +
                          "' was adopted: ask what it is of "
                          "for variable '" +
                          name + "' (cuLibraryGetGlobal, cuModuleGetGlobal)");
  }
  const auto lowered = lowered_names_.find("&" + name);
  auto variable = library_->FindVariable(
      lowered != lowered_names_.end() ? lowered->second : name);
  if (!variable) {
    return tl::unexpected(variable.error().In("kernel '" + *name_ + "'"));
  }
  return variable;
}

}  // namespace reprise::engine
