// The ops of a trace that has been watched.

#ifndef REPRISE_SCHEDULER_KNOWN_OPS_H_
#define REPRISE_SCHEDULER_KNOWN_OPS_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace reprise::scheduler {

// The hashes of the words of a trace's ops, in order, once it has been watched
// twice. From then on its passes can be compared with them (Passing), which
// costs less than to watch them. Some are watched all the same, because that
// shows more: which weights an op has, and where the trace ends. A
// single-thread value.
class KnownOps {
 public:
  const std::vector<uint64_t>& hashes() const { return hashes_; }
  bool known() const { return !hashes_.empty(); }
  size_t host_bytes() const { return hashes_.capacity() * sizeof(uint64_t); }

  void Know(std::vector<uint64_t> hashes) { hashes_ = std::move(hashes); }
  void Forget() { hashes_.clear(); }

  // A pass begins. False: it is to be watched.
  bool MayPass() {
    if (!known() || ++passes_ % kPassesAWatch == 0) return false;
    if (watches_due_ == 0) return true;
    --watches_due_;
    return false;
  }
  // The program has left the trace: the next passes are watched.
  void WatchNext() { watches_due_ = kWatchesBehindLeaving; }

 private:
  static constexpr uint64_t kPassesAWatch = 16;
  static constexpr uint32_t kWatchesBehindLeaving = 4;

  std::vector<uint64_t> hashes_;
  uint64_t passes_ = 0;  // that could have been compared
  uint32_t watches_due_ = 0;
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_KNOWN_OPS_H_
