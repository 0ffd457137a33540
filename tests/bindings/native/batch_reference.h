// What the steps of a random batch mean, on plain arrays.

#ifndef REPRISE_TESTS_BINDINGS_NATIVE_BATCH_REFERENCE_H_
#define REPRISE_TESTS_BINDINGS_NATIVE_BATCH_REFERENCE_H_

#include <algorithm>
#include <cstdint>

#include "tests/bindings/native/batch_program.h"

namespace reprise::native {

// --- The arguments of a step -------------------------------------------------

inline uint32_t WordsOf(const Step& step) {
  return std::min(step.to.words(), step.from.words());
}
// A cooperative grid must fit, clusters must divide it.
inline uint32_t BlocksOf(const Step& step) {
  return step.attribute == Step::kCluster ? step.blocks / 2 * 2 + 2
                                          : step.blocks;
}
inline uint16_t ShortOf(const Step& step) {
  return static_cast<uint16_t>(step.by);
}
inline uint64_t WideOf(const Step& step) { return uint64_t{step.by} << 32 | 7; }
inline uint8_t ByteOf(const Step& step) {
  return static_cast<uint8_t>(step.by);
}

// Does to arrays what the step's kernel, copy, fill or captured work does to
// the device's memory.
void DoPlainly(const Step& step, uint32_t* to, uint32_t* from);

}  // namespace reprise::native

#endif  // REPRISE_TESTS_BINDINGS_NATIVE_BATCH_REFERENCE_H_
