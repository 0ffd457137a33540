// Does it pay to watch a stream at all? Measured ops a second, watched or not.

#ifndef REPRISE_SCHEDULER_ATTENTION_H_
#define REPRISE_SCHEDULER_ATTENTION_H_

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace reprise::scheduler {

// Watching an op that is not replayed costs a tenth of a microsecond or more,
// and a program whose shapes depend on its data may never be replayed for the
// most part. Its stream is then let pass, unwatched, for longer and longer:
//
//   learn 1 s ─► measure 1 s ─► (it pays, as plans show: measure again)
//        ▲                        │
//        │                        ▼
//        │                  let pass 1/2 s, compared with what was measured
//        │                        │
//        └── 8, 16, … 64 s ◄──────┴─ of whichever was faster
//
// While next to nothing comes that had come before there is nothing to measure:
// learning is a glance then, of 16 looks or 64 traces, and the stream is let
// pass for 15 times as long; each glance may be twice as long as the one
// before, for whatever repeats may be longer than that.
//
// Plans show that it pays where half of the ops are replayed, or where they
// save a twentieth of the time (Profit).
//
// At first, learning goes on for as long as plans are made, proved or tried,
// within 8 s: long passes take long to be learned, and say nothing before.
//
// Time is taken over so many ops at a time (`kOps`); stretches that took four
// times the median are left out, because the program was away. Single-thread.
class Attention {
 public:
  using Clock = std::chrono::steady_clock;
  using Duration = Clock::duration;
  static constexpr uint64_t kOps = 1024;  // between two looks
  static constexpr Duration kLearn = std::chrono::seconds(1);
  static constexpr Duration kLongestLearn = std::chrono::seconds(8);
  static constexpr Duration kMeasure = std::chrono::seconds(1);
  static constexpr Duration kTrial = std::chrono::milliseconds(500);
  static constexpr Duration kShortest = std::chrono::seconds(8);
  static constexpr Duration kLongest = std::chrono::seconds(64);
  static constexpr size_t kStretches = 16;  // at least, of each phase
  // A plan is made of two passes, and these may be of thousands of ops.
  static constexpr uint64_t kLooksToLearn = 32;
  // Watching must be faster by this share.
  static constexpr double kMargin = 0.05;
  // Or plans must save one part in so many.
  static constexpr int kShareSaved = 20;
  // A stream comes again if one op in so many is of a trace that does.
  static constexpr int kShareKnown = 16;
  static constexpr uint64_t kGlance = 16;  // looks
  static constexpr uint64_t kTracesALook = 4;
  static constexpr uint64_t kDoze = 15;  // times the glance

  // Since ever.
  struct Seen {
    uint64_t replayed = 0;  // ops
    uint64_t traces = 0;
    uint64_t known = 0;  // ops of those that had come before
    uint64_t learned =
        0;             // recordings, plans made of them, passes that proved one
    Duration saved{};  // by replays
    // While it begins: some plans are there of which it is not known whether
    // they pay.
    bool undecided = false;
  };

  // kOps more ops have come.
  void Look(const Seen& seen, Clock::time_point now) {
    if (seen.learned != seen_.learned) {
      taught_ = now;
      taught_at_ = looks_;
    }
    seen_ = seen;
    if (looks_++ == 0) {
      Begin(Phase::kLearn, now);
      return;
    }
    stretches_.push_back(now - last_);
    last_ = now;
    const bool over = IsOver(now);
    if (phase_ == Phase::kLearn && (over || HasGlanced()) && !SeesKnown()) {
      doze_ = kDoze * stretches_.size();
      glance_ *= 2;
      Begin(Phase::kDoze, now);
      return;
    }
    if (!over) return;
    switch (phase_) {
      case Phase::kLearn:
        if (GoesOnLearning(now)) return;
        Begin(Phase::kMeasure, now);
        break;
      case Phase::kMeasure:
        if (PlansPay(now)) {
          Begin(Phase::kMeasure, now);
          break;
        }
        watched_ = Typical();
        Begin(Phase::kTrial, now);
        break;
      case Phase::kTrial:
        unwatched_ = Typical();
        Begin(Pays() ? Phase::kKeepWatching : Phase::kRest, now);
        break;
      case Phase::kKeepWatching:
      case Phase::kRest:
        keep_for_ = std::min(2 * keep_for_, kLongest);
        Begin(Phase::kLearn, now);
        break;
      case Phase::kDoze:
        Begin(Phase::kLearn, now);
        break;
    }
  }

  // It learns for the first time.
  bool begins() const {
    return phase_ == Phase::kLearn && unwatched_ == Duration{};
  }
  // The stream is to be let pass.
  bool asleep() const {
    return phase_ == Phase::kTrial || phase_ == Phase::kRest || dozes();
  }
  // Because nothing came that had come before.
  bool dozes() const { return phase_ == Phase::kDoze; }
  // How long kOps ops took at the last comparison. Zero before the first.
  Duration watched() const { return watched_; }
  Duration unwatched() const { return unwatched_; }

 private:
  enum class Phase : uint8_t {
    kLearn,
    kDoze,
    kMeasure,
    kTrial,
    kKeepWatching,
    kRest
  };

  Duration Length() const {
    switch (phase_) {
      case Phase::kLearn:
        return kLearn;
      case Phase::kMeasure:
        return kMeasure;
      case Phase::kTrial:
        return kTrial;
      case Phase::kKeepWatching:
      case Phase::kRest:
        return keep_for_;
      case Phase::kDoze:
        return kLongest;
    }
    return {};
  }

  void Begin(Phase phase, Clock::time_point now) {
    phase_ = phase;
    begun_ = last_ = now;
    at_begin_ = seen_;
    stretches_.clear();
  }

  // In this phase, as all of these.
  bool IsOver(Clock::time_point now) const {
    if (phase_ == Phase::kDoze && stretches_.size() >= doze_) return true;
    return now - begun_ >= Length() && stretches_.size() >= kStretches;
  }
  bool HasGlanced() const {
    return stretches_.size() >= glance_ ||
           seen_.traces - at_begin_.traces >= kTracesALook * glance_;
  }
  bool SeesKnown() const {
    return kShareKnown * (seen_.known - at_begin_.known) >=
           kOps * stretches_.size();
  }
  bool PlansPay(Clock::time_point now) const {
    return 2 * (seen_.replayed - at_begin_.replayed) >
               kOps * stretches_.size() ||
           kShareSaved * (seen_.saved - at_begin_.saved) > now - begun_;
  }

  Duration Typical() {
    const auto middle =
        stretches_.begin() + static_cast<ptrdiff_t>(stretches_.size() / 2);
    std::nth_element(stretches_.begin(), middle, stretches_.end());
    const Duration most = 4 * *middle;
    Duration sum{};
    int count = 0;
    for (const Duration stretch : stretches_) {
      if (stretch > most) continue;
      sum += stretch;
      ++count;
    }
    return sum / count;
  }

  bool GoesOnLearning(Clock::time_point now) const {
    return begins() && now - begun_ < kLongestLearn &&
           (now - taught_ < kLearn || looks_ - taught_at_ < kLooksToLearn ||
            seen_.undecided);
  }

  bool Pays() const {
    return static_cast<double>(watched_.count()) <
           static_cast<double>(unwatched_.count()) * (1.0 - kMargin);
  }

  Phase phase_ = Phase::kLearn;
  Clock::time_point begun_;
  Clock::time_point last_;
  Seen seen_;
  Seen at_begin_;  // of the phase
  uint64_t looks_ = 0;
  Clock::time_point taught_;
  uint64_t taught_at_ = 0;  // the look
  std::vector<Duration> stretches_;
  Duration watched_{};
  Duration unwatched_{};
  Duration keep_for_ = kShortest;
  uint64_t glance_ = kGlance;  // looks, at most
  uint64_t doze_ = 0;          // looks
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_ATTENTION_H_
