#include "bindings/torch/region_variants.h"

#include <algorithm>
#include <utility>

namespace reprise::bindings {

std::list<RegionVariants::Variant>::iterator RegionVariants::Find(
    const TapeInputs& inputs) {
  const auto found = std::ranges::find_if(
      variants_,
      [&inputs](const Variant& variant) { return variant.tape->Fits(inputs); });
  if (found != variants_.end() && found != variants_.begin()) {
    variants_.splice(variants_.begin(), variants_, found);
  }
  return found;
}

RegionVariants::Ran RegionVariants::Run(const TapeInputs& inputs) {
  Ran ran;
  if (!IsOrdinary(inputs.tensors)) return ran;
  std::shared_ptr<const Tape> tape;
  {
    const std::lock_guard lock(mutex_);
    ran.step = Step::kRecord;
    const auto variant = Find(inputs);
    if (variant == variants_.end() && fruitless_ >= kMostFruitless &&
        ++passed_ % kPassedARecording != 0) {
      ran.step = Step::kPassed;
    }
    if (variant == variants_.end() || !variant->trusted) return ran;
    if (always_ || (!never_ && variant->runs >= variant->until_sample)) {
      return ran;
    }
    ++variant->runs;
    ran.tape = variant->name;
    tape = variant->tape;
  }
  if (tape->Run(inputs, ran.outputs)) ran.step = Step::kDone;
  return ran;
}

bool RegionVariants::Begin(std::vector<at::Tensor> inputs,
                           std::vector<double> numbers,
                           std::vector<at::Tensor> holders) {
  const std::lock_guard lock(mutex_);
  if (recorder_ != nullptr) return false;
  const TapeInputs given{inputs, numbers};
  TapeRecorder::Parts parts{.level = level_};
  auto expected = Find(given);
  if (expected == variants_.end()) {
    expected = std::ranges::find_if(variants_, [&given](const Variant& other) {
      return other.tape->FitsNumbers(given) && other.tape->Resembles(given);
    });
  }
  expected_fits_ = expected != variants_.end();
  if (!expected_fits_) {
    expected = std::ranges::find_if(variants_, [&given](const Variant& other) {
      return other.tape->Resembles(given);
    });
  }
  expected_ = 0;
  if (expected != variants_.end()) {
    parts.expected = expected->tape;
    expected_ = expected->name;
  }
  parts.inputs = std::move(inputs);
  parts.numbers = std::move(numbers);
  parts.holders = std::move(holders);
  recorder_ = TapeRecorder::Begin(std::move(parts));
  return recorder_ != nullptr;
}

RegionVariants::Learned RegionVariants::End(
    const std::vector<at::Tensor>& outputs) {
  const std::lock_guard lock(mutex_);
  Learned learned;
  if (recorder_ == nullptr) return learned;
  TapeRecorder::Outcome outcome = recorder_->End(outputs);
  recorder_.reset();
  learned.reason = std::move(outcome.reason);
  learned.place = std::move(outcome.place);
  if (outcome.tracks_gradients) {
    level_ = TapeLevel::kAboveAutograd;
    variants_.clear();
    learned.verdict = Verdict::kAgain;
    return learned;
  }
  if (outcome.tape == nullptr) return learned;
  learned.calls = outcome.tape->calls();
  const auto expected = std::ranges::find(variants_, expected_, &Variant::name);
  if (outcome.as_expected && expected != variants_.end()) {
    learned.verdict = expected->trusted ? Verdict::kSame : Verdict::kTrusted;
    expected->tape = std::move(outcome.tape);
    if (expected->trusted) {
      expected->until_sample =
          std::min(2 * expected->until_sample, kSeldomSample);
    }
    expected->trusted = true;
    expected->runs = 0;
    differences_ = fruitless_ = 0;
    learned.tape = expected->name;
    return learned;
  }
  learned.verdict = Verdict::kSeen;
  ++fruitless_;
  if (expected == variants_.end() || !expected_fits_) {
    // What differs is a number, which no call explains.
    if (!learned.reason.empty() && ++differences_ > kMostDifferences) {
      learned.verdict = Verdict::kDiffers;
      return learned;
    }
    variants_.push_front({.tape = std::move(outcome.tape), .name = next_name_});
    if (variants_.size() > kMostTapes) variants_.pop_back();
    learned.tape = next_name_++;
    return learned;
  }
  if (expected->trusted) {
    variants_.clear();
    learned.verdict = Verdict::kWithdrawn;
    return learned;
  }
  if (++differences_ > kMostDifferences) learned.verdict = Verdict::kDiffers;
  expected->tape = std::move(outcome.tape);
  learned.tape = expected->name;
  return learned;
}

void RegionVariants::Abandon() {
  const std::lock_guard lock(mutex_);
  recorder_.reset();
}

void RegionVariants::SampleAlways() {
  const std::lock_guard lock(mutex_);
  always_ = true;
}

void RegionVariants::SampleNever() {
  const std::lock_guard lock(mutex_);
  never_ = true;
}

}  // namespace reprise::bindings
