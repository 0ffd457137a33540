#include "engine/device/exiting.h"

#include <pthread.h>

#include <atomic>
#include <cstdlib>

namespace reprise::device {
namespace {

std::atomic<bool> exiting{false};

// Relaxed: the flag orders nothing but itself. Destructors of static objects
// run on the thread that set it.
void SetExiting() { exiting.store(true, std::memory_order_relaxed); }

}  // namespace

void WatchForExit() {
  [[maybe_unused]] static const bool watched = [] {
    std::atexit(SetExiting);
    pthread_atfork(nullptr, nullptr, SetExiting);
    return true;
  }();
}

bool Exiting() { return exiting.load(std::memory_order_relaxed); }

}  // namespace reprise::device
