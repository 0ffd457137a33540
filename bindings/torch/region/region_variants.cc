#include "bindings/torch/region/region_variants.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "bindings/torch/region/tape_run.h"

namespace reprise::bindings {

RegionVariants::Ran RegionVariants::Run(const TapeInputs& inputs,
                                        const Tape* held) {
  Ran ran;
  if (!IsOrdinary(inputs.tensors)) return ran;
  ran.step = Step::kRecord;
  std::vector<CachedTape> fitting;  // that was used last comes first
  {
    const std::lock_guard lock(mutex_);
    tapes_.ForEach(inputs.tensors, [&](const CachedTape& each) {
      if (each.tape->Fits(inputs)) fitting.push_back(each);
    });
    std::ranges::sort(fitting, std::greater(), &CachedTape::used);
    const bool fruitless = fitting.empty() && fruitless_ >= kMostFruitless;
    const bool in_vain =
        !fitting.empty() && in_vain_ > kMostInVain * fitting[0].tape->calls();
    if ((fruitless || in_vain) && ++passed_ % kPassedARecording != 0) {
      ran.step = Step::kPassed;
      if (in_vain) fitting.clear();
    }
    std::erase_if(fitting,
                  [](const CachedTape& each) { return !each.trusted; });
    if (always_) return ran;
  }
  RunOne(fitting, inputs, held, ran);
  return ran;
}

void RegionVariants::RunOne(const std::vector<CachedTape>& fitting,
                            const TapeInputs& inputs, const Tape* held,
                            Ran& ran) {
  TapeRuns runs(inputs);
  for (const CachedTape& variant : fitting) {
    if (!never_ && variant.runs >= variant.until_sample) return;
    if (runs.RulesOut(*variant.tape)) continue;
    switch (runs.Run(*variant.tape, ran.outputs, variant.stretches.get(),
                     variant.tape.get() == held)) {
      case TapeRan::kOther:
        continue;
      case TapeRan::kGone:
        return;
      case TapeRan::kRaised:
        ran.step = Step::kRaised;
        return;
      case TapeRan::kDone:
        ran.step = Step::kDone;
        ran.tape = variant.name;
        ran.histories = variant.histories;
        NoteRun(variant.name, runs.in_vain());
        return;
    }
  }
  if (runs.in_vain() > 0) {
    NoteNoRun(fitting[0].tape->calls(), runs.in_vain());
  }
}

std::shared_ptr<const Tape> RegionVariants::RunLast() const {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  return lock.owns_lock() ? tapes_.last() : nullptr;
}

uint64_t RegionVariants::uses() const {
  const std::lock_guard lock(mutex_);
  return tapes_.uses();
}

void RegionVariants::NoteRun(int64_t name, size_t in_vain) {
  const std::lock_guard lock(mutex_);
  CachedTape* const variant = tapes_.Find(name);
  if (variant == nullptr) return;
  const size_t all = in_vain_ + in_vain;
  in_vain_ = all - std::min(all, variant->tape->calls());
  ++variant->runs;
  tapes_.NoteRun(*variant);
}

void RegionVariants::NoteNoRun(size_t calls, size_t in_vain) {
  const std::lock_guard lock(mutex_);
  // Not so many that it takes long to make up for them.
  in_vain_ = std::min(in_vain_ + in_vain + kRunsOfARecording * calls,
                      (kMostInVain + 2 * kRunsOfARecording) * calls);
}

void RegionVariants::KeepHistory(int64_t tape,
                                 std::shared_ptr<RegionHistory> history) {
  const std::lock_guard lock(mutex_);
  CachedTape* const variant = tapes_.Find(tape);
  if (variant != nullptr) {
    variant->histories.push_back(std::move(history));
  }
}

bool RegionVariants::Begin(std::vector<at::Tensor> inputs,
                           std::vector<double> numbers,
                           std::vector<at::Tensor> watched, int64_t owner,
                           size_t seen) {
  const std::lock_guard lock(mutex_);
  if (recorder_ != nullptr) return false;
  const TapeInputs given{inputs, numbers};
  TapeRecorder::Parts parts{.level = level_, .pass = pass_};
  expected_.clear();
  std::vector<const CachedTape*> all;
  tapes_.ForEach(inputs, [&](const CachedTape& each) { all.push_back(&each); });
  std::ranges::sort(all, std::greater(), &CachedTape::used);
  const auto expect = [&](auto fits) {
    const auto first = std::ssize(expected_);
    ptrdiff_t known = 0;
    for (const CachedTape* const variant : all) {
      if (!fits(*variant->tape) ||
          std::ranges::find(expected_, variant->name) != expected_.end()) {
        continue;
      }
      // One whose arithmetic is known explains more than one that is newer.
      const ptrdiff_t at = variant->tape->knows_arithmetic()
                               ? first + known++
                               : std::ssize(parts.expected);
      parts.expected.insert(parts.expected.begin() + at, variant->tape);
      expected_.insert(expected_.begin() + at, variant->name);
    }
    return !expected_.empty();
  };
  if (!expect([&](const Tape& tape) { return tape.Fits(given); })) {
    expect([&](const Tape& tape) {
      return tape.FitsNumbers(given) && tape.Resembles(given) &&
             (!tape.computes() || tape.Compute(given));
    });
  }
  fitting_ = expected_.size();
  // Other numbers may vary. Behind those that fit, where Python reads another
  // value than they say.
  expect([&](const Tape& tape) { return tape.Resembles(given); });
  parts.inputs = std::move(inputs);
  parts.numbers = std::move(numbers);
  parts.seen = seen;
  parts.watched = std::move(watched);
  recorder_ = TapeRecorder::Begin(std::move(parts));
  owner_ = owner;
  return recorder_ != nullptr;
}

void RegionVariants::NoteArithmetic(std::vector<NumberNode> nodes,
                                    std::vector<double> values) {
  const std::lock_guard lock(mutex_);
  if (recorder_ == nullptr) return;
  recorder_->NoteArithmetic(std::move(nodes), std::move(values));
}

RegionVariants::Learned RegionVariants::End(
    const std::vector<at::Tensor>& outputs, const std::vector<bool>& computed,
    size_t saved_from) {
  const std::lock_guard lock(mutex_);
  Learned learned;
  if (recorder_ == nullptr) return learned;
  TapeRecorder::Outcome outcome = recorder_->End(outputs, computed, saved_from);
  recorder_.reset();
  learned.reason = std::move(outcome.reason);
  learned.place = std::move(outcome.place);
  learned.draws = outcome.draws;
  learned.writes_outside = outcome.writes_outside;
  learned.written = std::move(outcome.written);
  learned.saved = std::move(outcome.saved);
  learned.no_forward_pass = std::move(outcome.no_forward_pass);
  if (outcome.tracks_gradients) {
    level_ = TapeLevel::kAboveAutograd;
    tapes_.Clear();
    learned.dropped = tapes_.TakeDropped();
    learned.verdict = Verdict::kAgain;
    return learned;
  }
  if (outcome.tape == nullptr) return learned;
  learned.calls = outcome.tape->calls();
  learned.reads = outcome.tape->values_read();
  if (outcome.tape->reads_contents()) reads_contents_ = true;
  learned.calls_others = outcome.tape->calls_others();
  CachedTape* const expected =
      expected_.empty() ? nullptr : tapes_.Find(expected_[outcome.expected]);
  if (outcome.as_expected && expected != nullptr) {
    Confirm(*expected, std::move(outcome.tape), learned);
    return learned;
  }
  learned.verdict = Verdict::kSeen;
  ++fruitless_;
  if (expected == nullptr || outcome.expected >= fitting_ ||
      outcome.read_another) {
    Keep(std::move(outcome.tape), learned);
  } else {
    Doubt(*expected, std::move(outcome.tape), learned);
  }
  learned.dropped = tapes_.TakeDropped();
  return learned;
}

void RegionVariants::Confirm(CachedTape& variant,
                             std::shared_ptr<const Tape> tape,
                             Learned& learned) {
  learned.tape = variant.name;
  tapes_.Replace(variant, std::move(tape));
  tapes_.NoteUse(variant);
  if (!variant.tape->has_both_floats()) {
    learned.verdict = Verdict::kSeen;
    return;
  }
  learned.verdict = variant.trusted ? Verdict::kSame : Verdict::kTrusted;
  variant.stretches = std::make_shared<TapeStretches>();
  if (variant.trusted) {
    variant.until_sample = std::min(2 * variant.until_sample, kSeldomSample);
  } else {  // its two recordings were of use
    in_vain_ -=
        std::min(in_vain_, 2 * kRunsOfARecording * variant.tape->calls());
  }
  variant.trusted = true;
  variant.runs = 0;
  differences_ = fruitless_ = 0;
}

void RegionVariants::Keep(std::shared_ptr<const Tape> tape, Learned& learned) {
  // What differs is a number that no call explains, or what Python reads.
  if (!learned.reason.empty() && ++differences_ > kMostDifferences) {
    learned.verdict = Verdict::kDiffers;
    return;
  }
  const TapeCache::Added added = tapes_.Add(std::move(tape));
  added.tape->until_sample = kFirstSample;
  learned.tape = added.tape->name;
  // There is no room for all: what is new is recorded seldom.
  if (added.dropped) fruitless_ = kMostFruitless;
}

void RegionVariants::Doubt(CachedTape& variant,
                           std::shared_ptr<const Tape> tape, Learned& learned) {
  if (variant.trusted) {
    tapes_.Clear();
    learned.verdict = Verdict::kWithdrawn;
    return;
  }
  if (++differences_ > kMostDifferences) learned.verdict = Verdict::kDiffers;
  tapes_.Replace(variant, std::move(tape));
  learned.tape = variant.name;
}

void RegionVariants::Abandon(int64_t owner) {
  const std::lock_guard lock(mutex_);
  if (owner_ == owner) recorder_.reset();
}

void RegionVariants::SampleAlways() { always_ = true; }

void RegionVariants::SampleNever() { never_ = true; }

}  // namespace reprise::bindings
