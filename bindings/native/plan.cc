#include "bindings/native/plan.h"

#include <cstring>
#include <string>
#include <utility>

#include "bindings/native/kernel_code.h"
#include "bindings/native/prepared_plan.h"

namespace reprise {
namespace native {

Status PreparedPlan::Set(uint32_t launch, size_t argument, const void* value,
                         size_t size_bytes) {
  if (launch >= nodes_.size()) {
    return base::Fail(Code::kInvalidArgument,
                      "the plan has " + std::to_string(nodes_.size()) +
                          " launches, there is no launch " +
                          std::to_string(launch));
  }
  const Node& node = nodes_[launch];
  device::ParamSpan span{static_cast<uint32_t>(8 * argument), 8};
  size_t count = node.image_bytes / 8;
  if (node.kind == Node::Kind::kKernel) {
    count = node.kernel->params()->size();
    if (argument < count) span = (*node.kernel->params())[argument];
  }
  const std::string place = "launch " + std::to_string(launch);
  if (argument >= count) {
    return base::Fail(Code::kInvalidArgument,
                      place + " has " + std::to_string(count) +
                          " arguments, there is no argument " +
                          std::to_string(argument));
  }
  if (span.size_bytes != size_bytes) {
    return base::Fail(Code::kInvalidArgument,
                      "argument " + std::to_string(argument) + " of " + place +
                          " has " + std::to_string(span.size_bytes) +
                          " bytes, not " + std::to_string(size_bytes));
  }
  std::byte* kept = image_.data() + node.image_begin + span.offset_bytes;
  if (std::memcmp(kept, value, size_bytes) == 0) return {};
  std::memcpy(kept, value, size_bytes);
  if (!changed_[launch]) {
    changed_[launch] = true;
    dirty_.push_back(launch);
  }
  return {};
}

Status PreparedPlan::Launch() {
  const DeviceScope scope(stream_->runtime().device());
  REPRISE_RETURN_IF_ERROR(scope.status());
  while (!dirty_.empty()) {
    const uint32_t launch = dirty_.back();
    REPRISE_RETURN_IF_ERROR(
        graph_->Set(launch, image_.data() + nodes_[launch].image_begin));
    changed_[launch] = false;
    dirty_.pop_back();
  }
  return graph_->Launch(stream_->stream());
}

}  // namespace native

Plan::Plan(std::unique_ptr<native::PreparedPlan> plan)
    : plan_(std::move(plan)) {}
Plan::Plan(Plan&&) noexcept = default;
Plan& Plan::operator=(Plan&&) noexcept = default;
Plan::~Plan() = default;

Status Plan::Launch() { return plan_->Launch(); }

Status Plan::SetBytes(uint32_t launch, size_t argument, const void* value,
                      size_t size_bytes) {
  return plan_->Set(launch, argument, value, size_bytes);
}

}  // namespace reprise
