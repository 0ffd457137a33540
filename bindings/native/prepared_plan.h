// What a Plan holds.

#ifndef REPRISE_BINDINGS_NATIVE_PREPARED_PLAN_H_
#define REPRISE_BINDINGS_NATIVE_PREPARED_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "bindings/native/adaptive_graph.h"
#include "bindings/native/stream_core.h"

namespace reprise::native {

// A graph whose arguments the caller sets. Single-thread at a time.
class PreparedPlan {
 public:
  PreparedPlan(std::shared_ptr<StreamCore> stream,
               std::shared_ptr<const AdaptiveGraph::Recipe> recipe,
               std::unique_ptr<AdaptiveGraph> graph,
               std::vector<BatchRecord::EventUse> points)
      : stream_(std::move(stream)),
        recipe_(std::move(recipe)),
        graph_(std::move(graph)),
        points_(std::move(points)) {}

  Status Set(uint32_t launch, size_t argument, const void* value,
             size_t size_bytes);
  Status SetEvent(uint32_t launch, const Event& event);
  Status Launch();
  PlanReport report() const { return graph_->report(); }

 private:
  Status HasLaunch(uint32_t launch) const;

  const std::shared_ptr<StreamCore> stream_;
  const std::shared_ptr<const AdaptiveGraph::Recipe> recipe_;
  const std::unique_ptr<AdaptiveGraph> graph_;
  const std::vector<BatchRecord::EventUse> points_;
  // Of waits, until the graph has taken them.
  std::unordered_map<uint32_t, std::shared_ptr<EventCore>> events_;
};

}  // namespace reprise::native

#endif  // REPRISE_BINDINGS_NATIVE_PREPARED_PLAN_H_
