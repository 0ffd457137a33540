#include "bindings/native/kernel.h"

#include "engine/batch/kernel_code.h"

namespace reprise::native {

Status Wait(engine::KernelCode& code) { return code.Wait(); }

Result<std::pair<void*, size_t>> VariableOf(engine::KernelCode& code,
                                            const std::string& name,
                                            size_t element_bytes) {
  REPRISE_ASSIGN_OR_RETURN(const kernels::KernelLibrary::Variable variable,
                           code.FindVariable(name));
  if (variable.size_bytes % element_bytes != 0) {
    return base::Fail(Code::kInvalidArgument,
                      "variable '" + name + "' has " +
                          std::to_string(variable.size_bytes) +
                          " bytes, which elements of " +
                          std::to_string(element_bytes) + " do not fill");
  }
  return std::pair(reinterpret_cast<void*>(variable.address),
                   variable.size_bytes / element_bytes);
}

Result<std::string> LogOf(engine::KernelCode& code) {
  REPRISE_RETURN_IF_ERROR(code.Wait());
  return code.log();
}

}  // namespace reprise::native
