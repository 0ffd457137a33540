// Autocast as a thread has it.

#ifndef REPRISE_BINDINGS_TORCH_BASE_AUTOCAST_STATE_H_
#define REPRISE_BINDINGS_TORCH_BASE_AUTOCAST_STATE_H_

#include <ATen/autocast_mode.h>
#include <c10/core/DeviceType.h>

#include <array>
#include <cstddef>
#include <optional>

namespace reprise::bindings {

// The type to which autocast casts what operators of the host and of CUDA are
// given; none where it is off. It is off within a kernel of its own.
struct AutocastState {
  static constexpr std::array kDevices = {at::kCPU, at::kCUDA};

  static AutocastState Now() {
    AutocastState state;
    for (size_t i = 0; i < kDevices.size(); ++i) {
      if (at::autocast::is_autocast_enabled(kDevices[i])) {
        state.types[i] = at::autocast::get_autocast_dtype(kDevices[i]);
      }
    }
    return state;
  }

  bool any() const { return types[0].has_value() || types[1].has_value(); }
  bool operator==(const AutocastState&) const = default;

  std::array<std::optional<at::ScalarType>, kDevices.size()> types;
};

// While it lives, the thread has autocast like that, without its cache: a
// weight's cast that stays there would be another weight's value some day.
class AutocastGuard {
 public:
  explicit AutocastGuard(const AutocastState& state) {
    for (size_t i = 0; i < AutocastState::kDevices.size(); ++i) {
      const at::DeviceType device = AutocastState::kDevices[i];
      on_[i] = at::autocast::is_autocast_enabled(device);
      types_[i] = at::autocast::get_autocast_dtype(device);
      Set(device, state.types[i].has_value(),
          state.types[i].value_or(types_[i]));
    }
    at::autocast::set_autocast_cache_enabled(false);
  }
  ~AutocastGuard() {
    for (size_t i = 0; i < AutocastState::kDevices.size(); ++i) {
      Set(AutocastState::kDevices[i], on_[i], types_[i]);
    }
    at::autocast::set_autocast_cache_enabled(caches_);
  }
  AutocastGuard(const AutocastGuard&) = delete;
  AutocastGuard& operator=(const AutocastGuard&) = delete;

 private:
  static void Set(at::DeviceType device, bool on, at::ScalarType type) {
    at::autocast::set_autocast_enabled(device, on);
    at::autocast::set_autocast_dtype(device, type);
  }

  std::array<bool, AutocastState::kDevices.size()> on_{};
  std::array<at::ScalarType, AutocastState::kDevices.size()> types_{};
  const bool caches_ = at::autocast::is_autocast_cache_enabled();
};

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_BASE_AUTOCAST_STATE_H_
