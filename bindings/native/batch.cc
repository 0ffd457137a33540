#include "bindings/native/batch.h"

#include <utility>

#include "bindings/native/dependencies.h"
#include "bindings/native/plan.h"
#include "bindings/native/prepared_plan.h"
#include "bindings/native/stream_core.h"

namespace reprise {

Batch::Batch(std::shared_ptr<native::StreamCore> stream)
    : stream_(std::move(stream)), record_(stream_->TakeRecord()) {}

Batch::Batch(Batch&&) noexcept = default;

Batch::~Batch() {
  if (record_ != nullptr) stream_->ReturnRecord(std::move(record_));
}

namespace {
Status Used() {
  return base::Fail(Code::kFailedPrecondition,
                    "a batch is submitted or prepared once: begin another one "
                    "with Stream::BeginBatch");
}
}  // namespace

Status Batch::Submit() {
  if (record_ == nullptr) return Used();
  Status submitted = stream_->Submit(*record_);
  stream_->ReturnRecord(std::move(record_));
  return submitted;
}

Result<Plan> Batch::Prepare() {
  if (record_ == nullptr) return tl::unexpected(Used().error());
  const std::unique_ptr<native::BatchRecord> record = std::move(record_);
  REPRISE_RETURN_IF_ERROR(stream_->Check(*record));
  if (record->nodes().empty()) {
    return base::Fail(Code::kInvalidArgument, "there is nothing to prepare");
  }
  REPRISE_ASSIGN_OR_RETURN(
      auto graph,
      stream_->runtime().device().Build(
          record->nodes(), record->image(),
          native::DependenciesOf(record->nodes(), record->accesses()),
          stream_->stream()));
  return Plan(std::make_unique<native::PreparedPlan>(
      stream_, record->nodes(), record->image(), std::move(graph)));
}

}  // namespace reprise
