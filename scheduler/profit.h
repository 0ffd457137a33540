// Does a plan pay? Measured eager time against measured replay time.

#ifndef REPRISE_SCHEDULER_PROFIT_H_
#define REPRISE_SCHEDULER_PROFIT_H_

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace reprise::scheduler {

// The host time of passes over one trace, from its head to its end, in blocks
// of one mode: the first sample after a change of mode inherits the other
// mode's backlog and is not counted. Keeps the last few samples of each mode and
// compares medians. Single-thread.
class Profit {
 public:
  using Duration = std::chrono::nanoseconds;
  enum class Mode : uint8_t { kEager, kReplay };

  void Add(Mode mode, Duration time) {
    Samples& samples = Of(mode);
    const bool changed = last_ != mode;
    last_ = mode;
    if (changed) return;
    samples.ring[samples.count++ % kKept] = time;
  }

  bool known(Mode mode) const { return Of(mode).count >= kNeeded; }

  // Zero when nothing is known.
  Duration Median(Mode mode) const {
    const Samples& samples = Of(mode);
    const size_t kept = std::min<uint64_t>(samples.count, kKept);
    if (kept == 0) return Duration::zero();
    std::array<Duration, kKept> sorted = samples.ring;
    std::nth_element(sorted.begin(), sorted.begin() + kept / 2,
                     sorted.begin() + kept);
    return sorted[kept / 2];
  }

  // Replay beats eager by more than `margin` (0.05: five per cent), or it is
  // not known yet.
  bool Pays(double margin) const {
    if (!known(Mode::kEager) || !known(Mode::kReplay)) return true;
    return Median(Mode::kReplay).count() <
           Median(Mode::kEager).count() * (1.0 - margin);
  }

 private:
  static constexpr size_t kKept = 9;
  static constexpr uint64_t kNeeded = 3;

  struct Samples {
    std::array<Duration, kKept> ring{};
    uint64_t count = 0;
  };

  const Samples& Of(Mode mode) const {
    return mode == Mode::kEager ? eager_ : replay_;
  }
  Samples& Of(Mode mode) { return mode == Mode::kEager ? eager_ : replay_; }

  Samples eager_;
  Samples replay_;
  Mode last_ = Mode::kEager;
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_PROFIT_H_
