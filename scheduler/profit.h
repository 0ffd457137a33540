// Does a plan pay? Measured eager time against measured replay time.

#ifndef REPRISE_SCHEDULER_PROFIT_H_
#define REPRISE_SCHEDULER_PROFIT_H_

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace reprise::scheduler {

// Times a trace from one arrival of its head to the next, so that all a pass
// costs the program is in: the host's work, the wait for the device, what the
// program does in between. Passes of one mode come in blocks, and the first
// interval of a block is not counted, because it inherits the other mode's
// backlog. Medians of the last few intervals are compared.
//
//   trial of replay ─► trial of eager ─► keep the better ─► trial of the other
//   …
//
// Each keeping lasts twice as long as the one before, within bounds, so that
// trials cost less and less. Single-thread.
class Profit {
 public:
  using Clock = std::chrono::steady_clock;
  using Duration = Clock::duration;
  // kOther: a pass that tells nothing (recorded, validated, squashed).
  enum class Mode : uint8_t { kEager, kReplay, kOther };

  // The head has arrived, and this pass will be of that mode.
  void AtHead(Mode mode, Clock::time_point now) {
    if (head_.has_value() && last_ == before_last_ && last_ != Mode::kOther) {
      Samples& samples = Of(last_);
      samples.ring[samples.count++ % kKept] = now - *head_;
    }
    before_last_ = last_;
    last_ = mode;
    head_ = now;
  }

  // The pass whose head has arrived is of no mode after all.
  void Disregard() { last_ = Mode::kOther; }

  // What the next pass is to be. `margin` is the share by which replay must
  // beat eager (0.05: five per cent).
  Mode Choose(double margin) {
    if (left_ == 0) Advance(margin);
    --left_;
    return mode_;
  }

  // Zero when nothing is known.
  Duration Median(Mode mode) const {
    const Samples& samples = mode == Mode::kEager ? eager_ : replay_;
    const auto kept =
        static_cast<size_t>(std::min<uint64_t>(samples.count, kKept));
    if (kept == 0) return Duration::zero();
    std::array<Duration, kKept> sorted = samples.ring;
    const auto middle = sorted.begin() + static_cast<ptrdiff_t>(kept / 2);
    std::nth_element(sorted.begin(), middle,
                     sorted.begin() + static_cast<ptrdiff_t>(kept));
    return *middle;
  }

  // Replay beats eager by more than the margin, or one of them is not known.
  bool Pays(double margin) const {
    if (eager_.count == 0 || replay_.count == 0) return true;
    return static_cast<double>(Median(Mode::kReplay).count()) <
           static_cast<double>(Median(Mode::kEager).count()) * (1.0 - margin);
  }

 private:
  static constexpr size_t kKept = 9;
  // Passes of a trial: the first two of a block are not counted.
  static constexpr uint32_t kTrial = 6;
  static constexpr uint32_t kShortestKeeping = 128;
  static constexpr uint32_t kLongestKeeping = 1 << 14;

  struct Samples {
    std::array<Duration, kKept> ring{};
    uint64_t count = 0;
  };

  Samples& Of(Mode mode) { return mode == Mode::kEager ? eager_ : replay_; }

  void Advance(double margin) {
    if (keeping_) {  // time to try the other one
      mode_ = mode_ == Mode::kReplay ? Mode::kEager : Mode::kReplay;
      keeping_ = false;
      left_ = kTrial;
    } else if (replay_.count == 0 || eager_.count == 0) {
      mode_ = replay_.count == 0 ? Mode::kReplay : Mode::kEager;
      left_ = kTrial;
    } else {
      mode_ = Pays(margin) ? Mode::kReplay : Mode::kEager;
      keeping_ = true;
      left_ = keep_for_;
      keep_for_ = std::min(2 * keep_for_, kLongestKeeping);
    }
  }

  Samples eager_;
  Samples replay_;
  std::optional<Clock::time_point> head_;
  Mode last_ = Mode::kOther;
  Mode before_last_ = Mode::kOther;
  Mode mode_ = Mode::kReplay;
  bool keeping_ = false;
  uint32_t left_ = 0;
  uint32_t keep_for_ = kShortestKeeping;
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_PROFIT_H_
