#include "bindings/torch/region/region_variants.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "bindings/torch/region/tape_run.h"

namespace reprise::bindings {

RegionVariants::Ran RegionVariants::Run(const TapeInputs& inputs,
                                        const Tape* held) {
  Ran ran;
  if (!IsOrdinary(inputs.tensors)) return ran;
  ran.step = Step::kRecord;
  std::vector<Variant> fitting;  // that was used last comes first
  {
    const std::lock_guard lock(mutex_);
    std::ranges::copy_if(
        variants_, std::back_inserter(fitting),
        [&inputs](const Variant& each) { return each.tape->Fits(inputs); });
    if (fitting.empty() && fruitless_ >= kMostFruitless &&
        ++passed_ % kPassedARecording != 0) {
      ran.step = Step::kPassed;
    }
    std::erase_if(fitting, [](const Variant& each) { return !each.trusted; });
    if (always_) return ran;
  }
  for (const Variant& variant : fitting) {
    if (!never_ && variant.runs >= variant.until_sample) return ran;
    switch (RunTape(*variant.tape, inputs, ran.outputs, variant.stretches.get(),
                    variant.tape.get() == held)) {
      case TapeRan::kOther:
        continue;
      case TapeRan::kGone:
        return ran;
      case TapeRan::kRaised:
        ran.step = Step::kRaised;
        return ran;
      case TapeRan::kDone:
        ran.step = Step::kDone;
        ran.tape = variant.name;
        ran.histories = variant.histories;
        NoteRun(variant.name);
        return ran;
    }
  }
  return ran;
}

std::shared_ptr<const Tape> RegionVariants::RunLast() const {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  return lock.owns_lock() && !variants_.empty() ? variants_.front().tape
                                                : nullptr;
}

void RegionVariants::NoteRun(int64_t name) {
  const std::lock_guard lock(mutex_);
  const auto variant = std::ranges::find(variants_, name, &Variant::name);
  if (variant == variants_.end()) return;
  ++variant->runs;
  variants_.splice(variants_.begin(), variants_, variant);
}

void RegionVariants::KeepHistory(int64_t tape,
                                 std::shared_ptr<RegionHistory> history) {
  const std::lock_guard lock(mutex_);
  const auto variant = std::ranges::find(variants_, tape, &Variant::name);
  if (variant != variants_.end()) {
    variant->histories.push_back(std::move(history));
  }
}

bool RegionVariants::Begin(std::vector<at::Tensor> inputs,
                           std::vector<double> numbers,
                           std::vector<at::Tensor> watched, int64_t owner) {
  const std::lock_guard lock(mutex_);
  if (recorder_ != nullptr) return false;
  const TapeInputs given{inputs, numbers};
  TapeRecorder::Parts parts{.level = level_, .pass = pass_};
  expected_.clear();
  const auto expect = [&](auto fits) {
    ptrdiff_t known = 0;
    for (const Variant& variant : variants_) {
      if (!fits(*variant.tape)) continue;
      // One whose arithmetic is known explains more than one that is newer.
      const ptrdiff_t at = variant.tape->knows_arithmetic()
                               ? known++
                               : std::ssize(parts.expected);
      parts.expected.insert(parts.expected.begin() + at, variant.tape);
      expected_.insert(expected_.begin() + at, variant.name);
    }
    return !expected_.empty();
  };
  expected_fits_ = expect([&](const Tape& tape) { return tape.Fits(given); }) ||
                   expect([&](const Tape& tape) {
                     return tape.FitsNumbers(given) && tape.Resembles(given) &&
                            (!tape.computes() || tape.Compute(given));
                   });
  if (!expected_fits_) {
    expect([&](const Tape& tape) { return tape.Resembles(given); });
  }
  parts.inputs = std::move(inputs);
  parts.numbers = std::move(numbers);
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
    variants_.clear();
    learned.verdict = Verdict::kAgain;
    return learned;
  }
  if (outcome.tape == nullptr) return learned;
  learned.calls = outcome.tape->calls();
  if (outcome.tape->reads_contents()) reads_contents_ = true;
  learned.calls_others = outcome.tape->calls_others();
  const auto expected = std::ranges::find(
      variants_, expected_.empty() ? 0 : expected_[outcome.expected],
      &Variant::name);
  if (outcome.as_expected && expected != variants_.end()) {
    Confirm(*expected, std::move(outcome.tape), learned);
    return learned;
  }
  learned.verdict = Verdict::kSeen;
  ++fruitless_;
  if (expected == variants_.end() || !expected_fits_ || outcome.read_another) {
    Keep(std::move(outcome.tape), learned);
  } else {
    Doubt(*expected, std::move(outcome.tape), learned);
  }
  return learned;
}

void RegionVariants::Confirm(Variant& variant, std::shared_ptr<const Tape> tape,
                             Learned& learned) {
  learned.tape = variant.name;
  variant.tape = std::move(tape);
  if (!variant.tape->has_both_floats()) {
    learned.verdict = Verdict::kSeen;
    return;
  }
  learned.verdict = variant.trusted ? Verdict::kSame : Verdict::kTrusted;
  variant.stretches = std::make_shared<TapeStretches>();
  if (variant.trusted) {
    variant.until_sample = std::min(2 * variant.until_sample, kSeldomSample);
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
  variants_.push_front({.tape = std::move(tape), .name = next_name_});
  if (variants_.size() > kMostTapes) variants_.pop_back();
  learned.tape = next_name_++;
}

void RegionVariants::Doubt(Variant& variant, std::shared_ptr<const Tape> tape,
                           Learned& learned) {
  if (variant.trusted) {
    variants_.clear();
    learned.verdict = Verdict::kWithdrawn;
    return;
  }
  if (++differences_ > kMostDifferences) learned.verdict = Verdict::kDiffers;
  variant.tape = std::move(tape);
  learned.tape = variant.name;
}

void RegionVariants::Abandon(int64_t owner) {
  const std::lock_guard lock(mutex_);
  if (owner_ == owner) recorder_.reset();
}

void RegionVariants::SampleAlways() { always_ = true; }

void RegionVariants::SampleNever() { never_ = true; }

}  // namespace reprise::bindings
