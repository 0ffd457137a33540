// Where in its own source the program is when things are met.

#ifndef REPRISE_SCHEDULER_PLACES_H_
#define REPRISE_SCHEDULER_PLACES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "engine/trace/op.h"

namespace reprise::scheduler {

// The first few places of each cut, squash and head. Who is asked for them
// (Frontend::AskPlace) tells later, in the order of the questions, and may
// leave some without an answer.
//
// Under the session's lock. Cost of a thing that was met before: a look-up. Of
// what comes once kMostMet are known, no place is asked.
class Places {
 public:
  static constexpr size_t kMostMet = 2048;
  static constexpr size_t kMostEach = 4;

  Places() = default;
  // `ask` is called where something is met for the first time, with the number
  // of the question.
  explicit Places(std::function<void(uint64_t)> ask) : ask_(std::move(ask)) {}

  // --- What is met ---

  static std::string OfCut(engine::OpId op, std::string_view reason) {
    return "cut " + std::to_string(op) + " " + std::string(reason);
  }
  static std::string OfSquash(std::string_view signature, uint32_t op,
                              std::string_view found) {
    return "squash " + std::string(signature) + " " + std::to_string(op) + " " +
           std::string(found);
  }
  // Of traces, by the hash of their head's words.
  static std::string OfHead(uint64_t hash) {
    return "head " + std::to_string(hash);
  }

  // --- When ---

  // The cut comes behind a trace of that signature: one in each of a program's
  // lines, as a rule.
  void MeetCut(engine::OpId op, std::string_view reason, uint64_t behind) {
    const uint64_t words =
        Mix(Mix(op, std::hash<std::string_view>()(reason)), behind);
    if (IsNew(words)) Ask(OfCut(op, reason));
  }
  void MeetHead(uint64_t hash) {
    if (IsNew(Mix(hash, 1))) Ask(OfHead(hash));
  }
  void MeetSquash(std::string_view signature, uint32_t op,
                  std::string_view found) {
    std::string thing = OfSquash(signature, op, found);
    if (IsNew(std::hash<std::string>()(thing))) Ask(std::move(thing));
  }

  // What was asked before that question is answered no more.
  void Tell(uint64_t question, const std::string& place) {
    while (!asked_.empty() && first_ < question) {
      asked_.pop_front();
      ++first_;
    }
    if (asked_.empty() || first_ != question) return;
    std::vector<std::string>& known = places_[std::move(asked_.front())];
    asked_.pop_front();
    ++first_;
    if (!place.empty() && known.size() < kMostEach &&
        std::ranges::find(known, place) == known.end()) {
      known.push_back(place);
    }
  }

  // --- Where ---

  // The one that was met first is first.
  std::span<const std::string> Find(const std::string& thing) const {
    const auto found = places_.find(thing);
    if (found == places_.end()) return {};
    return found->second;
  }

  // Questions without an answer yet stay without one.
  void Clear() {
    met_.clear();
    first_ += asked_.size();
    asked_.clear();
    places_.clear();
  }

 private:
  static uint64_t Mix(uint64_t a, uint64_t b) {
    return (a ^ b) * 0x9E3779B97F4A7C15u ^ (b >> 29);
  }
  bool IsNew(uint64_t words) {
    return met_.size() < kMostMet && met_.insert(words).second;
  }
  void Ask(std::string thing) {
    asked_.push_back(std::move(thing));
    if (ask_) ask_(first_ + asked_.size() - 1);
  }

  std::function<void(uint64_t)> ask_;
  std::unordered_set<uint64_t> met_;
  std::deque<std::string> asked_;
  uint64_t first_ = 0;  // the question that asked_ begins with
  std::unordered_map<std::string, std::vector<std::string>> places_;
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_PLACES_H_
