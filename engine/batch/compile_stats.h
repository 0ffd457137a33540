// Counters of kernels from source.

#ifndef REPRISE_ENGINE_BATCH_COMPILE_STATS_H_
#define REPRISE_ENGINE_BATCH_COMPILE_STATS_H_

#include <cstdint>
#include <string>

namespace reprise::engine {

// What became of CompileKernel's calls, and where their results are kept.
struct CompileStats {
  uint64_t compiled = 0;     // by NVRTC, in vain or not
  uint64_t memory_hits = 0;  // calls answered by what another call had made
  uint64_t disk_hits = 0;    // found in the cache's folder
  uint64_t libraries = 0;    // loaded now, each for all kernels of one source
  std::string cache_dir;     // empty if there is none
  std::string why_no_cache;  // the reason then
};

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_BATCH_COMPILE_STATS_H_
