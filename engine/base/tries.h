// How often something is tried before nobody tries it any more.

#ifndef REPRISE_ENGINE_BASE_TRIES_H_
#define REPRISE_ENGINE_BASE_TRIES_H_

#include <cstdint>

namespace reprise::base {

// Something that may fail is tried so often, and given up then. Where it is
// worth trying again later, that is a Backoff. A single-thread value.
class Tries {
 public:
  explicit constexpr Tries(uint32_t most) : most_(most), left_(most) {}

  // Takes one. False: there is none left.
  bool Take() {
    if (left_ == 0) return false;
    --left_;
    return true;
  }
  // It did not fail, or it is another thing now: there are as many as at first.
  void Renew() { left_ = most_; }

 private:
  uint32_t most_;
  uint32_t left_;
};

}  // namespace reprise::base

#endif  // REPRISE_ENGINE_BASE_TRIES_H_
