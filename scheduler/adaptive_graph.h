// A graph that goes over to another mechanism when that pays.

#ifndef REPRISE_SCHEDULER_ADAPTIVE_GRAPH_H_
#define REPRISE_SCHEDULER_ADAPTIVE_GRAPH_H_

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/task.h"
#include "engine/batch/batch_device.h"
#include "engine/batch/batch_record.h"
#include "engine/batch/plan_report.h"
#include "scheduler/patch_policy.h"
#include "scheduler/patch_service.h"
#include "scheduler/span.h"

namespace reprise::scheduler {

// Launches as one graph and the arguments that they have. Counts what changes
// from replay to replay; where another mechanism would cost the submitting
// thread less, a graph with that one is built in the background and takes the
// place of the first. Single-thread at a time, within a DeviceScope.
class AdaptiveGraph {
 public:
  // What it is built from.
  struct Recipe {
    std::vector<engine::Node> nodes;
    device::Dependencies dependencies;
    std::vector<std::shared_ptr<engine::KernelCode>> kernels;  // of the nodes
    bool plain = true;  // kernels, copies and fills alone
    std::string name;   // the program's for the batch, for people

    Recipe(const std::vector<engine::Node>& nodes,
           device::Dependencies dependencies, std::string name = {});
  };

  // Where its graphs are built; all outlive it and the queue's tasks. The
  // stream, on which they are launched, need not outlive the tasks.
  struct Workshop {
    engine::BatchDevice* device;
    PatchService* patching;
    base::TaskRunner* queue;
    CUstream stream;
    Track track = {};  // the stream's
  };

  // The first graph, as the runtime's options want it or, where that is to be
  // found out or takes a compiler, by SetParams. Any thread; never launches.
  // Batches with events or captured work stay with that one. `hold` is older
  // than the end of any memory that `image` names.
  static base::Result<std::unique_ptr<AdaptiveGraph>> Build(
      const Workshop& workshop, std::shared_ptr<const Recipe> recipe,
      std::vector<std::byte> image, const engine::MemoryHold& hold,
      const engine::Captures& captures = {});

  // Nodes have the arguments in `image`, laid out as the recipe's, from the
  // next Launch on. Never calls the driver.
  void SetAll(const std::vector<std::byte>& image);
  // The same for some bytes of one node's. An event must live until a Launch
  // has succeeded, or another one was set in its place.
  void Set(size_t index, size_t offset_bytes, const void* value,
           size_t size_bytes);
  // The graph is given what was set. What fails is given to it the next time;
  // nothing has been launched then.
  base::Status Give();
  // Needs a Give that has succeeded since the last Set.
  base::Status Launch();

  // Becomes the graph of `recipe`. Fails, and stays what it was, where it
  // cannot (kFailedPrecondition); after any other error nobody knows what it
  // is.
  base::Status TakeOver(std::shared_ptr<const Recipe> recipe,
                        const std::vector<std::byte>& image);
  // A TakeOver may succeed.
  bool MayBecome(const Recipe& recipe) const;

  engine::PlanReport report() const;
  // The arguments as they were set last.
  const std::vector<std::byte>& image() const { return image_; }
  uint64_t patched() const { return patched_; }

 private:
  // One build of another graph, shared with the task that does it.
  struct Successor {
    base::Patching patching;
    std::vector<std::byte> image;
    std::optional<base::Result<std::unique_ptr<engine::Graph>>> outcome;
    size_t in_table = 0;
    std::atomic<bool> built{false};  // releases the outcome
  };

  AdaptiveGraph(const Workshop& workshop, std::shared_ptr<const Recipe> recipe,
                std::vector<std::byte> image, const engine::MemoryHold& hold,
                base::Patching patching, std::unique_ptr<engine::Graph> graph);

  void StartSuccessor(base::Patching patching, engine::MemoryHold hold);
  void TakeSuccessor();
  base::Status GivePending();
  void ForgetPending();
  // The graph has gone over to SetParams by itself.
  void NoteSetParams();
  // After a launch that changed something, or when the last ones did.
  void Adapt();
  // It has this mechanism.
  std::string Why() const;

  const Workshop workshop_;
  std::shared_ptr<const Recipe> recipe_;
  PatchShape shape_;
  std::vector<std::byte> image_;   // that the next launch is to have
  std::vector<uint32_t> pending_;  // nodes that the graph was not given yet
  std::vector<bool> is_pending_;   // by node
  std::unique_ptr<engine::Graph> graph_;
  base::Patching patching_;
  bool adapts_ = false;
  PatchPolicy policy_;
  const PatchCosts* costs_ = nullptr;  // that it adapts by, once measured
  std::shared_ptr<Successor> successor_;
  size_t changed_ = 0;  // since the last launch
  size_t in_table_ = 0;
  uint64_t patched_ = 0;
  uint64_t replays_ = 0;
  uint64_t taken_over_ = 0;
  std::string why_;  // where it is not by costs
  std::string why_not_;
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_ADAPTIVE_GRAPH_H_
