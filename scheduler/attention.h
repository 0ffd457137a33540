// Does it pay to watch a stream at all? Measured ops a second, watched or not.

#ifndef REPRISE_SCHEDULER_ATTENTION_H_
#define REPRISE_SCHEDULER_ATTENTION_H_

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace reprise::scheduler {

// Watching an op that is not replayed costs a tenth of a microsecond or more,
// and a program whose shapes depend on its data may never be replayed for the
// most part. Its stream is then let pass, unwatched, for longer and longer:
//
//   learn 1 s ─► measure 1 s ─► (it pays, as plans show, or may soon:
//        ▲            │            measure again)
//        │            ▼
//        │   let pass 1/2 s, compared with what was measured
//        │            │
//        └────────────┴─ 8, 16, … 64 s of whichever was faster
//
// While next to nothing comes that had come before there is nothing to measure:
// learning is a glance then, of 16 looks or 64 traces, and the stream is let
// pass for 15 times as long; each glance may be twice as long as the one
// before, for whatever repeats may be longer than that.
//
// Plans show that it pays where half of the ops are replayed, or where they
// save a twentieth of the time (Profit).
//
// While plans of what comes are made, proved or tried, or traces are about to
// be joined, nothing is judged: a long pass is a second or more of learning, at
// first and whenever it is learned anew (joined with another one, its memory
// replaced), and the plans that it had are gone meanwhile. So much time may
// pass like this: 7 s at first, as much again as plans have paid for, and a
// sixteenth of the time that it was let pass; 7 s at most.
//
// Time is taken over so many ops at a time (`kOps`); stretches that took four
// times the median are left out, because the program was away. Times are of a
// clock that stands still while nobody shows the stream's ops. Single-thread.
class Attention {
 public:
  using Clock = std::chrono::steady_clock;
  using Duration = Clock::duration;
  static constexpr uint64_t kOps = 1024;  // between two looks
  static constexpr Duration kLearn = std::chrono::seconds(1);
  static constexpr Duration kPatience = std::chrono::seconds(7);
  static constexpr Duration kMeasure = std::chrono::seconds(1);
  static constexpr Duration kTrial = std::chrono::milliseconds(500);
  static constexpr Duration kShortest = std::chrono::seconds(8);
  static constexpr Duration kLongest = std::chrono::seconds(64);
  static constexpr size_t kStretches = 16;  // at least, of each phase
  // Watching must be faster by this share.
  static constexpr double kMargin = 0.05;
  // Or plans must save one part in so many.
  static constexpr int kShareSaved = 20;
  // A stream comes again if one op in so many is of a trace that does; and may
  // pay soon if one is of a trace whose plan is made.
  static constexpr int kShareKnown = 16;
  // Patience comes back: one part in so many of the time that it was let pass.
  static constexpr int kShareOfRest = 16;
  static constexpr uint64_t kGlance = 16;  // looks
  static constexpr uint64_t kTracesALook = 4;
  static constexpr uint64_t kBackOff = 15;  // times the glance

  // Since ever.
  struct Seen {
    uint64_t replayed = 0;  // ops
    uint64_t traces = 0;
    uint64_t known = 0;  // ops of those that had come before
    // Ops of those that promise something (TraceEntry), or are about to be
    // joined.
    uint64_t promising = 0;
    Duration saved{};  // by replays
  };

  // kOps more ops have come.
  void Look(const Seen& seen, Clock::time_point now) {
    seen_ = seen;
    if (!begun_.has_value()) {
      Begin(Phase::kLearn, now);
      return;
    }
    stretches_.push_back(now - last_);
    last_ = now;
    const bool over = IsOver(now);
    if (phase_ == Phase::kLearn && (over || HasGlanced()) && !SeesKnown()) {
      back_off_ = kBackOff * stretches_.size();
      glance_ *= 2;
      Begin(Phase::kBackOff, now);
      return;
    }
    if (!over) return;
    switch (phase_) {
      case Phase::kLearn:
        Begin(Phase::kMeasure, now);
        break;
      case Phase::kMeasure:
        if (PlansPay(now)) {
          BePatient(now - *begun_);
          keep_for_ = kShortest;
          Begin(Phase::kMeasure, now);
          break;
        }
        if (MayPaySoon() && patience_ > Duration::zero()) {
          patience_ -= now - *begun_;
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
      case Phase::kRest:
        BePatient((now - *begun_) / kShareOfRest);
        [[fallthrough]];
      case Phase::kKeepWatching:
        keep_for_ = std::min(2 * keep_for_, kLongest);
        Begin(Phase::kLearn, now);
        break;
      case Phase::kBackOff:
        Begin(Phase::kLearn, now);
        break;
    }
  }

  // The stream is to be let pass.
  bool asleep() const {
    return phase_ == Phase::kTrial || phase_ == Phase::kRest || backs_off();
  }
  // Because nothing came that had come before.
  bool backs_off() const { return phase_ == Phase::kBackOff; }
  // How long kOps ops took at the last comparison. Zero before the first.
  Duration watched() const { return watched_; }
  Duration unwatched() const { return unwatched_; }

 private:
  enum class Phase : uint8_t {
    kLearn,
    kBackOff,
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
      case Phase::kBackOff:
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
    if (phase_ == Phase::kBackOff && stretches_.size() >= back_off_)
      return true;
    return now - *begun_ >= Length() && stretches_.size() >= kStretches;
  }
  bool HasGlanced() const {
    return stretches_.size() >= glance_ ||
           seen_.traces - at_begin_.traces >= kTracesALook * glance_;
  }
  bool SeesKnown() const {
    return kShareKnown * (seen_.known - at_begin_.known) >=
           kOps * stretches_.size();
  }
  // Or no pass has come to its end.
  bool MayPaySoon() const {
    return seen_.traces == at_begin_.traces ||
           kShareKnown * (seen_.promising - at_begin_.promising) >=
               kOps * stretches_.size();
  }
  void BePatient(Duration longer) {
    patience_ = std::min(patience_ + longer, kPatience);
  }
  bool PlansPay(Clock::time_point now) const {
    return 2 * (seen_.replayed - at_begin_.replayed) >
               kOps * stretches_.size() ||
           kShareSaved * (seen_.saved - at_begin_.saved) > now - *begun_;
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

  bool Pays() const {
    return static_cast<double>(watched_.count()) <
           static_cast<double>(unwatched_.count()) * (1.0 - kMargin);
  }

  Phase phase_ = Phase::kLearn;
  std::optional<Clock::time_point> begun_;  // nothing before the first look
  Clock::time_point last_;
  Seen seen_;
  Seen at_begin_;  // of the phase
  std::vector<Duration> stretches_;
  Duration watched_{};
  Duration unwatched_{};
  Duration keep_for_ = kShortest;
  Duration patience_ = kPatience;  // so much is left of it
  uint64_t glance_ = kGlance;      // looks, at most
  uint64_t back_off_ = 0;          // looks
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_ATTENTION_H_
