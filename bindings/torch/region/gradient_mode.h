// What autograd does about an operator's call, as its thread says.

#ifndef REPRISE_BINDINGS_TORCH_REGION_GRADIENT_MODE_H_
#define REPRISE_BINDINGS_TORCH_REGION_GRADIENT_MODE_H_

#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>

#include <cstdint>

namespace reprise::bindings {

enum class GradientMode : uint8_t {
  kOff,
  kOn,
  kInference,  // also, results count no writes and take part in nothing
};

inline GradientMode GradientModeNow() {
  if (c10::InferenceMode::is_enabled()) return GradientMode::kInference;
  return at::GradMode::is_enabled() ? GradientMode::kOn : GradientMode::kOff;
}

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_REGION_GRADIENT_MODE_H_
