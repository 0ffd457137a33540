// Launches as one executable graph that is given new arguments in one of three
// ways.

#ifndef REPRISE_ENGINE_DEVICE_PATCHED_GRAPH_H_
#define REPRISE_ENGINE_DEVICE_PATCHED_GRAPH_H_

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/patching.h"
#include "engine/base/status.h"
#include "engine/device/driver.h"
#include "engine/device/launch.h"
#include "engine/device/launch_graph.h"

namespace reprise::device {

// Where a launch's arguments lie in a table that is `bytes` long so far: at a
// multiple of 16. Says how long it is then.
constexpr uint32_t TableEnd(uint32_t bytes, uint32_t image_bytes) {
  return bytes + (image_bytes + 15) / 16 * 16;
}

// A LaunchGraph that is told which launches have changed, and gives them to the
// driver as its mechanism does.
//
// Borrows the launches and their functions as LaunchGraph does: who owns the
// launches writes into their images, and says so with Changed. Single-thread at
// a time. Every call but the end needs `context` to be current.
class PatchedGraph {
 public:
  // The last two are for a table only.
  struct Mechanism {
    base::Patching patching = base::Patching::kSetParams;  // not kMeasured
    // Of each launch, a kernel that reads its parameters at the address that is
    // its own parameter; without a function: none.
    struct Twin {
      CUfunction function = nullptr;
      std::shared_ptr<const std::vector<ParamSpan>> params = {};
    };
    std::vector<Twin> twins = {};
    // Write(chunk, table, vectors), as kernels/table_source.h has it: function,
    // parameters and name. Its chunk holds all parameters of the twins.
    device::Launch writer = {};
  };

  static base::Result<std::unique_ptr<PatchedGraph>> Create(
      const Driver& driver, CUcontext context,
      std::span<device::Launch* const> launches,
      const Dependencies& dependencies, CUstream upload_stream,
      const Mechanism& mechanism);
  ~PatchedGraph();
  PatchedGraph(const PatchedGraph&) = delete;
  PatchedGraph& operator=(const PatchedGraph&) = delete;

  // From the next launch on, it is as its image and value are now.
  base::Status Changed(size_t index);
  // Does now what Launch would do before it launches. The driver may refuse
  // what has changed, as memory of another kind than the graph was made with.
  base::Status Apply();
  base::Status Launch(CUstream stream);

  // The launches become `others`, which are of the same kinds, attributes and
  // dependencies, and `others` what they were. kFailedPrecondition where the
  // driver or the mechanism does not let them: the graph stays what it was
  // then. After any other error nobody knows what it is. The launches are what
  // they were after each.
  base::Status TakeOver(std::span<device::Launch> others);

  // Why it has gone over to kSetParams by itself; empty while it has not.
  std::string_view why_set_params() const { return why_set_params_; }

 private:
  // A launch's arguments in the table; none of a launch that has its own.
  struct Entry {
    uint32_t begin = 0;
    uint32_t bytes = 0;
  };

  PatchedGraph(const Driver& driver, CUcontext context, base::Patching patching,
               std::span<device::Launch* const> launches)
      : driver_(driver),
        context_(context),
        patching_(patching),
        launches_(launches.begin(), launches.end()) {}

  base::Status Build(const Dependencies& dependencies, CUstream upload_stream,
                     const Mechanism& mechanism);
  // The launch that writes the table, before all that read it; what it carries
  // is the table to be.
  base::Status AddTable(const Mechanism& mechanism);
  // Where a launch's arguments lie in it; empty if the launch has its own.
  std::span<std::byte> EntryOf(size_t index);
  // For the launches, with the table's in front.
  Dependencies BehindTable(const Dependencies& dependencies) const;
  // Describes every launch as it is now.
  base::Status StageAll();
  void Exchange(std::span<device::Launch> others);

  const Driver& driver_;
  const CUcontext context_;
  base::Patching patching_;
  const std::vector<device::Launch*> launches_;
  size_t first_ = 0;  // in graph_: 1 behind a table's

  CUdeviceptr table_ = 0;
  device::Launch write_;
  std::deque<device::Launch> readers_;  // in place of launches with an entry
  std::vector<Entry> entries_;          // by launch; empty without a table
  bool table_changed_ = false;          // since it was given to its launch
  bool table_used_ = false;             // written by a launch as it is now
  bool table_enabled_ = true;           // the next launch writes it
  bool staged_ = false;
  bool stale_ = false;  // what is not staged is described as another's
  std::string why_set_params_;
  std::unique_ptr<LaunchGraph> graph_;  // borrows the launches
};

}  // namespace reprise::device

#endif  // REPRISE_ENGINE_DEVICE_PATCHED_GRAPH_H_
