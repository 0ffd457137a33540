// Does a plan pay? What passes of its trace take by eager, and by replay.

#ifndef REPRISE_SCHEDULER_PROFIT_H_
#define REPRISE_SCHEDULER_PROFIT_H_

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "scheduler/pass_samples.h"

namespace reprise::scheduler {

// A plan saves time of the host, and saves it for the program unless that waits
// for the device all the same. So it is replayed while passes take less as a
// whole, by a margin; and where the whole tells too little, while they take the
// host less, and it does not show that nothing comes of it
// (docs/decisions/0032-what-a-plan-saves.md). Medians of the last few passes of
// either mode are compared, with the error of their difference. Passes of one
// mode come in blocks; the first of a block is not counted, because it inherits
// the other mode's backlog.
//
//   trial of replay ─► trial of eager ─► keep the better ─► trial of the other
//   …
//
// Each keeping lasts twice as long as the one before, and so long at least that
// the next trial costs a hundredth of it, within bounds: trials cost less and
// less. The first trials of long passes are over as soon as they tell.
// Single-thread. Cost: additions a pass, some microseconds a trial.
class Profit {
 public:
  using Duration = PassTime::Duration;
  // kOther: a pass that tells nothing (recorded, validated, squashed).
  enum class Mode : uint8_t { kEager, kReplay, kOther };
  enum class Finding : uint8_t {
    kUnknown,      // nothing was judged yet
    kSaves,        // replay
    kSavesNoHost,  // the host takes as long, or longer
    kSavesNoTime,  // the program waits for what it saved: for the device
  };

  // A pass has come to its end, in that mode; nothing: before its last op.
  void Passed(Mode mode, std::optional<PassTime> time) {
    const Mode before = std::exchange(last_, time ? mode : Mode::kOther);
    if (last_ == Mode::kOther || last_ != before) return;
    (last_ == Mode::kEager ? eager_ : replay_).Add(*time);
  }

  // What the next pass is to be. `margin` is the share of the time by eager, of
  // the host's or of the whole, that replay must save (0.05: five per cent).
  Mode Choose(double margin) {
    if (left_ == 0 || Tells()) Advance(margin);
    --left_;
    return mode_;
  }

  Finding Judge(double margin) const {
    if (eager_.count() == 0 || replay_.count() == 0) return Finding::kUnknown;
    const Gain whole = GainOf(&PassTime::whole);
    if (whole.gain > margin * whole.eager &&
        whole.gain > kErrors * whole.error) {
      return Finding::kSaves;
    }
    const Gain host = GainOf(&PassTime::host);
    if (host.gain <= margin * host.eager) return Finding::kSavesNoHost;
    const double least =
        std::min(kShareThatComes * host.gain, kShareThatCounts * whole.eager);
    return whole.gain + kErrors * whole.error < least ? Finding::kSavesNoTime
                                                      : Finding::kSaves;
  }

  // What the last trial found, and with it the mode that is kept.
  Finding finding() const { return finding_; }

  // What a replay saves the program, as the last trial found: the host's time,
  // or what the whole shows if that is another one beyond its error. Never
  // negative. Zero where one of both was never seen.
  Duration saving() const { return saving_; }

  // Of whole passes. Zero when nothing is known.
  Duration Median(Mode mode) const {
    return Duration(
        static_cast<Duration::rep>((mode == Mode::kEager ? eager_ : replay_)
                                       .MedianOf(&PassTime::whole)
                                       .value));
  }

 private:
  // Passes of a trial, of which the first is not counted.
  static constexpr uint32_t kTrial = 6;
  static constexpr uint64_t kEnough = kTrial - 1;
  // A first trial of passes of this length tells after so many, if they are
  // alike to within this share, or the modes differ by that one of eager's and
  // by so many errors.
  static constexpr Duration kLong = std::chrono::milliseconds(10);
  static constexpr uint64_t kFewest = 2;
  static constexpr double kAlike = 0.05;
  static constexpr double kClear = 0.2;
  static constexpr double kClearErrors = 4.0;
  static constexpr double kShareOfTrials = 0.01;
  static constexpr uint32_t kShortestKeeping = 64;
  static constexpr uint32_t kLongestKeeping = 1 << 14;
  // A difference is one from so many errors on.
  static constexpr double kErrors = 2.0;
  // What the host saves comes to the program if this much of it does, or if
  // that is so much of the whole.
  static constexpr double kShareThatComes = 0.25;
  static constexpr double kShareThatCounts = 0.02;

