#include "bindings/torch/runtime/thread_modes.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

namespace reprise::bindings {
namespace {

constexpr uint32_t kRoundingShift = 13;
constexpr uint32_t kRounding = 3u << kRoundingShift;
constexpr uint32_t kFlushToZero = 1u << 15;
constexpr uint32_t kDenormalsAreZero = 1u << 6;
constexpr uint32_t kControl = kRounding | kFlushToZero | kDenormalsAreZero;

}  // namespace

uint32_t ControlBits() {
  const uint32_t word = __builtin_ia32_stmxcsr();
  return (word & kRounding) >> kRoundingShift |
         ((word & kFlushToZero) != 0 ? 4u : 0u) |
         ((word & kDenormalsAreZero) != 0 ? 8u : 0u);
}

ThreadModes ThreadModes::Now() {
  return {.control = __builtin_ia32_stmxcsr() & kControl,
          .threads = at::get_num_threads(),
          .gradients = at::GradMode::is_enabled()};
}

ThreadModesGuard::ThreadModesGuard(const ThreadModes& modes)
    : modes_(modes), before_(ThreadModes::Now()) {
  Change(before_, modes_);
}

ThreadModesGuard::~ThreadModesGuard() { Change(modes_, before_); }

void ThreadModesGuard::Change(const ThreadModes& from, const ThreadModes& to) {
  if (to.control != from.control) {
    __builtin_ia32_ldmxcsr((__builtin_ia32_stmxcsr() & ~kControl) | to.control);
  }
  // Other threads take the number over that is set while they begin their first
  // parallel work: ops under other numbers wait (engine::Effects), and only
  // what a squash runs again may set it here.
  if (to.threads != from.threads) at::set_num_threads(to.threads);
  if (to.gradients != from.gradients) at::GradMode::set_enabled(to.gradients);
}

}  // namespace reprise::bindings
