#include "bindings/torch/region/tape_stretches.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace reprise::bindings {
namespace {

constexpr size_t kMostInOnePlace = 16;
constexpr size_t kMostTried = 32;
constexpr uint64_t kPause = 3;     // runs between two that learn something
constexpr uint64_t kSeldom = 255;  // where nothing new is to be learned

}  // namespace

TapeStretches::Start TapeStretches::Begin() {
  const std::lock_guard lock(mutex_);
  ++runs_;
  const uint64_t pause = missed_ ? pause_ : std::max(pause_, kSeldom);
  if (runs_ >= learned_at_ + pause) return {.learns = true, .known = nullptr};
  return {.learns = false, .known = all_};
}

void TapeStretches::Note(TapeStretchList learned, const Outcome& outcome) {
  const std::lock_guard lock(mutex_);
  // Others are shown now: there is another plan, perhaps.
  missed_ |= outcome.missed || outcome.shown >= shown_ + kFewestOpsOfStretch;
  if (!outcome.has_learned) return;
  missed_ = all_ == nullptr && learned.empty();
  shown_ = outcome.shown;
  learned_at_ = runs_;
  TapeStretchList all;
  if (all_ != nullptr) {
    std::ranges::copy_if(*all_, std::back_inserter(all), [](const auto& one) {
      return !one->program.expired();
    });
  }
  bool new_ones = false;
  for (std::shared_ptr<const TapeStretch>& one : learned) {
    const auto same = std::ranges::find_if(all, [&one](const auto& other) {
      return other->first_call == one->first_call &&
             other->first_op == one->first_op && other->thread == one->thread &&
             other->program.lock() == one->program.lock();
    });
    if (same != all.end()) {
      if ((*same)->calls.size() >= one->calls.size()) continue;
      all.erase(same);
    }
    new_ones = true;
    const auto [begin, end] = std::ranges::equal_range(
        all, one->first_call, {},
        [](const auto& other) { return other->first_call; });
    if (static_cast<size_t>(end - begin) >= kMostInOnePlace) {
      all.erase(std::prev(end));  // the oldest
      all.insert(std::ranges::lower_bound(
                     all, one->first_call, {},
                     [](const auto& other) { return other->first_call; }),
                 std::move(one));
    } else {
      all.insert(begin, std::move(one));
    }
  }
  // Odd, so that it is not always the same plan of two in turn.
  pause_ = new_ones ? kPause : std::min(2 * pause_ + 1, kSeldom);
  if (!all.empty())
    all_ = std::make_shared<const TapeStretchList>(std::move(all));
}

bool TapeStretches::Tries(size_t call,
                          const std::weak_ptr<const engine::Program>& program) {
  const std::lock_guard lock(mutex_);
  const auto is_it = [&](const Tried& other) {
    return other.call == call && !other.program.owner_before(program) &&
           !program.owner_before(other.program);
  };
  if (runs_ < learned_at_ + kPause || std::ranges::any_of(tried_, is_it)) {
    return false;
  }
  if (tried_.size() == kMostTried) tried_.erase(tried_.begin());
  tried_.push_back({call, program});
  return true;
}

}  // namespace reprise::bindings