  struct Gain {
    double eager = 0;
    double gain = 0;  // of replay over eager
    double error = 0;
  };
  using Part = PassSamples::Part;

  Gain GainOf(Part part) const {
    const PassSamples::Median eager = eager_.MedianOf(part);
    const PassSamples::Median replay = replay_.MedianOf(part);
    // std::hypot would ask for a glibc of 2022.
    return {eager.value, eager.value - replay.value,
            std::sqrt(eager.error * eager.error + replay.error * replay.error)};
  }

  // In passes of the mode that was chosen.
  uint32_t LeastKeeping() const {
    const Gain whole = GainOf(&PassTime::whole);
    const double replay = whole.eager - whole.gain;
    const double kept = mode_ == Mode::kReplay ? replay : whole.eager;
    const double loss = mode_ == Mode::kReplay ? whole.gain : -whole.gain;
    if (kept <= 0 || loss <= 0) return 0;
    return static_cast<uint32_t>(std::min(kTrial * loss / kept / kShareOfTrials,
                                          double{kLongestKeeping}));
  }

  Duration Saving() const {
    if (eager_.count() == 0 || replay_.count() == 0) return Duration::zero();
    const Gain host = GainOf(&PassTime::host);
    const Gain whole = GainOf(&PassTime::whole);
    const bool agree =
        std::abs(whole.gain - host.gain) <= kErrors * whole.error;
    return Duration(static_cast<Duration::rep>(
        std::max(0.0, agree ? host.gain : whole.gain)));
  }

  // The first trials, or one of them, tell enough before they are over.
  bool Tells() const {
    if (keeping_ || finding_ != Finding::kUnknown) return false;
    const PassSamples& now = mode_ == Mode::kEager ? eager_ : replay_;
    const PassSamples& other = mode_ == Mode::kEager ? replay_ : eager_;
    if (other.count() > 0)
      return IsClear() && IsLong(GainOf(&PassTime::whole).eager);
    if (now.count() < kFewest) return false;
    const PassSamples::Median median = now.MedianOf(&PassTime::whole);
    return median.error < kAlike * median.value && IsLong(median.value);
  }
  static bool IsLong(double time) {
    return time >= static_cast<double>(kLong.count());
  }
  bool IsClear() const {
    if (std::min(eager_.count(), replay_.count()) < kFewest) return false;
    const Gain whole = GainOf(&PassTime::whole);
    const double gain = std::abs(whole.gain);
    return gain > kClear * whole.eager && gain > kClearErrors * whole.error;
  }

  void Advance(double margin) {
    if (keeping_) {  // time to try the other one
      mode_ = mode_ == Mode::kReplay ? Mode::kEager : Mode::kReplay;
      keeping_ = false;
      left_ = kTrial;
    } else if (std::min(replay_.count(), eager_.count()) < kEnough &&
               !IsClear()) {
      mode_ = replay_.count() < kEnough && replay_.count() <= eager_.count()
                  ? Mode::kReplay
                  : Mode::kEager;
      left_ = kTrial;
    } else {
      saving_ = Saving();
      finding_ = Judge(margin);
      mode_ = finding_ == Finding::kSaves ? Mode::kReplay : Mode::kEager;
      keeping_ = true;
      keep_for_ = std::clamp(LeastKeeping(), keep_for_, kLongestKeeping);
      left_ = keep_for_;
      keep_for_ = std::min(2 * keep_for_, kLongestKeeping);
    }
  }

  PassSamples eager_;
  PassSamples replay_;
  Mode last_ = Mode::kOther;
  Mode mode_ = Mode::kReplay;
  bool keeping_ = false;
  uint32_t left_ = 0;
  uint32_t keep_for_ = kShortestKeeping;
  Finding finding_ = Finding::kUnknown;
  Duration saving_{};
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_PROFIT_H_
