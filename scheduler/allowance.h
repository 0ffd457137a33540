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
// are paid for (docs/decisions/0052-what-learning-may-cost.md). The account
// starts with 15 ms, and grows by
//
// - a fiftieth of the time that passes;
// - a quarter of what replays save;
// - a sixteenth of the time of passes that a plan may save, once the program
//   has run for a second: what has lasted so long may last as long again.
//
// Where much was recorded in vain, and replays have not saved half of what all
// has cost, only a two-hundredth of the time is given.
//
// A pass is begun where the account has what it is about to cost; it is charged
// what it took beyond its usual time. A recording leaves some for what was
// recorded already, which is worth nothing until it is validated. Where little
// can be saved, or late (a program that waits for the device, a trace that
// comes seldom), half of what it starts with is left to others. Single-thread.
class Allowance {
 public:
  enum class Purpose : uint8_t { kRecord, kValidate };

  using Clock = std::chrono::steady_clock;
  using Duration = Clock::duration;
  static constexpr Duration kFirst = std::chrono::milliseconds(15);
  static constexpr Duration kMost = std::chrono::milliseconds(250);
  static constexpr int kOneIn = 50;
  static constexpr int kOneInVain = 200;
  static constexpr int kOneInSaved = 4;
  static constexpr int kOneInExpected = 16;
  static constexpr Duration kMuch = std::chrono::milliseconds(50);
  static constexpr Duration kYoung = std::chrono::seconds(1);
  static constexpr Duration kAwaited = std::chrono::seconds(1);
  static constexpr Duration kToValidate = kFirst / 5;
  static constexpr Duration kToOthers = kFirst / 2;

  struct Pass {
    Purpose purpose = Purpose::kRecord;
    Duration cost{};            // about what it takes beyond its usual time
    bool saves_little = false;  // or late, or does not
  };

  // It may be begun.
  bool Has(Clock::time_point now, const Pass& pass) {
    Grow(now);
    const bool records = pass.purpose == Purpose::kRecord;
    Duration left = records ? ToValidate(now) : Duration{};
    if (pass.saves_little) left = std::max(left, kToOthers);
    // What costs more than is ever kept is begun with half of that.
    const bool has = left_ > std::min(left + pass.cost, kMost / 2);
    if (!records && !pass.saves_little) Wait(now, has ? Duration{} : pass.cost);
    return has;
  }
  // Replays have saved so much more.
  void Earn(Duration saved) {
    saved_ += saved;
    Add(saved / kOneInSaved);
  }
  // A pass that may be replayed one day has ended. By eager such a pass takes
  // so long, or less.
  void Expect(Clock::time_point now, Duration took) {
    Grow(now);
    if (now - *first_ >= kYoung && !in_vain()) {
      Add(std::min(took, now - expected_) / kOneInExpected);
    }
    expected_ = now;
  }

  // So much more has gone.
  void Spend(Duration cost, bool in_vain = false) {
    left_ -= cost;
    spent_ += cost;
    if (in_vain) wasted_ += cost;
  }

 private:
  // A validation of that cost waits; zero: none does.
  void Wait(Clock::time_point now, Duration cost) {
    awaited_ = cost;
    awaited_at_ = now;
  }
  // What recordings leave. What has not asked for long is not waited for.
  Duration ToValidate(Clock::time_point now) const {
    const bool waits = now - awaited_at_ < kAwaited;
    return waits ? std::max(kToValidate, awaited_) : kToValidate;
  }
  bool in_vain() const {
    return wasted_ > std::max(kMuch, spent_ / 4) && saved_ < spent_ / 2;
  }
  void Add(Duration more) { left_ = std::min(left_ + more, kMost); }
  void Grow(Clock::time_point now) {
    if (!first_.has_value()) first_ = last_ = expected_ = now;
    Add((now - last_) / (in_vain() ? kOneInVain : kOneIn));
    last_ = now;
  }

  Duration left_ = kFirst;
  Duration spent_{};
  Duration wasted_{};  // of it
  Duration saved_{};
  std::optional<Clock::time_point> first_;
  Duration awaited_{};
  Clock::time_point awaited_at_;
  Clock::time_point last_;
  Clock::time_point expected_;  // until then passes were counted
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_ALLOWANCE_H_
