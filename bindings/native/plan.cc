#include "bindings/native/plan.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "bindings/native/event_core.h"
#include "bindings/native/prepared_plan.h"
#include "engine/batch/dependencies.h"
#include "engine/batch/kernel_code.h"
#include "scheduler/batch_span.h"

namespace reprise {
namespace native {

Status PreparedPlan::HasLaunch(uint32_t launch) const {
  if (launch < recipe_->nodes.size()) return {};
  return base::Fail(Code::kInvalidArgument,
                    "the plan has " + std::to_string(recipe_->nodes.size()) +
                        " launches, there is no launch " +
                        std::to_string(launch));
}

std::string PreparedPlan::NameOf(uint32_t launch) const {
  const engine::Node& node = recipe_->nodes[launch];
  return "launch " + std::to_string(launch) +
         (node.kernel == nullptr ? ""
                                 : " (kernel '" + node.kernel->name() + "')");
}

PreparedPlan::Parameters PreparedPlan::ParametersOf(uint32_t launch) const {
  const engine::Node& node = recipe_->nodes[launch];
  const engine::ParamType to = engine::ParamType::Of<void*>();
  switch (node.kind) {
    case engine::Node::Kind::kKernel:
      return {.count = node.kernel->params()->size()};
    case engine::Node::Kind::kCopy:
      return {.count = 2, .types = {to, engine::ParamType::Of<const void*>()}};
    case engine::Node::Kind::kFill: {
      const auto fill = std::lower_bound(
          fills_.begin(), fills_.end(), launch,
          [](const Fill& f, uint32_t node) { return f.node < node; });
      return {.count = 2, .types = {to, fill->element.type()}};
    }
    default:
      return {};
  }
}

Status PreparedPlan::Set(uint32_t launch, size_t argument,
                         const engine::ParamType& type, const void* value) {
  REPRISE_RETURN_IF_ERROR(HasLaunch(launch));
  const engine::Node& node = recipe_->nodes[launch];
  const bool of_kernel = node.kind == engine::Node::Kind::kKernel;
  const Parameters parameters = ParametersOf(launch);
  if (argument >= parameters.count) {
    return base::Fail(
        Code::kInvalidArgument,
        NameOf(launch) + " has " + std::to_string(parameters.count) +
            " arguments, there is no argument " + std::to_string(argument));
  }
  const auto place = [&] {
    return "argument " + std::to_string(argument) + " of " + NameOf(launch);
  };
  const engine::ParamType expected =
      of_kernel ? node.kernel->TypeOf(argument) : parameters.types[argument];
  if (expected.kind == engine::ParamType::Kind::kPointer &&
      type.kind == engine::ParamType::Kind::kPointer) {
    const void* pointer = nullptr;
    std::memcpy(&pointer, value, sizeof pointer);
    if (pointer == nullptr) {
      return base::Fail(Code::kInvalidArgument, place() + " is of type " +
                                                    expected.Spelled() +
                                                    ", and must not be null");
    }
  }
  if (!expected.Takes(type)) {
    const bool is_known = expected.kind != engine::ParamType::Kind::kUnknown;
    return base::Fail(
        Code::kInvalidArgument,
        is_known ? place() + " is of type " + expected.Spelled() + ", not " +
                       type.Spelled()
                 : place() + " has " + std::to_string(expected.size_bytes) +
                       " bytes, not " + std::to_string(type.size_bytes) +
                       " as " + type.Spelled());
  }
  has_moved_ |= expected.kind == engine::ParamType::Kind::kPointer;
  if (of_kernel) {
    const device::ParamSpan& span = (*node.kernel->params())[argument];
    graph_->Set(launch, span.offset_bytes, value, span.size_bytes);
  } else if (node.kind == engine::Node::Kind::kFill && argument == 1) {
    const auto pattern = engine::BatchRecord::PatternOf(expected, value);
    if (!pattern) return tl::unexpected(pattern.error().In(NameOf(launch)));
    graph_->Set(launch, engine::BatchRecord::kFillValue, &pattern->bits,
                pattern->bytes);
  } else {
    graph_->Set(launch, 8 * argument, value, sizeof(void*));
  }
  return {};
}

Status PreparedPlan::SetEvent(uint32_t launch, const Event& event) {
  REPRISE_RETURN_IF_ERROR(HasLaunch(launch));
  const std::string place = "launch " + std::to_string(launch);
  if (recipe_->nodes[launch].kind != engine::Node::Kind::kWait) {
    return base::Fail(Code::kInvalidArgument,
                      place +
                          " is not the wait for an event: give the number "
                          "that Batch::Wait returned");
  }
  if (!event.core()->IsOf(stream_->runtime())) {
    return base::Fail(Code::kInvalidArgument,
                      "the event is of another runtime: record it on a stream "
                      "of this one");
  }
  REPRISE_RETURN_IF_ERROR(event.core()->CheckRecorded());
  const engine::BatchEvent* const address = event.core().get();
  graph_->Set(launch, 0, &address, sizeof address);
  events_[launch] = event.core();
  return {};
}

Status PreparedPlan::CheckOrder() {
  if (!has_moved_ || !stream_->runtime().device().on_host()) return {};
  std::vector<engine::Access> accesses = accesses_;
  for (const engine::Node& node : recipe_->nodes) {
    for (uint32_t a = 0; a < node.accesses; ++a) {
      engine::Access& access = accesses[node.access_begin + a];
      const size_t offset =
          node.kernel != nullptr
              ? (*node.kernel->params())[access.argument].offset_bytes
              : sizeof(void*) * access.argument;
      std::memcpy(&access.begin,
                  graph_->image().data() + node.image_begin + offset,
                  sizeof access.begin);
    }
  }
  const auto unordered =
      engine::FirstUnordered(recipe_->dependencies, recipe_->nodes, accesses);
  if (unordered.has_value()) {
    return base::Fail(
        Code::kInvalidArgument,
        NameOf(unordered->later) + " now touches memory of " +
            NameOf(unordered->earlier) +
            ", beside which the plan runs it: prepare another plan for this "
            "memory");
  }
  has_moved_ = false;
  return {};
}

Status PreparedPlan::Launch() {
  const scheduler::BatchSpan span(stream_->batches().workshop().track,
                                  scheduler::Doing::kReplaying, recipe_->nodes,
                                  recipe_->name);
  const engine::DeviceScope scope(stream_->runtime().device());
  REPRISE_RETURN_IF_ERROR(scope.status());
  REPRISE_RETURN_IF_ERROR(stream_->batches().checks().CheckMemory(
      recipe_->nodes, accesses_, graph_->image()));
  REPRISE_RETURN_IF_ERROR(CheckOrder());
  REPRISE_RETURN_IF_ERROR(graph_->Give());
  REPRISE_RETURN_IF_ERROR(graph_->Launch());
  for (const engine::BatchRecord::EventUse& point : points_) {
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

Status Plan::Check() const {
  if (plan_ != nullptr) return {};
  return Fail(Code::kFailedPrecondition,
              "the plan was moved from: use the one that it was moved to");
}

Status Plan::Launch() {
  REPRISE_RETURN_IF_ERROR(Check());
  return plan_->Launch();
}
PlanReport Plan::report() const {
  return plan_ == nullptr ? PlanReport() : plan_->report();
}

Status Plan::SetEvent(uint32_t launch, const Event& event) {
  REPRISE_RETURN_IF_ERROR(Check());
  return plan_->SetEvent(launch, event);
}

Status Plan::SetBytes(uint32_t launch, size_t argument,
                      const engine::ParamType& type, const void* value) {
  REPRISE_RETURN_IF_ERROR(Check());
  return plan_->Set(launch, argument, type, value);
}

}  // namespace reprise
