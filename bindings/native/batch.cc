#include "bindings/native/batch.h"

#include <algorithm>
#include <utility>

#include "bindings/native/event_core.h"
#include "bindings/native/plan.h"
#include "bindings/native/prepared_plan.h"
#include "bindings/native/stream_core.h"
#include "engine/batch/dependencies.h"
#include "engine/batch/kernel_code.h"
#include "scheduler/batch_span.h"

namespace reprise {

Batch::Batch(std::shared_ptr<native::StreamCore> stream, std::string_view name)
    : stream_(std::move(stream)), record_(stream_->batches().TakeRecord()) {
  record_->SetName(name);
}

// What is launched in a batch that was moved from goes into a record that
// nobody submits.
Batch::Batch(Batch&& other) noexcept
    : stream_(other.stream_),
      record_(std::exchange(other.record_,
                            std::make_unique<engine::BatchRecord>())),
      is_used_(std::exchange(other.is_used_, true)) {}

Batch::~Batch() { stream_->batches().ReturnRecord(std::move(record_)); }

uint32_t Batch::Launch(const AnyKernel& kernel, const LaunchConfig& config,
                       std::span<const Argument> arguments) {
  const auto& params = *kernel.code()->params();
  const uint32_t bytes =
      params.empty() ? 0
                     : params.back().offset_bytes + params.back().size_bytes;
  std::byte* image = record_->AddKernel(kernel.code(), config, bytes);
  record_->KeepPlace();
  std::fill_n(image, bytes, std::byte{0});
  if (arguments.size() != params.size()) {
    record_->Refuse("takes " + std::to_string(params.size()) +
                    " arguments, not " + std::to_string(arguments.size()) +
                    ": give one for each parameter");
    return record_->EndLaunch();
  }
  for (size_t i = 0; i < params.size(); ++i) {
    if (arguments[i].size_bytes != params[i].size_bytes) {
      record_->Refuse("takes " + std::to_string(params[i].size_bytes) +
                      " bytes as argument " + std::to_string(i) + ", not " +
                      std::to_string(arguments[i].size_bytes) +
                      ": give a value of the parameter's type");
      break;
    }
    std::memcpy(image + params[i].offset_bytes, arguments[i].data,
                params[i].size_bytes);
  }
  return record_->EndLaunch();
}

uint32_t Batch::Wait(const Event& event) {
  const uint32_t launch = record_->AddWait(event.core());
  if (!event.core()->IsOf(stream_->runtime())) {
    record_->Refuse(
        "waits for an event of another runtime: record it on a stream of this "
        "one");
  }
  return launch;
}

Result<Event> Batch::Record(Timing timing) {
  REPRISE_ASSIGN_OR_RETURN(CUevent event,
                           stream_->runtime().device().MakeEvent(timing));
  auto core = std::make_shared<native::EventCore>(
      stream_->runtime().shared_device(), event, timing, /*recorded=*/false);
  record_->AddPoint(core);
  return Event(std::move(core));
}

Status Batch::Use() {
  if (is_used_) {
    return base::Fail(Code::kFailedPrecondition,
                      "the batch was submitted, prepared or moved from before: "
                      "begin another one with Stream::BeginBatch");
  }
  is_used_ = true;
  return {};
}

Status Batch::Submit() {
  REPRISE_RETURN_IF_ERROR(Use());
  Status submitted = stream_->batches().Submit(*record_);
  if (submitted) {
    for (const auto& point : record_->points()) point.event->set_recorded();
  }
  record_->Clear();
  return submitted;
}

Result<Plan> Batch::Prepare() {
  REPRISE_RETURN_IF_ERROR(Use());
  const auto record =
      std::exchange(record_, std::make_unique<engine::BatchRecord>());
  const scheduler::BatchChecks& checks = stream_->batches().checks();
  REPRISE_RETURN_IF_ERROR(checks.Check(*record));
  REPRISE_RETURN_IF_ERROR(scheduler::BatchChecks::CheckWaits(*record));
  REPRISE_RETURN_IF_ERROR(
      checks.CheckMemory(record->nodes(), record->accesses(), record->image()));
  if (record->nodes().empty()) {
    return base::Fail(Code::kInvalidArgument, "there is nothing to prepare");
  }
  REPRISE_ASSIGN_OR_RETURN(auto captured,
                           stream_->batches().CaptureAll(*record));
  const scheduler::BatchSpan span(stream_->batches().workshop().track,
                                  scheduler::Doing::kBuilding, record->nodes(),
                                  record->name());
  const engine::MemoryHold hold = stream_->runtime().device().HoldMemory();
  auto recipe = std::make_shared<const scheduler::AdaptiveGraph::Recipe>(
      record->nodes(),
      engine::DependenciesOf(record->nodes(), record->accesses()),
      record->name());
  REPRISE_ASSIGN_OR_RETURN(
      auto graph,
      scheduler::AdaptiveGraph::Build(stream_->batches().workshop(), recipe,
                                      record->image(), hold, captured));
  return Plan(std::make_unique<native::PreparedPlan>(
      stream_, std::move(recipe), std::move(graph), *record));
}

}  // namespace reprise
