// What a Plan holds.

#ifndef REPRISE_BINDINGS_NATIVE_PREPARED_PLAN_H_
#define REPRISE_BINDINGS_NATIVE_PREPARED_PLAN_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "bindings/native/stream_core.h"
#include "engine/batch/param_type.h"
#include "scheduler/adaptive_graph.h"

namespace reprise::native {

// A graph whose arguments the caller sets. Single-thread at a time.
class PreparedPlan {
 public:
  PreparedPlan(std::shared_ptr<StreamCore> stream,
               std::shared_ptr<const scheduler::AdaptiveGraph::Recipe> recipe,
               std::unique_ptr<scheduler::AdaptiveGraph> graph,
               const engine::BatchRecord& record)
      : stream_(std::move(stream)),
        recipe_(std::move(recipe)),
        graph_(std::move(graph)),
        points_(record.points()),
        accesses_(record.accesses()) {
    for (const engine::BatchRecord::FillOf& fill : record.fills()) {
      fills_.push_back({fill.node, engine::KeptParamType(fill.element)});
    }
  }

  Status Set(uint32_t launch, size_t argument, const engine::ParamType& type,
             const void* value);
  Status SetEvent(uint32_t launch, const Event& event);
  Status Launch();
  PlanReport report() const { return graph_->report(); }

 private:
  // What a fill's elements are.
  struct Fill {
    uint32_t node;
    engine::KeptParamType element;
  };
  // kInvalidArgument where memory that was set lies in the way of a launch that
  // runs beside. On a host runtime only.
  Status CheckOrder();

  // How many a launch has, and, of copies and fills, of what type.
  struct Parameters {
    size_t count = 0;
    std::array<engine::ParamType, 2> types = {};
  };

  Status HasLaunch(uint32_t launch) const;
  // For messages, of one that there is.
  std::string NameOf(uint32_t launch) const;
  Parameters ParametersOf(uint32_t launch) const;

  const std::shared_ptr<StreamCore> stream_;
  const std::shared_ptr<const scheduler::AdaptiveGraph::Recipe> recipe_;
  const std::unique_ptr<scheduler::AdaptiveGraph> graph_;
  const std::vector<engine::BatchRecord::EventUse> points_;
  const std::vector<engine::Access> accesses_;
  std::vector<Fill> fills_;  // in the order of the nodes
  bool has_moved_ = false;   // a pointer was set since CheckOrder
  // Of waits, until the graph has taken them.
  std::unordered_map<uint32_t, std::shared_ptr<EventCore>> events_;
};

}  // namespace reprise::native

#endif  // REPRISE_BINDINGS_NATIVE_PREPARED_PLAN_H_
