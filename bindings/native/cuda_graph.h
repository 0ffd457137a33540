// A graph of a batch's launches on a GPU.

#ifndef REPRISE_BINDINGS_NATIVE_CUDA_GRAPH_H_
#define REPRISE_BINDINGS_NATIVE_CUDA_GRAPH_H_

#include <cuda.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "bindings/native/batch_record.h"
#include "bindings/native/common.h"
#include "bindings/native/device.h"
#include "bindings/native/kernel_code.h"
#include "engine/device/launch.h"
#include "engine/device/launch_graph.h"
#include "engine/device/unique_handle.h"

namespace reprise::native {

// Captured work; copied into the graphs that are built with it.
struct CapturedGraph final : Captured {
  device::UniqueGraph graph;
};

// The launch of a node, no capture, whose kernel is ready.
device::Launch LaunchOf(const Node& node, const std::byte* image);

// Keeps its kernels and events alive. Single-thread at a time.
class CudaGraph final : public Graph {
 public:
  CudaGraph(const device::Driver& driver, CUcontext context,
            Mechanism mechanism)
      : driver_(driver), context_(context), mechanism_(std::move(mechanism)) {}
  ~CudaGraph() override;

  // Once. Needs a current context.
  Status Build(const std::vector<Node>& nodes,
               const std::vector<std::byte>& image,
               const device::Dependencies& dependencies, CUstream stream,
               const Captures& captures);

  Status Set(size_t index, const std::byte* image) override;
  // By the driver's way of the mechanism.
  Status Apply() override;
  Status Launch(CUstream stream) override;
  Status TakeOver(const std::vector<Node>& nodes,
                  const std::vector<std::byte>& image) override;
  std::string_view why_set_params() const override { return why_set_params_; }

 private:
  // Describes every launch as it is now.
  Status StageAll();
  // The launch that writes the table, before all that read it; what it carries
  // is the table to be.
  Status AddTable(const std::vector<Node>& nodes);
  // Where a node's arguments lie in it; empty if its launch has its own.
  std::span<std::byte> EntryOf(size_t index);
  // For the launches, with the table's in front.
  device::Dependencies BehindTable(
      const device::Dependencies& dependencies) const;

  // A node's arguments in the table; none of a node whose launch has its own.
  struct Entry {
    uint32_t begin = 0;
    uint32_t bytes = 0;
  };

  const device::Driver& driver_;
  const CUcontext context_;
  Mechanism mechanism_;
  std::vector<std::shared_ptr<KernelCode>> kernels_;
  std::unordered_map<size_t, std::shared_ptr<EventCore>> events_;  // by node
  std::vector<device::Launch> launches_;  // the table's first, if there is one
  size_t first_ = 0;                      // the nodes'
  std::unique_ptr<device::LaunchGraph> graph_;

  CUdeviceptr table_ = 0;
  std::vector<Entry> entries_;  // by node; empty without a table
  bool table_changed_ = false;  // since it was given to its launch
  bool table_used_ = false;     // written by a launch as it is now
  bool table_enabled_ = true;   // the next launch writes it
  bool staged_ = false;
  bool stale_ = false;  // what is not staged is described as another's
  std::string why_set_params_;
};

}  // namespace reprise::native

#endif  // REPRISE_BINDINGS_NATIVE_CUDA_GRAPH_H_
