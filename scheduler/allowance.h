// How much of a program's time may go into learning about it.

#ifndef REPRISE_SCHEDULER_ALLOWANCE_H_
#define REPRISE_SCHEDULER_ALLOWANCE_H_

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>

namespace reprise::scheduler {

// Passes that are recorded or validated take longer than others, and a program
// whose shapes depend on its data has new traces without end. So such passes
// are paid for: the account starts with a second, each of them costs the time
// that it takes beyond its usual one, and it grows by a fiftieth of the time
// that passes and a quarter of what replays save, up to that second again. The
// last fifth of it is for what was recorded already, which is worth nothing
// until it is validated. Of a program that waits most of the time, for the
// device or for something else, less can be saved, and of a trace that comes
// seldom it is long until anything is: these begin with a twentieth of a
// second, and another one to validate. Single-thread.
class Allowance {
 public:
  enum class Purpose : uint8_t { kRecord, kValidate };

  using Clock = std::chrono::steady_clock;
  using Duration = Clock::duration;
  static constexpr Duration kMost = std::chrono::seconds(1);
  static constexpr int kOneIn = 50;
  static constexpr int kOneInSaved = 4;
  static constexpr Duration kToValidate = kMost / 5;
  static constexpr Duration kMostOfLittle = std::chrono::milliseconds(50);

  // A pass may be begun; it saves little, or late, or does not.
  bool Has(Clock::time_point now, bool saves_little, Purpose purpose) {
    if (last_.has_value()) left_ += (now - *last_) / kOneIn;
    left_ = std::min(left_, kMost);
    last_ = now;
    const bool records = purpose == Purpose::kRecord;
    if (saves_little) {
      return left_ > kMost - (records ? 1 : 2) * kMostOfLittle;
    }
    return left_ > (records ? kToValidate : Duration::zero());
  }
  // Replays have saved so much more.
  void Earn(Duration saved) { left_ += saved / kOneInSaved; }

  void Begin(Clock::time_point now) { begun_ = now; }
  // Of what was begun, if anything was. It would have taken so much by itself.
  void End(Clock::time_point now, Duration usual = {}) {
    if (begun_.has_value()) {
      left_ -= std::max(now - *begun_ - usual, Duration::zero());
    }
    begun_.reset();
  }

 private:
  Duration left_ = kMost;
  std::optional<Clock::time_point> last_;
  std::optional<Clock::time_point> begun_;
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_ALLOWANCE_H_
