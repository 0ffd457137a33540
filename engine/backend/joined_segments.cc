#include "engine/backend/joined_segments.h"

#include <utility>

#include "engine/base/log.h"
#include "engine/device/context_scope.h"
#include "engine/device/launch_recorder.h"
#include "engine/device/relaxed_capture.h"
#include "engine/device/unique_handle.h"

namespace reprise::engine {

JoinedSegments::JoinedSegments(const device::Driver& driver, CUcontext context,
                               uint32_t first,
                               std::span<const device::Launch> launches,
                               std::optional<device::Dependencies> order,
                               LibraryFrees::Seen frees)
    : driver_(driver),
      context_(context),
      first_(first),
      launches_(launches.begin(), launches.end()),
      order_(std::move(order)),
      frees_(frees),
      is_dirty_(launches.size(), false) {}

void JoinedSegments::Build() {
  if (const base::Status made = MakeGraph(); !made) {
    base::Log(base::LogLevel::kDebug,
              "segments stay apart: " + made.error().message());
    return;
  }
  ready_.store(true, std::memory_order_release);
}

base::Status JoinedSegments::MakeGraph() {
  REPRISE_ASSIGN_OR_RETURN(const LibraryFrees::Kept kept, frees_.Keep());
  const device::LaunchRecorder::Hidden hidden;
  const device::RelaxedCapture relaxed(driver_);
  const device::ContextScope scope(driver_, context_);
  REPRISE_RETURN_IF_ERROR(scope.status());
  CUstream stream = nullptr;
  REPRISE_CU(driver_, cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  const device::UniqueStream uploads(driver_, stream);
  std::vector<const device::Launch*> launches;
  for (const device::Launch& launch : launches_) launches.push_back(&launch);
  REPRISE_ASSIGN_OR_RETURN(
      graph_,
      device::LaunchGraph::Create(driver_, launches, uploads.get(),
                                  order_.has_value() ? &*order_ : nullptr));
  // The session's stream knows nothing of this one.
  REPRISE_CU(driver_, cuStreamSynchronize(uploads.get()));
  return {};
}

void JoinedSegments::MarkDirty(uint32_t launch) {
  const uint32_t index = launch - first_;
  if (index >= launches_.size() || is_dirty_[index]) return;
  is_dirty_[index] = true;
  dirty_.push_back(index);
}

base::Status JoinedSegments::Launch(std::span<const device::Launch> bound,
                                    CUstream stream) {
  while (!dirty_.empty()) {
    const uint32_t index = dirty_.back();
    launches_[index].image = bound[first_ + index].image;
    REPRISE_RETURN_IF_ERROR(graph_->Update(index));
    is_dirty_[index] = false;
    dirty_.pop_back();
  }
  return graph_->Launch(stream);
}

}  // namespace reprise::engine
