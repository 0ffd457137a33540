// Segments that are launched together time and again, as one graph.

#ifndef REPRISE_ENGINE_BACKEND_JOINED_SEGMENTS_H_
#define REPRISE_ENGINE_BACKEND_JOINED_SEGMENTS_H_

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/base/status.h"
#include "engine/device/driver.h"
#include "engine/device/launch.h"
#include "engine/device/launch_graph.h"
#include "engine/trace/library_frees.h"

namespace reprise::engine {

// Between two graphs the device waits for a microsecond or two. Has a copy of
// the launches, so that it is built while their executor goes on to patch and
// launch its own. Build on any thread, once; all else is its executor's.
class JoinedSegments {
 public:
  // `launches`: of an executor, from its launch `first` on, as bound now.
  // `order` as Branches has it, `frees` as Program has it. `driver` must
  // outlive it.
  JoinedSegments(const device::Driver& driver, CUcontext context,
                 uint32_t first, std::span<const device::Launch> launches,
                 std::optional<device::Dependencies> order,
                 LibraryFrees::Seen frees);
  JoinedSegments(const JoinedSegments&) = delete;
  JoinedSegments& operator=(const JoinedSegments&) = delete;

  void Build();
  // It has been built, and that did not fail.
  bool ready() const { return ready_.load(std::memory_order_acquire); }

  // That launch of the executor's is bound anew.
  void MarkDirty(uint32_t launch);
  // Takes over what was bound anew from all launches of the executor's. Needs a
  // current context.
  base::Status Launch(std::span<const device::Launch> bound, CUstream stream);

  size_t size() const { return launches_.size(); }

 private:
  base::Status MakeGraph();

  const device::Driver& driver_;
  const CUcontext context_;
  const uint32_t first_;
  std::vector<device::Launch> launches_;
  const std::optional<device::Dependencies> order_;
  const LibraryFrees::Seen frees_;
  std::unique_ptr<device::LaunchGraph> graph_;
  std::atomic<bool> ready_{false};
  std::vector<uint32_t> dirty_;  // indices of launches_
  std::vector<bool> is_dirty_;   // by launch
};

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_BACKEND_JOINED_SEGMENTS_H_
