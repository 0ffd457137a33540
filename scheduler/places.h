// Where in its own source the program was when things were met.

#ifndef REPRISE_SCHEDULER_PLACES_H_
#define REPRISE_SCHEDULER_PLACES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/trace/op.h"

namespace reprise::scheduler {

// The first place of each cut, squash and head. The frontend knows it
// (Frontend::Place), and must not be asked under the session's lock:
//
//   Ask, under the lock ─► asks() ─► unlock, Frontend::Place, lock ─► Tell
//
// Under the session's lock. Of what is asked for once kMost places are known,
// none is kept.
class Places {
 public:
  static constexpr size_t kMost = 1024;

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

  // It was met at the stream's `op`-th op.
  void Ask(std::string thing, uint64_t op) {
    if (places_.size() >= kMost || places_.contains(thing)) return;
    if (asked_at_ != op) asked_.clear();
    asked_at_ = op;
    asked_.push_back(std::move(thing));
  }
  // Something was met at that op, and nobody has told where.
  bool asks(uint64_t op) const { return !asked_.empty() && asked_at_ == op; }
  // Of all that was asked for last.
  void Tell(const std::string& place) {
    for (std::string& thing : asked_) places_.emplace(std::move(thing), place);
    asked_.clear();
  }

  // Empty where it is not known.
  std::string_view Find(const std::string& thing) const {
    const auto found = places_.find(thing);
    return found == places_.end() ? std::string_view() : found->second;
  }

  void Clear() {
    asked_.clear();
    places_.clear();
  }

 private:
  std::vector<std::string> asked_;
  uint64_t asked_at_ = 0;
  std::unordered_map<std::string, std::string> places_;
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_PLACES_H_
