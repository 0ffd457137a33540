// What the last few passes of a trace took.

#ifndef REPRISE_SCHEDULER_PASS_SAMPLES_H_
#define REPRISE_SCHEDULER_PASS_SAMPLES_H_

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace reprise::scheduler {

// What a pass took (PassTimer).
struct PassTime {
  using Duration = std::chrono::steady_clock::duration;
  // From its head to the end of its last op: the host's work.
  Duration host{};
  // From its head to the next head, of whatever trace: besides, what the
  // program does in between, and its waiting for the device.
  Duration whole{};
};

// The last few of them, and their median. A single-thread value.
class PassSamples {
 public:
  using Part = PassTime::Duration PassTime::*;
  struct Median {
    double value = 0;  // in PassTime::Duration's units
    double error = 0;  // of the median
  };

  void Add(const PassTime& time) { ring_[count_++ % kKept] = time; }
  // How many there have ever been.
  uint64_t count() const { return count_; }

  // Zero where there is none. The error comes from the median absolute
  // deviation, as of a normal distribution: a pass that took much longer now
  // and then does not count.
  Median MedianOf(Part part) const {
    constexpr double kDeviation = 1.4826;  // standard deviations in one
    constexpr double kOfMedian = 1.2533;   // its error in one of the mean
    const auto count = static_cast<size_t>(std::min<uint64_t>(count_, kKept));
    if (count == 0) return {};
    std::array<double, kKept> values{};
    for (size_t i = 0; i < count; ++i) {
      values[i] = static_cast<double>((ring_[i].*part).count());
    }
    const double median = Middle(values, count);
    for (size_t i = 0; i < count; ++i) {
      values[i] = std::abs(values[i] - median);
    }
    return {.value = median,
            .error = kOfMedian * kDeviation * Middle(values, count) /
                     std::sqrt(static_cast<double>(count))};
  }

 private:
  static constexpr size_t kKept = 9;

  // Of the first so many, whose order it changes.
  static double Middle(std::array<double, kKept>& values, size_t count) {
    const auto middle = values.begin() + static_cast<ptrdiff_t>(count / 2);
    std::nth_element(values.begin(), middle,
                     values.begin() + static_cast<ptrdiff_t>(count));
    return *middle;
  }

  std::array<PassTime, kKept> ring_{};
  uint64_t count_ = 0;
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_PASS_SAMPLES_H_
