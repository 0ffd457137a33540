// Ops that are others at each pass of a program.

#ifndef REPRISE_SCHEDULER_NOVELTY_H_
#define REPRISE_SCHEDULER_NOVELTY_H_

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "cache/recent_map.h"
#include "scheduler/first_pass.h"

namespace reprise::scheduler {

// Some ops never come in two passes: a text that grows by a word, an attribute
// that counts passes. No trace with such an op in it comes again, though all
// around it does. They are told by where they stand: behind a trace, a
// beginning of one or a cut behind which so many others have come that had
// never come before. From then on, what is new there belongs to no trace, nor
// does what is new right behind it, nor what is the same elsewhere in that
// pass.
//
// What comes in another pass is not new; but the first op of what was new stays
// out, so that traces begin behind it all the same, but for what follows. So
// does the rest of it where little was new until the stream came to that place
// again: what is between is the same whatever came, and has one plan instead of
// one for each (a text that is generated again, word by word). Where it goes
// on to other sizes altogether, all is new from a cut to the next or very much
// at once: it loses one pass, and nothing more is left out there. Forgets what
// was not met for longest. Single-thread. Cost: one or two hash look-ups an op.
class Novelty {
 public:
  // The op that is met next, by the hash of its words, and the signature of the
  // trace that is open, if one is. True if the op is new where things are new
  // each time: it is no part of that trace. `in_told_pass`: whoever tells of
  // the pass makes the calls of one that came before, so an op that came before
  // is new no more.
  bool Meet(uint64_t hash, std::optional<uint64_t> open = std::nullopt,
            bool in_told_pass = false) {
    const uint64_t place = open.value_or(behind_);
    const bool behind_out = std::exchange(last_is_out_, false);
    if (stretch_ == 0 && noted_[place % kBits]) EndCount(place);
    const auto [was_new, never_met] = known_.FindOrPut(hash);
    first_pass_.Met(never_met);
    if (!never_met) {
      last_is_new_ = false;
      Found* found = was_new ? found_.Find(hash) : nullptr;
      if (found != nullptr && in_told_pass) found->is_in = true;
      if (found == nullptr || found->is_in) return Go(false);
      const bool is_new = Go(MeetAgain(*found, place));
      last_is_out_ = is_new || StaysOut(*found, place, behind_out);
      return last_is_out_;
    }
    // Behind an op that never came, none has come before.
    const bool behind_new = std::exchange(last_is_new_, true);
    if (stretch_ == 0) {
      if (behind_new && (open.has_value() || first_pass_.most_was_new()))
        return Go(false);
      Place& here = places_.Put(place);
      if (here.parts_come || ++here.new_ones < kTimes) return Go(false);
      here.one_was_out = here.counts = true;
      here.before = count_;
      noted_.set(place % kBits);
      stretch_place_ = place;
      // In a trace it goes on to part what is before from what is behind.
      stretch_first_ = open.has_value() ? 0 : hash;
      stretch_behind_cut_ = !open.has_value() && behind_cut_;
    }
    if (stretch_ == kLongestStretch) {
      APartCameHere();
      ++pass_;
      return Go(false);
    }
    was_new = true;
    found_.Put(hash) = {
        .pass = pass_, .place = stretch_place_, .first = stretch_ == 0};
    last_is_out_ = true;
    return Go(true);
  }
  // A trace of so many ops has ended, by its signature.
  void TraceEnded(uint64_t signature, size_t ops = 0) {
    behind_ = signature;
    behind_cut_ = false;
    count_.in_traces += ops;
    first_pass_.TraceEnded(ops);
  }
  // A cut has passed, by the hash of its words.
  void CutPassed(uint64_t hash) {
    if (stretch_ > 0 && stretch_behind_cut_) APartCameHere();
    first_pass_.CutPassed();
    behind_ = hash;
    behind_cut_ = true;
    stretch_ = 0;
    last_is_out_ = false;
  }

  void Clear() {
    known_.Clear();
    found_.Clear();
    places_.Clear();
    count_ = {};
    noted_.reset();
    behind_ = 0;
    behind_cut_ = false;
    first_pass_ = {};
    ++pass_;
    stretch_ = 0;
    among_known_ = true;
    last_is_new_ = false;
    last_is_out_ = false;
  }

