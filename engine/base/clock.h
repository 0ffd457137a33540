// What the time is, for those who decide by it.

#ifndef REPRISE_ENGINE_BASE_CLOCK_H_
#define REPRISE_ENGINE_BASE_CLOCK_H_

#include <chrono>
#include <optional>

namespace reprise::base {

// Its times never go back. Now is asked by one thread at a time, unless a clock
// says more.
class Clock {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  using Duration = std::chrono::steady_clock::duration;

  virtual TimePoint Now() const = 0;

 protected:
  ~Clock() = default;  // nobody owns one by its base
};

// The machine's. Any thread.
class SteadyClock final : public Clock {
 public:
  TimePoint Now() const override { return std::chrono::steady_clock::now(); }
};
inline constexpr SteadyClock kSteadyClock;

// Another clock's time, less that for which this one was stopped.
// Single-thread.
class StoppableClock final : public Clock {
 public:
  explicit StoppableClock(const Clock* clock) : clock_(*clock) {}  // borrowed

  TimePoint Now() const override {
    return stopped_.value_or(clock_.Now()) - left_out_;
  }
  // Does nothing while it is stopped.
  void Stop() {
    if (!stopped_.has_value()) stopped_ = clock_.Now();
  }
  // Does nothing while it goes.
  void GoOn() {
    if (!stopped_.has_value()) return;
    left_out_ += clock_.Now() - *stopped_;
    stopped_.reset();
  }

 private:
  const Clock& clock_;
  std::optional<TimePoint> stopped_;
  Duration left_out_{};
};

}  // namespace reprise::base

#endif  // REPRISE_ENGINE_BASE_CLOCK_H_
