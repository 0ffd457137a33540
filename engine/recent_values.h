// Values that the program made before the open trace: where an external comes
// from that is another storage at every pass.

#ifndef REPRISE_ENGINE_RECENT_VALUES_H_
#define REPRISE_ENGINE_RECENT_VALUES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace reprise::engine {

// Names a value by the step that made it: a trace or a cut, so many steps ago.
struct Source {
  uint32_t steps_ago = 0;    // 1: the last step; 0: no source is known
  uint32_t index = 0;        // among the values of the step
  uint64_t fingerprint = 0;  // of the step
  bool operator==(const Source&) const = default;
};

// The last steps of a stream with the addresses of what they made. Addresses
// are compared and handed on, never looked into: whoever follows a Source checks
// that the memory is still there, and that the program then uses it.
// Single-thread. Cost: a copy of the addresses a step.
class RecentValues {
 public:
  // Begins a step; fill `bases` with the base of each value's storage, 0 where
  // there is none. Valid until the next call.
  std::vector<uint64_t>& Push(uint64_t fingerprint) {
    Step& step = steps_[++count_ % kSteps];
    step.fingerprint = fingerprint;
    step.bases.clear();
    return step.bases;
  }

  // The newest value at `base`; none where there is no memory.
  Source Find(uint64_t base) const {
    if (base == 0) return {};
    for (uint32_t ago = 1; ago <= kSteps && ago <= count_; ++ago) {
      const Step& step = Ago(ago);
      for (size_t i = 0; i < step.bases.size(); ++i) {
        if (step.bases[i] == base) {
          return {ago, static_cast<uint32_t>(i), step.fingerprint};
        }
      }
    }
    return {};
  }

  // Where the value that `source` names lies now; 0 if other steps were made.
  uint64_t Base(const Source& source) const {
    if (source.steps_ago == 0 || source.steps_ago > count_) return 0;
    const Step& step = Ago(source.steps_ago);
    if (step.fingerprint != source.fingerprint ||
        source.index >= step.bases.size()) {
      return 0;
    }
    return step.bases[source.index];
  }

  void Clear() { count_ = 0; }

 private:
  static constexpr uint32_t kSteps = 32;

  struct Step {
    uint64_t fingerprint = 0;
    std::vector<uint64_t> bases;
  };

  const Step& Ago(uint32_t ago) const {
    return steps_[(count_ + 1 - ago) % kSteps];
  }

  std::array<Step, kSteps> steps_;
  uint64_t count_ = 0;
};

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_RECENT_VALUES_H_
