#include "bindings/native/stream.h"

#include <algorithm>
#include <string>
#include <utility>

#include "bindings/native/event_core.h"
#include "bindings/native/stream_core.h"
#include "engine/batch/elements.h"

namespace reprise {

namespace native {

Result<bool> Arrived(HostBytes& bytes) { return bytes.Arrived(); }
Result<const void*> WaitFor(HostBytes& bytes) { return bytes.Wait(); }

}  // namespace native

namespace {

Result<size_t> BytesToCopy(const void* to, const void* from, size_t count,
                           size_t element_bytes) {
  const auto refuse = [&](const char* why) {
    return base::Fail(
        Code::kInvalidArgument,
        "cannot copy " + engine::ElementsOf(count, element_bytes) + why);
  };
  size_t bytes = 0;
  if (__builtin_mul_overflow(count, element_bytes, &bytes)) {
    return refuse(": they have more bytes than a size can say");
  }
  if (bytes > 0 && to == nullptr) return refuse(" to a null pointer");
  if (bytes > 0 && from == nullptr) return refuse(" from a null pointer");
  return bytes;
}

// The device's end of a copy is all of a buffer's, where the device can tell.
Status CheckDeviceEnd(native::Device& device, const void* memory, size_t bytes,
                      size_t count, size_t element_bytes) {
  if (bytes == 0) return {};
  Status admitted = device.AdmitMemory(memory, bytes);
  if (admitted) return admitted;
  return tl::unexpected(admitted.error().In(
      "cannot copy " + engine::ElementsOf(count, element_bytes)));
}

}  // namespace

Stream::Stream(std::shared_ptr<native::StreamCore> core)
    : core_(std::move(core)) {}

Batch Stream::BeginBatch(std::string_view name) const {
  return Batch(core_, name);
}

Result<Event> Stream::Record(Timing timing) const {
  REPRISE_ASSIGN_OR_RETURN(
      CUevent event, core_->runtime().device().Record(core_->stream(), timing));
  return Event(std::make_shared<native::EventCore>(
      core_->runtime().shared_device(), event, timing, /*recorded=*/true));
}

Status Stream::Wait(const Event& event) const {
  if (!event.core()->IsOf(core_->runtime())) {
    return base::Fail(Code::kInvalidArgument,
                      "the event is of another runtime: record it on a stream "
                      "of this one");
  }
  REPRISE_RETURN_IF_ERROR(event.core()->CheckRecorded());
  return core_->runtime().device().Wait(core_->stream(), event.core()->event());
}

Status Stream::Synchronize() const {
  return core_->runtime().device().Synchronize(core_->stream());
}

void Stream::WaitForBuilds() const {
  core_->runtime().queue().WaitIdle(std::nullopt);
}

StreamStats Stream::stats() const { return core_->batches().stats(); }
std::vector<PlanReport> Stream::plans() const {
  return core_->batches().plans();
}

void* Stream::handle() const { return core_->stream(); }

Status Stream::CopyIn(void* to, const void* from, size_t count,
                      size_t element_bytes) const {
  REPRISE_ASSIGN_OR_RETURN(const size_t bytes,
                           BytesToCopy(to, from, count, element_bytes));
  native::Device& device = core_->runtime().device();
  REPRISE_RETURN_IF_ERROR(
      CheckDeviceEnd(device, to, bytes, count, element_bytes));
  return device.CopyIn(to, from, bytes, core_->stream());
}

Status Stream::CopyOut(void* to, const void* from, size_t count,
                       size_t element_bytes) const {
  REPRISE_ASSIGN_OR_RETURN(const size_t bytes,
                           BytesToCopy(to, from, count, element_bytes));
  native::Device& device = core_->runtime().device();
  REPRISE_RETURN_IF_ERROR(
      CheckDeviceEnd(device, from, bytes, count, element_bytes));
  return device.CopyOut(to, from, bytes, core_->stream());
}

Stream::SharedBytes Stream::BeginCopyOut(const void* from, size_t count,
                                         size_t element_bytes) const {
  // Where to is nobody's choice here: any address but null.
  REPRISE_ASSIGN_OR_RETURN(const size_t bytes,
                           BytesToCopy(this, from, count, element_bytes));
  native::Device& device = core_->runtime().device();
  REPRISE_RETURN_IF_ERROR(
      CheckDeviceEnd(device, from, bytes, count, element_bytes));
  REPRISE_ASSIGN_OR_RETURN(auto copy,
                           device.BeginCopyOut(from, bytes, core_->stream()));
  // It goes before its device.
  return std::shared_ptr<native::HostBytes>(
      copy.release(), [device = core_->runtime().shared_device()](
                          native::HostBytes* ended) { delete ended; });
}

Status Stream::SameSize(size_t to, size_t from, size_t element_bytes) {
  if (to == from) return {};
  return base::Fail(Code::kInvalidArgument,
                    "cannot copy " + engine::ElementsOf(from, element_bytes) +
                        " to " + std::to_string(to) +
                        ": name as many of both, as in span().first(" +
                        std::to_string(std::min(to, from)) + ")");
}

const std::shared_ptr<native::RuntimeCore>& Stream::runtime() const {
  return core_->shared_runtime();
}

}  // namespace reprise
