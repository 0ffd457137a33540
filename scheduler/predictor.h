// Foresees which trace comes next.

#ifndef REPRISE_SCHEDULER_PREDICTOR_H_
#define REPRISE_SCHEDULER_PREDICTOR_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "scheduler/trace_entry.h"

namespace reprise::scheduler {

// By what came after the last few traces when they last came in this order;
// more of them tell more than fewer. Single-thread. Cost: a look-up a length
// and trace.
class Predictor {
 public:
  void Saw(TraceEntry* entry) {
    const Names names = ContextNames();
    if (next_.size() > kMostContexts) next_.clear();
    for (size_t length = 1; length <= known_; ++length) {
      next_[names[length]] = entry;
    }
    for (size_t i = kLongest - 1; i > 0; --i) last_[i] = last_[i - 1];
    last_[0] = entry;
    if (known_ < kLongest) ++known_;
  }

  // The stream was interrupted: what comes next follows on nothing.
  void Break() { known_ = 0; }

  // The trace that is due, if its head has those words; null if none is known.
  TraceEntry* Foresee(uint64_t head_hash) const {
    const Names names = ContextNames();
    for (size_t length = known_; length > 0; --length) {
      const auto found = next_.find(names[length]);
      if (found != next_.end() && found->second->head_hash == head_hash) {
        return found->second;
      }
    }
    return nullptr;
  }

  void Clear() {
    next_.clear();
    known_ = 0;
  }

 private:
  static constexpr size_t kLongest = 6;
  static constexpr size_t kMostContexts = 1 << 14;
  using Names = std::array<uint64_t, kLongest + 1>;

  // Of the last 1, 2, ... traces.
  Names ContextNames() const {
    Names names{};
    for (size_t length = 1; length <= known_; ++length) {
      uint64_t name =
          names[length - 1] ^ reinterpret_cast<uint64_t>(last_[length - 1]);
      name = (name + length) * 0x9E3779B97F4A7C15u;
      names[length] = name ^ name >> 29;
    }
    return names;
  }

  std::array<TraceEntry*, kLongest> last_{};  // the latest first
  size_t known_ = 0;                          // of them
  std::unordered_map<uint64_t, TraceEntry*> next_;
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_PREDICTOR_H_
