// Launches as one executable graph whose parameters can be patched.

#ifndef REPRISE_ENGINE_DEVICE_LAUNCH_GRAPH_H_
#define REPRISE_ENGINE_DEVICE_LAUNCH_GRAPH_H_

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/base/status.h"
#include "engine/device/driver.h"
#include "engine/device/launch.h"
#include "engine/device/unique_handle.h"

namespace reprise::device {

// For each node of a graph, the nodes that it waits for, all of them earlier.
using Dependencies = std::vector<std::vector<uint32_t>>;

// Launches in program order, instantiated once: a straight line but for the
// forks of ops (Launch::behind), or as the dependencies say.
//
// The graph borrows the launches: they must stay where they are and outlive it.
// A changed image is written into the executable graph by Update(i), and takes
// effect at the next Launch(); launches already enqueued keep the old one. The
// driver refuses to update fills of more than one row.
// In a straight line each launch waits for the whole of the one before it, also
// where eager allowed them to overlap. Launches of one graph serialise with
// each other. All calls are hidden from a LaunchRecorder. Single-thread at a
// time. Cost: 3-4 us a node to add, 3-7 us to instantiate, 0.2-0.5 us an
// Update.
class LaunchGraph {
 public:
  // Builds, instantiates and uploads. Needs a current context; may be called on
  // any thread, in relaxed capture mode, so that it never disturbs a capture.
  static base::Result<std::unique_ptr<LaunchGraph>> Create(
      const Driver& driver, std::span<const Launch* const> launches,
      CUstream upload_stream, const Dependencies* dependencies = nullptr);
  ~LaunchGraph();
  LaunchGraph(const LaunchGraph&) = delete;
  LaunchGraph& operator=(const LaunchGraph&) = delete;

  base::Status Update(size_t index);

  // The other way to change launches, and the only one to change their
  // functions and grids: Stage writes the whole of a launch into the graph that
  // was instantiated from, TakeStaged has the executable graph take all nodes
  // over as they were made or last staged (cuGraphExecUpdate; what Update alone
  // has changed is lost). Attributes, kinds and what waits for what stay as
  // they are. Where the driver refuses, kFailedPrecondition, the executable
  // graph is what it was before, and can be launched. Events and captured work
  // cannot be staged.
  base::Status Stage(size_t index);
  base::Status TakeStaged();

  // A launch that is not enabled does nothing, from the next Launch() on, until
  // it is again; those behind it do not wait for it. Not for copies.
  base::Status Enable(size_t index, bool enabled);

  base::Status Launch(CUstream stream);

  size_t size() const { return nodes_.size(); }

 private:
  struct Node {
    CUgraphNode node = nullptr;
    bool by_kernel_handle =
        false;  // the driver took the function as a CUkernel
  };

  explicit LaunchGraph(const Driver& driver) : driver_(driver) {}
  using Before = std::span<const CUgraphNode>;
  base::Status AddNode(const device::Launch& launch, Before before);
  // The last node waits for these kernels until they let it begin.
  base::Status AddEarlyEdges(Before early);
  base::Status AddKernelNode(const device::Launch& launch, Before before,
                             Node& node);

  const Driver& driver_;
  std::vector<const device::Launch*> launches_;
  std::vector<Node> nodes_;
  CUcontext context_ = nullptr;
  UniqueGraph graph_;  // its nodes name those of exec_
  UniqueGraphExec exec_;
};

}  // namespace reprise::device

#endif  // REPRISE_ENGINE_DEVICE_LAUNCH_GRAPH_H_
