#include "engine/base/spin_lock.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace reprise::base {
namespace {

constexpr int kLooks = 1000;  // some microseconds
constexpr int kYields = 16;   // for a holder that lost its processor
constexpr std::chrono::microseconds kShortestSleep{20};
constexpr std::chrono::microseconds kLongestSleep{1000};

void Relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

void SpinLock::LockSlowly() {
  // Looking does not take the cache line from the holder, as trying does.
  for (int i = 0; i < kLooks; ++i) {
    if (!held() && TryLock()) return;
    Relax();
  }
  for (int i = 0; i < kYields; ++i) {
    if (TryLock()) return;
    std::this_thread::yield();
  }
  for (auto sleep = kShortestSleep; !TryLock();
       sleep = std::min(2 * sleep, kLongestSleep)) {
    std::this_thread::sleep_for(sleep);
  }
}

}  // namespace reprise::base
