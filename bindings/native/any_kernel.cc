#include "bindings/native/any_kernel.h"

#include "engine/batch/kernel_code.h"

namespace reprise {

AnyKernel::AnyKernel(std::shared_ptr<engine::KernelCode> code)
    : code_(std::move(code)) {}

size_t AnyKernel::parameters() const { return code_->params()->size(); }

size_t AnyKernel::size_bytes(size_t index) const {
  return (*code_->params())[index].size_bytes;
}

}  // namespace reprise
