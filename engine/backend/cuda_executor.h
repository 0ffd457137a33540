// Runs a plan on a GPU: eager's own launches, patched, as graphs.

#ifndef REPRISE_ENGINE_BACKEND_CUDA_EXECUTOR_H_
#define REPRISE_ENGINE_BACKEND_CUDA_EXECUTOR_H_

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "engine/backend/joined_segments.h"
#include "engine/backend/verdict_flags.h"
#include "engine/base/task.h"
#include "engine/device/driver.h"
#include "engine/device/launch.h"
#include "engine/device/launch_graph.h"
#include "engine/device/launch_recorder.h"
#include "engine/program/launch_program.h"
#include "engine/program/program.h"
#include "engine/replay/executor.h"
#include "kernels/compare.h"
#include "kernels/strided_layout.h"

namespace reprise::engine {

// A program, and its launches with an index of their sites.
struct CudaProgram : Program {
  CudaProgram(std::shared_ptr<const Trace> trace, LaunchProgram launches);

  LaunchProgram work;  // its sites in the order of values
  // Of value v: sites [sites_begin[v], sites_begin[v + 1]).
  std::vector<uint32_t> sites_begin;

  std::span<const ValueSite> SitesOf(ValueId value) const {
    return std::span(work.sites)
        .subspan(sites_begin[value],
                 sites_begin[value + 1] - sites_begin[value]);
  }
};

// What a node of an executable graph is taken to cost in device memory, for the
// budget.
inline constexpr uint64_t kBytesPerNode = 8 * 1024;

// What the executors of a session share; outlives them.
struct CudaContext {
  const device::Driver* driver = nullptr;
  device::LaunchRecorder* recorder = nullptr;
  kernels::DeviceCompare* compare = nullptr;
  CUstream stream = nullptr;
  CUcontext context = nullptr;
  // Where segments are joined meanwhile; null: nowhere.
  base::TaskRunner* builds = nullptr;
  // Graphs that were launched since their chain was broken last; see
  // CudaExecutor::BreakChain.
  std::shared_ptr<uint32_t> chained_graphs = std::make_shared<uint32_t>(0);
#ifdef REPRISE_MEASURE
  // While true, the segments of replays are not launched: what is left of a
  // pass is the host's share, and its results are not computed.
  const std::atomic<bool>* skip_launches = nullptr;
#endif
};

// Patches on change: Bind writes into its own copy of the program's launches,
// the next launch of a segment first updates the nodes that changed. Owns
// graphs; borrows the context. See Executor for threads.
class CudaExecutor : public Executor {
 public:
  CudaExecutor(const CudaContext& context,
               std::shared_ptr<const CudaProgram> program,
               std::unique_ptr<VerdictFlags> flags);
  // Once, before anything is launched, and after every value was bound: the
  // driver takes no fill or copy of freed memory into a graph, and what the
  // recording used may have gone.
  base::Status MakeGraphs();

  void Bind(ValueId value, uint64_t origin) override;
  Fit SetScalars(uint32_t op, std::span<const uint64_t> bits) override;
  void SetGenerator(uint32_t op, const GeneratorState& state) override;
  Progress LaunchSegment(size_t segment, uint32_t first_op) override;
  Progress LaunchSegments(size_t first,
                          std::span<const Segment> segments) override;
  uint64_t TakeGrowth() override { return std::exchange(growth_bytes_, 0); }
  base::Status LaunchOp(size_t op) override;
  bool Touches(size_t op, ValueId value) const override;
  base::Status Copy(uint64_t to, uint64_t from,
                    const kernels::Layout& layout) override;
  base::Status CopyAll(std::span<const kernels::RangeCopy> copies) override;
  base::Status WaitFor(CUevent event) override;
  base::Status BeginComparing() override;
  base::Status Compare(uint64_t eager, uint64_t replayed,
                       const kernels::Layout& layout, Alike alike,
                       uint32_t tag) override;
  base::Status EndComparing() override;
  base::Result<std::optional<Verdict>> Poll(Patience patience) override;

 private:
  struct SegmentGraph {
    uint32_t first_launch = 0;
    std::unique_ptr<device::LaunchGraph> graph;  // null when it has no launch
    std::vector<uint32_t> dirty;                 // indices within the graph
  };

  // Before a graph's launch. Between two of many graphs that wait one behind
  // the other on a stream the device does nothing for a while, the longer the
  // more of them wait, unless they are few until something else comes
  // (docs/decisions/0046-chains-of-graphs.md).
  base::Status BreakChain();

  // Segments that were launched together.
  struct Row {
    size_t first = 0;
    size_t count = 0;
    uint32_t times = 0;
    std::shared_ptr<JoinedSegments> joined =
        nullptr;  // its builder has it, too
  };

  base::Status LaunchGraph(SegmentGraph& segment);
  // The row of those segments; null where there are too many already.
  Row* FindRow(size_t first, size_t count);
  // It was launched piece by piece.
  void CountRow(Row& row, std::span<const Segment> segments);
  base::Status LaunchJoined(JoinedSegments& joined);
  // In builds that measure, when told to: what replays launch is left out.
  bool SkipsLaunches() const {
#ifdef REPRISE_MEASURE
    return !comparing_ &&
           context_.skip_launches->load(std::memory_order_relaxed);
#else
    return false;
#endif
  }
  void MarkDirty(uint32_t launch);

  CudaContext context_;
  std::shared_ptr<const CudaProgram> program_;
  std::vector<device::Launch> launches_;  // the program's, as bound
  std::vector<uint64_t> origins_;         // as bound
  std::vector<uint32_t> segment_of_;      // by launch
  std::vector<bool> dirty_;               // by launch
  std::vector<SegmentGraph> segments_;
  std::vector<Row> rows_;
  size_t joined_launches_ = 0;  // of all rows
  uint64_t growth_bytes_ = 0;   // that nobody was told of yet
  std::unique_ptr<VerdictFlags> flags_;
  bool comparing_ = false;
  std::vector<uint64_t> encoded_;  // room for an op's numbers
};

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_BACKEND_CUDA_EXECUTOR_H_
