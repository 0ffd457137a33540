#include "bindings/native/plan.h"

#include <string>
#include <utility>

#include "bindings/native/kernel_code.h"
#include "bindings/native/prepared_plan.h"

namespace reprise {
namespace native {

Status PreparedPlan::HasLaunch(uint32_t launch) const {
  if (launch < recipe_->nodes.size()) return {};
  return base::Fail(Code::kInvalidArgument,
                    "the plan has " + std::to_string(recipe_->nodes.size()) +
                        " launches, there is no launch " +
                        std::to_string(launch));
}

Status PreparedPlan::Set(uint32_t launch, size_t argument, const void* value,
                         size_t size_bytes) {
  REPRISE_RETURN_IF_ERROR(HasLaunch(launch));
  const Node& node = recipe_->nodes[launch];
  device::ParamSpan span{static_cast<uint32_t>(8 * argument), 8};
  size_t count = 0;
  if (node.kind == Node::Kind::kKernel) {
    count = node.kernel->params()->size();
    if (argument < count) span = (*node.kernel->params())[argument];
  } else if (node.kind == Node::Kind::kCopy || node.kind == Node::Kind::kFill) {
    count = 2;
    const bool is_value = node.kind == Node::Kind::kFill && argument == 1;
    if (is_value) span = {BatchRecord::kFillValue, node.element_bytes};
  }
  const auto place = [&] { return "launch " + std::to_string(launch); };
  if (argument >= count) {
    return base::Fail(Code::kInvalidArgument,
                      place() + " has " + std::to_string(count) +
                          " arguments, there is no argument " +
                          std::to_string(argument));
  }
  if (span.size_bytes != size_bytes) {
    return base::Fail(Code::kInvalidArgument,
                      "argument " + std::to_string(argument) + " of " +
                          place() + " has " + std::to_string(span.size_bytes) +
                          " bytes, not " + std::to_string(size_bytes));
  }
  graph_->Set(launch, span.offset_bytes, value, size_bytes);
  return {};
}

Status PreparedPlan::SetEvent(uint32_t launch, const Event& event) {
  REPRISE_RETURN_IF_ERROR(HasLaunch(launch));
  const std::string place = "launch " + std::to_string(launch);
  if (recipe_->nodes[launch].kind != Node::Kind::kWait) {
    return base::Fail(Code::kInvalidArgument,
                      place + " is not the wait for an event");
  }
  if (!event.core()->IsOf(stream_->runtime())) {
    return base::Fail(Code::kInvalidArgument,
                      "the event is of another runtime");
  }
  if (!event.core()->recorded()) {
    return base::Fail(Code::kFailedPrecondition,
                      "the event is a point of a batch that was not submitted "
                      "yet");
  }
  const EventCore* const address = event.core().get();
  graph_->Set(launch, 0, &address, sizeof address);
  events_[launch] = event.core();
  return {};
}

Status PreparedPlan::Launch() {
  const DeviceScope scope(stream_->runtime().device());
  REPRISE_RETURN_IF_ERROR(scope.status());
  REPRISE_RETURN_IF_ERROR(graph_->Give());
  REPRISE_RETURN_IF_ERROR(graph_->Launch());
  for (const BatchRecord::EventUse& point : points_) {
    point.event->set_recorded();
  }
  return {};
}

}  // namespace native

Plan::Plan(std::unique_ptr<native::PreparedPlan> plan)
    : plan_(std::move(plan)) {}
Plan::Plan(Plan&&) noexcept = default;
Plan& Plan::operator=(Plan&&) noexcept = default;
Plan::~Plan() = default;

Status Plan::Launch() { return plan_->Launch(); }
PlanReport Plan::report() const { return plan_->report(); }

Status Plan::SetEvent(uint32_t launch, const Event& event) {
  return plan_->SetEvent(launch, event);
}

Status Plan::SetBytes(uint32_t launch, size_t argument, const void* value,
                      size_t size_bytes) {
  return plan_->Set(launch, argument, value, size_bytes);
}

}  // namespace reprise
