// Runs a plan on a GPU: eager's own launches, patched, as graphs.

#ifndef REPRISE_ENGINE_CUDA_EXECUTOR_H_
#define REPRISE_ENGINE_CUDA_EXECUTOR_H_

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/device/driver.h"
#include "engine/device/launch.h"
#include "engine/device/launch_graph.h"
#include "engine/device/launch_recorder.h"
#include "engine/draw_sites.h"
#include "engine/executor.h"
#include "engine/scalar.h"
#include "engine/verdict_flags.h"
#include "kernels/compare.h"

namespace reprise::engine {

// Eight bytes of a launch's image that hold the address of a value plus a
// delta.
struct ValueSite {
  uint32_t launch;  // in the program
  uint32_t offset_bytes;
  ValueId value;
  uint64_t delta_bytes;
};

// All launches of a plan in program order, and where its values stand in them.
struct CudaProgram {
  std::vector<device::Launch> launches;
  std::vector<uint32_t> op_begin;  // launches of op k: [op_begin[k], [k + 1])
  std::vector<ValueSite> sites;
  std::vector<ScalarSite> scalars;  // in the order of ops
  std::vector<ScalarCopy> copies;   // so these
  std::vector<ScalarRounding> roundings;
  std::vector<DrawSite> draws;  // in the order of ops
  uint32_t values = 0;  // temporaries are numbered after the trace's values
};

// What the executors of a session share; outlives them.
struct CudaContext {
  const device::Driver* driver = nullptr;
  device::LaunchRecorder* recorder = nullptr;
  kernels::DeviceCompare* compare = nullptr;
  CUstream stream = nullptr;
  CUcontext context = nullptr;
#ifdef REPRISE_MEASURE
  // While true, the segments of replays are not launched: what is left of a
  // pass is the host's share, and its results are not computed.
  const std::atomic<bool>* skip_launches = nullptr;
#endif
};

// Patches on change: Bind writes into the host copy of the launches, the next
// launch of a segment first updates the nodes that changed. Owns graphs and
// launches; borrows the context. See Executor for threads.
class CudaExecutor : public Executor {
 public:
  CudaExecutor(const CudaContext& context, CudaProgram program,
               std::unique_ptr<VerdictFlags> flags);
  // Once, before anything is launched, and after every value was bound: the
  // driver takes no fill or copy of freed memory into a graph, and what the
  // recording used may have gone.
  base::Status MakeGraphs(std::span<const Segment> segments);

  void Bind(ValueId value, uint64_t origin) override;
  Fit SetScalars(uint32_t op, std::span<const uint64_t> bits) override;
  void SetGenerator(uint32_t op, const GeneratorState& state) override;
  Progress LaunchSegment(size_t segment, uint32_t first_op) override;
  base::Status LaunchOp(size_t op) override;
  bool Touches(size_t op, ValueId value) const override;
  base::Status Copy(uint64_t to, uint64_t from,
                    const kernels::Layout& layout) override;
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

  base::Status LaunchGraph(SegmentGraph& segment);
  void MarkDirty(uint32_t launch);

  CudaContext context_;
  CudaProgram program_;
  std::vector<uint32_t> sites_begin_;  // of value v: [v], [v + 1]
  std::vector<uint64_t> origins_;      // as bound
  std::vector<uint32_t> segment_of_;   // by launch
  std::vector<bool> dirty_;            // by launch
  std::vector<SegmentGraph> segments_;
  std::unique_ptr<VerdictFlags> flags_;
  bool comparing_ = false;
  std::vector<uint64_t> encoded_;  // room for an op's numbers
};

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_CUDA_EXECUTOR_H_
