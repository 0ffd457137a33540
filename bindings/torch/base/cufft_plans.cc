#include "bindings/torch/base/cufft_plans.h"

#include <ATen/Context.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace reprise::bindings {
namespace {

constexpr size_t kMostDevices =
    size_t{std::numeric_limits<c10::DeviceIndex>::max()} + 1;

}  // namespace

engine::LibraryFrees& CufftFrees() {
  // Leaked: what was recorded looks at it for ever.
  static auto* const frees = new engine::LibraryFrees;
  return *frees;
}

bool MayUseCufft(std::string_view name) {
  return !name.starts_with("aten::") || name.find("fft") != name.npos;
}

bool CufftCacheIsFull(int device) {
  // An op may make several plans, and other threads are still in their passes.
  constexpr int64_t kSpare = 64;
  static std::array<std::atomic<bool>, kMostDevices> was_full;
  const at::CUDAHooksInterface& hooks = at::detail::getCUDAHooks();
  const auto index = static_cast<c10::DeviceIndex>(device);
  const bool full = hooks.cuFFTGetPlanCacheSize(index) + kSpare >
                    hooks.cuFFTGetPlanCacheMaxSize(index);
  std::atomic<bool>& was = was_full[static_cast<size_t>(device)];
  if (was.exchange(full, std::memory_order_relaxed) != full && full) {
    CufftFrees().Announce();
  }
  return full;
}

}  // namespace reprise::bindings
