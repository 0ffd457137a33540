// A batch as one executable graph.

#ifndef REPRISE_ENGINE_BATCH_GRAPH_H_
#define REPRISE_ENGINE_BATCH_GRAPH_H_

#include <cuda.h>

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include "engine/base/patching.h"
#include "engine/base/status.h"
#include "engine/batch/kernel_code.h"
#include "engine/batch/node.h"

namespace reprise::engine {

// One executable graph. Single-thread at a time, within a DeviceScope.
class Graph {
 public:
  virtual ~Graph() = default;
  // From the next launch on, node `index` has the arguments at `image`.
  virtual base::Status Set(size_t index, const std::byte* image) = 0;
  // Does now what Launch would do before it launches. The driver may refuse
  // what was set, as memory of another kind than the graph was made with.
  virtual base::Status Apply() = 0;
  virtual base::Status Launch(CUstream stream) = 0;
  // Becomes the graph of other nodes of the same kinds, attributes and
  // dependencies, from the next launch on. Fails, and stays what it was, where
  // the driver or its mechanism does not let it.
  virtual base::Status TakeOver(const std::vector<Node>& nodes,
                                const std::vector<std::byte>& image) = 0;
  // Why it has gone over to SetParams by itself; empty while it has not.
  virtual std::string_view why_set_params() const { return {}; }
};

// Work of the caller's, as it is part of a graph.
class Captured {
 public:
  virtual ~Captured() = default;
};
using Captures = std::vector<std::shared_ptr<Captured>>;

// How a graph is to be given arguments. The last two are for a table only.
struct Mechanism {
  base::Patching patching = base::Patching::kSetParams;
  std::vector<std::shared_ptr<KernelCode>> twins =
      {};                                   // of each node; null: none
  std::shared_ptr<KernelCode> writer = {};  // of as many bytes as they need
};

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_BATCH_GRAPH_H_
