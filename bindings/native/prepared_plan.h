// What a Plan holds.

#ifndef REPRISE_BINDINGS_NATIVE_PREPARED_PLAN_H_
#define REPRISE_BINDINGS_NATIVE_PREPARED_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "bindings/native/device.h"
#include "bindings/native/stream_core.h"

namespace reprise::native {

// A graph and the arguments that it has, or is to have from its next launch on.
// Single-thread at a time.
class PreparedPlan {
 public:
  PreparedPlan(std::shared_ptr<StreamCore> stream, std::vector<Node> nodes,
               std::vector<std::byte> image, std::unique_ptr<Graph> graph,
               std::vector<BatchRecord::EventUse> points)
      : stream_(std::move(stream)),
        nodes_(std::move(nodes)),
        image_(std::move(image)),
        changed_(nodes_.size(), false),
        graph_(std::move(graph)),
        points_(std::move(points)) {}

  Status Set(uint32_t launch, size_t argument, const void* value,
             size_t size_bytes);
  Status SetEvent(uint32_t launch, const Event& event);
  Status Launch();

 private:
  Status HasLaunch(uint32_t launch) const;
  void Write(uint32_t launch, size_t offset_bytes, const void* value,
             size_t size_bytes);

  const std::shared_ptr<StreamCore> stream_;
  const std::vector<Node> nodes_;
  std::vector<std::byte> image_;
  std::vector<bool> changed_;
  std::vector<uint32_t> dirty_;  // those that changed
  const std::unique_ptr<Graph> graph_;
  const std::vector<BatchRecord::EventUse> points_;
  // Of waits, until the graph has taken them.
  std::unordered_map<uint32_t, std::shared_ptr<EventCore>> events_;
};

}  // namespace reprise::native

#endif  // REPRISE_BINDINGS_NATIVE_PREPARED_PLAN_H_
