// Which call of a simulated library is to fail.

#ifndef REPRISE_TESTS_SIM_FAILING_CALLS_H_
#define REPRISE_TESTS_SIM_FAILING_CALLS_H_

#include <cstdint>
#include <string>

namespace reprise::sim {

// Single-thread.
class FailingCalls {
 public:
  enum class Lasts : uint8_t { kOnce, kForGood };
  static const char* NameOf(Lasts lasts) {
    return lasts == Lasts::kOnce ? "Once" : "ForGood";
  }

  // The call after `calls` more fails, and perhaps all that follow; negative:
  // none.
  void FailAfter(int calls, Lasts lasts = Lasts::kOnce) {
    fail_after_ = calls;
    lasts_ = lasts;
  }

  // Counts a call, and tells whether it is to fail.
  bool Fails(const char* name) {
    ++count_;
    if (fail_after_ > 0) {
      --fail_after_;
      return false;
    }
    if (fail_after_ < 0) return false;
    if (lasts_ == Lasts::kOnce) fail_after_ = -1;
    if (failed_.empty()) failed_ = name;
    return true;
  }

  // The name of the first one that failed; empty if none did.
  const std::string& failed() const { return failed_; }
  int count() const { return count_; }

 private:
  int fail_after_ = -1;
  Lasts lasts_ = Lasts::kOnce;
  int count_ = 0;
  std::string failed_;
};

}  // namespace reprise::sim

#endif  // REPRISE_TESTS_SIM_FAILING_CALLS_H_
