// Changes that threads look at before they go on.

#ifndef REPRISE_BINDINGS_TORCH_BASE_CHANGES_H_
#define REPRISE_BINDINGS_TORCH_BASE_CHANGES_H_

#include <atomic>
#include <cstdint>

namespace reprise::bindings {

// Counts changes, and how many of them have been looked at. A thread that finds
// some due looks at them under a lock of its owner's, once it has asked again
// there: so nobody goes on while another thread still looks. Thread-safe.
class Changes {
 public:
  explicit Changes(uint64_t noted = 0) : noted_(noted) {}

  void Note() { noted_.fetch_add(1, std::memory_order_release); }
  // What was changed before is seen, and what came of the looks.
  bool Due() const {
    return looked_at_.load(std::memory_order_acquire) != noted();
  }
  uint64_t noted() const { return noted_.load(std::memory_order_acquire); }
  // As many as `noted` was before the look, which is over.
  void LookedAt(uint64_t noted) {
    looked_at_.store(noted, std::memory_order_release);
  }

 private:
  std::atomic<uint64_t> noted_;
  std::atomic<uint64_t> looked_at_{0};
};

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_BASE_CHANGES_H_
