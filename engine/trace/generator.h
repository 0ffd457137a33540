// The random generator of a device, as a value.

#ifndef REPRISE_ENGINE_TRACE_GENERATOR_H_
#define REPRISE_ENGINE_TRACE_GENERATOR_H_

#include <cstdint>

namespace reprise::engine {

// Where a generator is: what it has been seeded with, and how far it has been
// used since. Kernels on a GPU are given the two by value, and what they draw
// is a function of them. Of a generator whose state is more than that (the
// host's) `seed` is a hash of all of it and `offset` is 0.
struct GeneratorState {
  uint64_t seed = 0;
  uint64_t offset = 0;

  GeneratorState After(uint64_t increment) const {
    return {seed, offset + increment};
  }
  bool operator==(const GeneratorState&) const = default;
};

// All of the state that a generator had once.
class KeptGenerator {
 public:
  virtual ~KeptGenerator() = default;
  // The generator is there again.
  virtual void PutBack() const = 0;
};

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_TRACE_GENERATOR_H_
