// A graph of a batch's launches on a GPU.

#ifndef REPRISE_ENGINE_BATCH_CUDA_GRAPH_H_
#define REPRISE_ENGINE_BATCH_CUDA_GRAPH_H_

#include <cuda.h>

#include <cstddef>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/batch/batch_device.h"
#include "engine/batch/kernel_code.h"
#include "engine/batch/node.h"
#include "engine/device/launch.h"
#include "engine/device/launch_graph.h"
#include "engine/device/patched_graph.h"
#include "engine/device/unique_handle.h"

namespace reprise::engine {

// Captured work; copied into the graphs that are built with it.
struct CapturedGraph final : Captured {
  device::UniqueGraph graph;
};

// The launch of a node, no capture, whose kernel is ready.
device::Launch LaunchOf(const Node& node, const std::byte* image);

// Keeps its kernels and events alive. Single-thread at a time.
class CudaGraph final : public Graph {
 public:
  CudaGraph(const device::Driver& driver, CUcontext context)
      : driver_(driver), context_(context) {}

  // Once. Needs a current context.
  base::Status Build(const std::vector<Node>& nodes,
                     const std::vector<std::byte>& image,
                     const device::Dependencies& dependencies, CUstream stream,
                     const Captures& captures, const Mechanism& mechanism);

  base::Status Set(size_t index, const std::byte* image) override;
  base::Status Apply() override { return graph_->Apply(); }
  base::Status Launch(CUstream stream) override {
    return graph_->Launch(stream);
  }
  base::Status TakeOver(const std::vector<Node>& nodes,
                        const std::vector<std::byte>& image) override;
  std::string_view why_set_params() const override {
    return graph_->why_set_params();
  }

 private:
  const device::Driver& driver_;
  const CUcontext context_;
  std::vector<std::shared_ptr<KernelCode>> kernels_;
  std::unordered_map<size_t, std::shared_ptr<BatchEvent>> events_;  // by node
  std::vector<device::Launch> launches_;
  std::unique_ptr<device::PatchedGraph> graph_;
};

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_BATCH_CUDA_GRAPH_H_
