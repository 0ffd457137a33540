// What kernels on the host obey of the thread that runs them.

#ifndef REPRISE_BINDINGS_TORCH_RUNTIME_THREAD_MODES_H_
#define REPRISE_BINDINGS_TORCH_RUNTIME_THREAD_MODES_H_

#include <cstdint>

namespace reprise::bindings {

// How the processor rounds and what it does with denormal numbers, how many
// threads share the work, and whether gradients may be asked for.
struct ThreadModes {
  static ThreadModes Now();

  bool operator==(const ThreadModes&) const = default;

  uint32_t control = 0;  // of the processor's control word (MXCSR)
  int threads = 1;
  bool gradients = true;
};

// Of the processor's control word, what changes results: rounding, and whether
// denormal numbers count as nothing (torch.set_flush_denormal). In four bits.
uint32_t ControlBits();

// While it lives, the thread has these modes.
class ThreadModesGuard {
 public:
  explicit ThreadModesGuard(const ThreadModes& modes);
  ~ThreadModesGuard();
  ThreadModesGuard(const ThreadModesGuard&) = delete;
  ThreadModesGuard& operator=(const ThreadModesGuard&) = delete;

 private:
  static void Change(const ThreadModes& from, const ThreadModes& to);

  const ThreadModes modes_;
  const ThreadModes before_;
};

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_RUNTIME_THREAD_MODES_H_
