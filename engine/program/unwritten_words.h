// Words of kernels' parameters that nobody writes, as recordings have shown.

#ifndef REPRISE_ENGINE_PROGRAM_UNWRITTEN_WORDS_H_
#define REPRISE_ENGINE_PROGRAM_UNWRITTEN_WORDS_H_

#include <cstddef>
#include <cstdint>
#include <variant>

#include "cache/lru_map.h"
#include "engine/base/mutex.h"
#include "engine/device/parameter_scan.h"
#include "engine/trace/trace.h"

namespace reprise::engine {

// A word that differed between two recordings of an op, was null in neither,
// and was no address in one of them, or had moved as no memory does, is none
// that its kernel follows. So it is in every op of that form (words and
// kernel), however much it looks like an address there. Thread-safe; beyond a
// bound what was not asked for longest is forgotten.
class UnwrittenWords {
 public:
  // `word` is one of a kernel's.
  void Learn(const TracedOp& op, device::ImageWord word);
  bool Knows(const TracedOp& op, device::ImageWord word);

 private:
  static constexpr size_t kMostKnown = size_t{1} << 14;

  base::Mutex mutex_;
  cache::LruMap<uint64_t, std::monostate> known_ REPRISE_GUARDED_BY(mutex_){
      kMostKnown};
};

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_PROGRAM_UNWRITTEN_WORDS_H_
