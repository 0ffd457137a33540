// Where a thread spends its time: the instruction pointer, ten thousand times a
// second, by the library that it is in. A library of its own for ctypes; see
// pc_sampler.py.
//
//   pc_sampler_start() ─► … the thread works … ─► pc_sampler_stop(path)
//
// One sampling at a time, of the thread that starts it, which stops it too.
// Wall-clock time: a thread that waits is sampled where it waits.

#include <dlfcn.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>

namespace {

constexpr long kPeriodNanoseconds = 100'000;

// Written by the handler, which may not allocate.
std::array<uintptr_t, 1 << 20> samples;
std::atomic<size_t> count{0};
timer_t timer;

void OnTimer(int, siginfo_t*, void* context) {
  const size_t i = count.load(std::memory_order_relaxed);
  if (i == samples.size()) return;
  const auto* interrupted = static_cast<const ucontext_t*>(context);
  samples[i] = static_cast<uintptr_t>(interrupted->uc_mcontext.gregs[REG_RIP]);
  count.store(i + 1, std::memory_order_relaxed);
}

}  // namespace

// Zero, or -1 where the system gives no timer.
extern "C" [[gnu::visibility("default")]] int pc_sampler_start() {
  count = 0;
  struct sigaction action {};
  action.sa_sigaction = OnTimer;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  if (sigaction(SIGPROF, &action, nullptr) != 0) return -1;
  sigevent event{};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = SIGPROF;
  event._sigev_un._tid = static_cast<pid_t>(syscall(SYS_gettid));
  if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0) return -1;
  itimerspec period{};
  period.it_interval.tv_nsec = period.it_value.tv_nsec = kPeriodNanoseconds;
  return timer_settime(timer, 0, &period, nullptr);
}

// Writes one line a sample: the library's path, the offset in it, the symbol
// that is nearest. The number of samples, or -1.
extern "C" [[gnu::visibility("default")]] long pc_sampler_stop(
    const char* path) {
  timer_delete(timer);
  FILE* file = std::fopen(path, "w");
  if (file == nullptr) return -1;
  const size_t taken = count;
  for (size_t i = 0; i < taken; ++i) {
    Dl_info info{};
    const auto address = reinterpret_cast<void*>(samples[i]);
    const bool known = dladdr(address, &info) != 0;
    const auto base = reinterpret_cast<uintptr_t>(info.dli_fbase);
    std::fprintf(file, "%s %lx %s\n",
                 known && info.dli_fname != nullptr ? info.dli_fname : "?",
                 samples[i] - base,
                 info.dli_sname != nullptr ? info.dli_sname : "?");
  }
  std::fclose(file);
  return static_cast<long>(taken);
}
