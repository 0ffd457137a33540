#include "scheduler/stream_sleep.h"

#include <atomic>

#include "engine/base/log.h"

namespace reprise::scheduler {
namespace {

constexpr char kDoesNotPay[] =
    "the stream was not watched: watching it gained nothing, or that was being "
    "measured";
constexpr char kNothingKnown[] =
    "the stream was not watched for a while: almost nothing in it had come "
    "before";

}  // namespace

void StreamSleep::End() {
  if (!skips()) return;
  if (skipping_->End()) {
    if (unwatched_ != nullptr) unwatched_->Add();
    return;
  }
  static std::atomic<bool> told{false};
  if (told.exchange(true)) return;
  base::Log(
      base::LogLevel::kWarning,
      "the system call membarrier, allowed before, is refused: ops are no "
      "longer watched");
}

const char* StreamSleep::Look(Attention::Seen seen,
                              Attention::Clock::time_point now) {
  const bool before = attention_.asleep();
  seen.saved = saved_;
  attention_.Look(seen, now);
  if (!attention_.asleep()) {
    End();
    return nullptr;
  }
  if (before) return nullptr;
  return attention_.backs_off() ? kNothingKnown : kDoesNotPay;
}

}  // namespace reprise::scheduler
