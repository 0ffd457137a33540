#include "bindings/torch/cufft_plans.h"

#include <ATen/Context.h>

namespace reprise::bindings {

engine::LibraryFrees& CufftFrees() {
  // Leaked: what was recorded looks at it for ever.
  static auto* const frees = new engine::LibraryFrees;
  return *frees;
}

bool MayUseCufft(std::string_view name) {
  return !name.starts_with("aten::") || name.find("fft") != name.npos;
}

bool CufftCacheIsFull(int device) {
  const at::CUDAHooksInterface& hooks = at::detail::getCUDAHooks();
  const auto index = static_cast<c10::DeviceIndex>(device);
  if (hooks.cuFFTGetPlanCacheSize(index) <
      hooks.cuFFTGetPlanCacheMaxSize(index)) {
    return false;
  }
  CufftFrees().Announce();
  return true;
}

}  // namespace reprise::bindings
