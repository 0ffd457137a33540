// Foresees which trace comes next.

#ifndef REPRISE_SCHEDULER_PREDICTOR_H_
#define REPRISE_SCHEDULER_PREDICTOR_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "cache/lru_map.h"
#include "scheduler/trace_entry.h"

namespace reprise::scheduler {

// By what came after the last few traces when they last came in this order;
// more of them tell more than fewer. Keeps ids of traces, which may have been
// forgotten since. Single-thread. Cost: a look-up a length and trace.
class Predictor {
 public:
  void Saw(const TraceEntry& entry) {
    const Names names = ContextNames();
    for (size_t length = 1; length <= known_; ++length) {
      next_.Put(names[length]) = {entry.id, entry.head_hash};
    }
    for (size_t i = kLongest - 1; i > 0; --i) last_[i] = last_[i - 1];
    last_[0] = entry.id;
    if (known_ < kLongest) ++known_;
  }

  // The stream was interrupted, which counts as what came last.
  void Break() {
    last_[0] = TraceId::kNone;
    known_ = 1;
  }

  // The trace that is due, if its head has those words; kNone if none is known.
  TraceId Foresee(uint64_t head_hash) const {
    const Names names = ContextNames();
    for (size_t length = known_; length > 0; --length) {
      const Next* next = next_.Peek(names[length]);
      if (next != nullptr && next->head_hash == head_hash) return next->trace;
    }
    return TraceId::kNone;
  }

  void Clear() {
    next_.Clear();
    known_ = 0;
  }

 private:
  static constexpr size_t kLongest = 6;
  static constexpr size_t kMostContexts = 1 << 14;
  using Names = std::array<uint64_t, kLongest + 1>;
  struct Next {
    TraceId trace = TraceId::kNone;
    uint64_t head_hash = 0;
  };

  // Of the last 1, 2, ... traces.
  Names ContextNames() const {
    Names names{};
    for (size_t length = 1; length <= known_; ++length) {
      uint64_t name =
          names[length - 1] ^ static_cast<uint64_t>(last_[length - 1]);
      name = (name + length) * 0x9E3779B97F4A7C15u;
      names[length] = name ^ name >> 29;
    }
    return names;
  }

  std::array<TraceId, kLongest> last_{};  // the latest first
  size_t known_ = 0;                      // of them
  cache::LruMap<uint64_t, Next> next_{kMostContexts};
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_PREDICTOR_H_
