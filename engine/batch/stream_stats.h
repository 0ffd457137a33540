// Counters of a stream.

#ifndef REPRISE_ENGINE_BATCH_STREAM_STATS_H_
#define REPRISE_ENGINE_BATCH_STREAM_STATS_H_

#include <cstdint>

namespace reprise::engine {

// What became of the batches of a stream.
struct StreamStats {
  uint64_t batches = 0;
  uint64_t replayed = 0;  // as one graph
  uint64_t launches = 0;  // made by themselves
  uint64_t patched = 0;   // nodes of graphs whose arguments changed
  uint64_t built = 0;
  uint64_t taken_over = 0;  // graphs that became another batch's
  uint64_t refused = 0;     // builds that failed; Stream::plans says why
  uint64_t plans = 0;       // held
};

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_BATCH_STREAM_STATS_H_