 private:
  // In which pass an op was found to be new, behind what its stretch began,
  // whether as the first of that, and how often elsewhere.
  struct Found {
    uint64_t pass = 0;
    uint64_t place = 0;
    bool first = false;
    uint32_t again = 0;
    // In other passes: how often it stayed out at its place, and since when, in
    // times that one did; that it is nothing but another op.
    uint32_t returns = 0;
    uint64_t since = 0;
    bool is_in = false;
  };
  struct Count {  // of ops
    size_t out = 0;
    size_t in_traces = 0;
  };
  struct Place {
    uint32_t new_ones = 0;
    bool parts_come = false;   // and nothing is left out here
    bool one_was_out = false;  // once, at least
    uint64_t times = 0;        // that one stayed out in another pass
    bool counts = false;       // since one was new here
    Count before;              // what came until then
    uint32_t little = 0;  // times that few were out until it came here again
    uint32_t much = 0;    // and that more were
  };
  static constexpr uint32_t kTimes = 4;
  // What comes back so often, one in some sixteen times, is one of a few:
  // sooner where only so many were ever new.
  static constexpr uint32_t kReturns = 16, kReturnsOfFew = 4;
  static constexpr uint32_t kFew = 16, kMostOfFew = 2 * kFew;
  static constexpr uint32_t kMostVotes = 64;
  // So many ops in traces for one that is new are many.
  static constexpr size_t kMany = 4;
  static constexpr uint32_t kMostPlaces = 6;
  // New ops in a row, of which some are the same, as those of layers are.
  static constexpr uint32_t kLongestStretch = 16;
  static constexpr uint32_t kLongStretch = 12;
  static constexpr size_t kMostKnown = size_t{1} << 14;
  static constexpr size_t kMostPlaced = size_t{1} << 12;
  static constexpr size_t kBits = 4096;

  // True if what was new elsewhere in this pass is so here. What was new in
  // this very place, or with nothing known in between, is so no more, nor all
  // that came with it: another pass has begun. So it has if it stands in all
  // too many places.
  bool MeetAgain(Found& found, uint64_t place) {
    if (found.pass != pass_) return false;
    const bool again = stretch_ == 0 && (found.place == place || !among_known_);
    if (!again && ++found.again < kMostPlaces) {
      if (stretch_ == 0) {
        places_.Put(place).one_was_out = true;
        stretch_place_ = place;
        stretch_first_ = 0;
        stretch_behind_cut_ = false;
      }
      return true;
    }
    if (stretch_ >= kLongStretch) APartCameHere();
    ++pass_;
    return false;
  }
  // What was new in another pass is so no more. As the first here it parts what
  // is before from what is behind; if there was little of it, all of it does.
  // One of a few that come in turn is in traces again, and what is behind it.
  bool StaysOut(Found& found, uint64_t place, bool behind_out) {
    const bool as_first = found.first && found.place == place;
    if (!as_first && !WasLittle(found)) return false;
    if (behind_out && !as_first) return true;
    Place* here = places_.Find(place);
    if (here == nullptr || here->parts_come) return false;
    if (!as_first && !here->one_was_out) return false;
    if (found.place != place) return true;  // that one tells
    found.is_in = IsOneOfAFew(found, *here);
    return !found.is_in;
  }
  static bool IsOneOfAFew(Found& found, Place& here) {
    const uint32_t enough =
        here.new_ones > kMostOfFew ? kReturns : kReturnsOfFew;
    const uint64_t times = ++here.times;
    if (found.returns++ == 0) found.since = times;
    if (found.returns < enough) return false;
    if (times - found.since <= uint64_t{enough} * kFew) return true;
    found.returns = 0;
    return false;
  }
  void EndCount(uint64_t place) {
    Place* here = places_.Find(place);
    if (here == nullptr || !std::exchange(here->counts, false)) return;
    const size_t out = count_.out - here->before.out;
    const size_t in_traces = count_.in_traces - here->before.in_traces;
    ++(in_traces >= kMany * out ? here->little : here->much);
    if (here->little + here->much < kMostVotes) return;
    here->little /= 2;
    here->much /= 2;
  }
  bool WasLittle(const Found& found) {
    const Place* place = places_.Find(found.place);
    return place != nullptr && place->little > 2 * place->much;
  }
  // All was new from a cut to the next, or very much at once: that is another
  // part of the program, not something in it that grows, and is left out once.
  void APartCameHere() {
    places_.Put(stretch_place_).parts_come = true;
    if (Found* found = found_.Find(stretch_first_)) found->first = false;
  }
  bool Go(bool is_new) {
    count_.out += is_new ? 1 : 0;
    stretch_ = is_new ? stretch_ + 1 : 0;
    among_known_ = !is_new;
    return is_new;
  }

  cache::RecentMap<bool> known_{kMostKnown};  // whether it was found to be new
  cache::RecentMap<Found> found_{kMostPlaced};
  cache::RecentMap<Place> places_{kMostPlaced};
  Count count_;
  std::bitset<kBits> noted_;  // places where one was new, by their low bits
  uint64_t behind_ = 0;
  bool behind_cut_ = false;  // and not a trace
  FirstPass first_pass_;
  uint64_t pass_ = 1;
  uint32_t stretch_ = 0;      // new ops in a row
  bool among_known_ = true;   // the last op was not new, or is not left out
  bool last_is_new_ = false;  // it never came before
  bool last_is_out_ = false;  // the last op is in no trace
  uint64_t stretch_place_ = 0;
  uint64_t stretch_first_ = 0;  // its first op
  bool stretch_behind_cut_ = false;
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_NOVELTY_H_
