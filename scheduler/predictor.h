// Foresees which trace comes next.

#ifndef REPRISE_SCHEDULER_PREDICTOR_H_
#define REPRISE_SCHEDULER_PREDICTOR_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "cache/lru_map.h"
#include "scheduler/trace_entry.h"

namespace reprise::scheduler {

// By what came after the last few traces when they last came in this order;
// more of them tell more than fewer. Two parts of a pass may go the same way
// for long: two networks of one form, each behind the loss that the other one
// gave. Keeps ids of traces, which may have been forgotten since.
// Single-thread. Cost: a look-up a length and trace.
class Predictor {
 public:
  void Saw(const TraceEntry& entry) {
    for (size_t i = 0; i < kLengths.size() && kLengths[i] <= known_; ++i) {
      next_.Put(names_[i]) = {entry.id, entry.head_hash};
    }
    std::shift_right(last_.begin(), last_.end(), 1);
    last_[0] = entry.id;
    if (known_ < last_.size()) ++known_;
    NameContexts();
  }

  // The stream was interrupted, which counts as what came last.
  void Break() {
    last_[0] = TraceId::kNone;
    known_ = 1;
    NameContexts();
  }

  // The trace that is due, if its head has those words; kNone if none is known.
  TraceId Foresee(uint64_t head_hash) const {
    for (size_t i = kLengths.size(); i-- > 0;) {
      if (kLengths[i] > known_) continue;
      const Next* next = next_.Peek(names_[i]);
      if (next != nullptr && next->head_hash == head_hash) return next->trace;
    }
    return TraceId::kNone;
  }

  void Clear() {
    next_.Clear();
    known_ = 0;
  }

 private:
  // Of contexts, in traces.
  static constexpr std::array<size_t, 7> kLengths = {1, 2, 3, 4, 6, 10, 16};
  static constexpr size_t kMostContexts = 1 << 14;
  struct Next {
    TraceId trace = TraceId::kNone;
    uint64_t head_hash = 0;
  };

  void NameContexts() {
    uint64_t name = 0;
    for (size_t length = 1, i = 0; length <= known_; ++length) {
      name ^= static_cast<uint64_t>(last_[length - 1]);
      name = (name + length) * 0x9E3779B97F4A7C15u;
      name ^= name >> 29;
      if (length == kLengths[i]) names_[i++] = name;
    }
  }

  std::array<TraceId, kLengths.back()> last_{};  // the latest first
  size_t known_ = 0;                             // of them
  // Of contexts of each length that is known.
  std::array<uint64_t, kLengths.size()> names_{};
  cache::LruMap<uint64_t, Next> next_{kMostContexts};
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_PREDICTOR_H_
