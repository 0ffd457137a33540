// What the instances of a plan have done.

#ifndef REPRISE_SCHEDULER_INSTANCE_USES_H_
#define REPRISE_SCHEDULER_INSTANCE_USES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace reprise::scheduler {

// One instance. It may replace eager after two validations, op by op and whole.
struct InstanceUse {
  uint64_t bytes = 0;   // graphs, and its own arena
  bool shares = false;  // it has no arena of its own
  uint64_t replays = 0;
  uint64_t validations = 0;
  uint64_t last_replay = 0;  // the trace's replays then, by any plan

  bool usable() const { return validations >= 2; }
};

// All instances of one plan, in the plan's order; the last one may be new.
// Empty until a plan was built. A single-thread value.
class InstanceUses {
 public:
  const InstanceUse& operator[](size_t index) const { return uses_[index]; }
  const InstanceUse& front() const { return uses_.front(); }
  const InstanceUse& back() const { return uses_.back(); }
  size_t size() const { return uses_.size(); }
  auto begin() const { return uses_.begin(); }
  auto end() const { return uses_.end(); }

  bool any_usable() const {
    return std::ranges::any_of(uses_, &InstanceUse::usable);
  }
  // No other one could be had.
  bool complete() const { return complete_; }
  uint64_t replays() const {
    uint64_t sum = 0;
    for (const InstanceUse& use : uses_) sum += use.replays;
    return sum;
  }
  // Graphs and arenas, but for arenas that are shared with other plans.
  uint64_t bytes() const {
    uint64_t sum = 0;
    for (const InstanceUse& use : uses_) sum += use.bytes;
    return sum;
  }
  size_t host_bytes() const { return uses_.capacity() * sizeof(InstanceUse); }

  // A plan was built, which has this one.
  void Begin(InstanceUse first) {
    uses_ = {first};
    complete_ = false;
  }
  void Clear() { uses_.clear(); }
  void Add(InstanceUse use) { uses_.push_back(use); }
  void SetComplete() { complete_ = true; }
  void DropLast() { uses_.pop_back(); }
  // The second one goes on for the first.
  void DropFirst() {
    const InstanceUse first = uses_.front();
    uses_.erase(uses_.begin());
    uses_.front().replays += first.replays;
    uses_.front().validations += first.validations;
  }

  // `replays`: the trace's, with this one.
  void Replayed(size_t index, uint64_t replays) {
    ++uses_[index].replays;
    uses_[index].last_replay = replays;
  }
  void Validated(size_t index) { ++uses_[index].validations; }
  // Each has to be validated as if it were new.
  void TrustNone() {
    for (InstanceUse& use : uses_) use.validations = 0;
  }
  // Charges so many bytes more, or fewer.
  void Charge(size_t index, uint64_t bytes) { uses_[index].bytes += bytes; }
  void Discharge(size_t index, uint64_t bytes) { uses_[index].bytes -= bytes; }

 private:
  std::vector<InstanceUse> uses_;
  bool complete_ = false;
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_INSTANCE_USES_H_
