#include "engine/base/asymmetric_fence.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace reprise::base {
namespace {

bool Membarrier(int command) {
  return syscall(SYS_membarrier, command, 0) == 0;
}

}  // namespace

bool HeavyFence() { return Membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED); }

bool AllowsHeavyFence() {
  enum class Answer : uint8_t { kUnasked, kNo, kYes };
  static constinit std::atomic<Answer> answer{Answer::kUnasked};
  if (answer.load(std::memory_order_relaxed) == Answer::kUnasked) {
    // Threads that ask at once get the same answer.
    const bool allowed =
        Membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) && HeavyFence();
    answer.store(allowed ? Answer::kYes : Answer::kNo,
                 std::memory_order_relaxed);
  }
  return answer.load(std::memory_order_relaxed) == Answer::kYes;
}

}  // namespace reprise::base
