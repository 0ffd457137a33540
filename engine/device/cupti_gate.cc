#include "engine/device/cupti_gate.h"

#include <atomic>
#include <cstdint>

namespace reprise::device {
namespace {

// How many threads are inside, and whether they are the last for now.
constexpr uint32_t kClosed = 1u << 31;
constinit std::atomic<uint32_t> g_inside{0};

}  // namespace

void CuptiGate::Enter() {
  while ((g_inside.fetch_add(1, std::memory_order_acquire) & kClosed) != 0) {
    uint32_t inside = g_inside.fetch_sub(1, std::memory_order_relaxed) - 1;
    while ((inside & kClosed) != 0) {
      g_inside.wait(inside, std::memory_order_relaxed);
      inside = g_inside.load(std::memory_order_relaxed);
    }
  }
}

void CuptiGate::Leave() { g_inside.fetch_sub(1, std::memory_order_release); }

bool CuptiGate::TryClose() {
  uint32_t only_this = 1;
  return g_inside.compare_exchange_strong(only_this, kClosed | 1,
                                          std::memory_order_acquire,
                                          std::memory_order_relaxed);
}

void CuptiGate::Open() {
  g_inside.fetch_and(~kClosed, std::memory_order_release);
  g_inside.notify_all();
}

}  // namespace reprise::device
