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

// A word that held, in two recordings of an op, what is neither null nor an
// address that both can mean is not read by its kernel: that would have failed
// in one of them. So it is in every op of that form (words and kernel), however
// much it looks like an address there. Thread-safe; forgets what was not asked
// for longest.
class UnwrittenWords {
 public:
  // `word` is one of a kernel's.
  void Learn(const TracedOp& op, device::ImageWord word);
  bool Knows(const TracedOp& op, device::ImageWord word);

 private:
  static constexpr size_t kMostKnown = 1 << 14;

  base::Mutex mutex_;
  cache::LruMap<uint64_t, std::monostate> known_ REPRISE_GUARDED_BY(mutex_){
      kMostKnown};
};

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_PROGRAM_UNWRITTEN_WORDS_H_
