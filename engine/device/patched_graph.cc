#include "engine/device/patched_graph.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "engine/device/context_scope.h"
#include "engine/device/exiting.h"
#include "engine/device/relaxed_capture.h"

namespace reprise::device {

using base::Code;
using base::Fail;
using base::Patching;
using base::Status;

base::Result<std::unique_ptr<PatchedGraph>> PatchedGraph::Create(
    const Driver& driver, CUcontext context,
    std::span<device::Launch* const> launches, const Dependencies& dependencies,
    CUstream upload_stream, const Mechanism& mechanism) {
  std::unique_ptr<PatchedGraph> made(
      new PatchedGraph(driver, context, mechanism.patching, launches));
  REPRISE_RETURN_IF_ERROR(made->Build(dependencies, upload_stream, mechanism));
  return made;
}

PatchedGraph::~PatchedGraph() {
  if (Exiting()) return;
  const ContextScope scope(driver_, context_);
  const RelaxedCapture relaxed(driver_);
  graph_.reset();
  if (table_ != 0) driver_.cuMemFree(table_);
}

Status PatchedGraph::Build(const Dependencies& dependencies,
                           CUstream upload_stream, const Mechanism& mechanism) {
  std::vector<const device::Launch*> launches;
  if (patching_ == Patching::kTable) {
    REPRISE_RETURN_IF_ERROR(AddTable(mechanism));
    launches.push_back(&write_);
  }
  for (size_t i = 0; i < launches_.size(); ++i) {
    const std::span<std::byte> entry = EntryOf(i);
    if (entry.empty()) {
      launches.push_back(launches_[i]);
      continue;
    }
    std::memcpy(entry.data(), launches_[i]->image.data(), entry.size());
    device::Launch& reader = readers_.emplace_back(*launches_[i]);
    reader.function = mechanism.twins[i].function;
    reader.params = mechanism.twins[i].params;
    reader.image.resize(sizeof(CUdeviceptr));
    reader.SetWord(0, table_ + entries_[i].begin);
    launches.push_back(&reader);
  }
  const Dependencies* edges = &dependencies;
  Dependencies behind_table;
  if (first_ != 0) {
    behind_table = BehindTable(dependencies);
    edges = &behind_table;
  }
  REPRISE_ASSIGN_OR_RETURN(
      graph_, LaunchGraph::Create(driver_, launches, upload_stream, edges));
  return {};
}

Dependencies PatchedGraph::BehindTable(const Dependencies& dependencies) const {
  Dependencies shifted(dependencies.size() + first_);
  std::vector<bool> behind(dependencies.size(), false);
  for (size_t i = 0; i < dependencies.size(); ++i) {
    for (const uint32_t before : dependencies[i]) {
      shifted[i + first_].push_back(before + static_cast<uint32_t>(first_));
      if (behind[before]) behind[i] = true;
    }
    if (entries_[i].bytes == 0 || behind[i]) continue;
    shifted[i + first_].push_back(0);
    behind[i] = true;
  }
  return shifted;
}

Status PatchedGraph::AddTable(const Mechanism& mechanism) {
  uint32_t bytes = 0;
  entries_.resize(launches_.size());
  for (size_t i = 0; i < launches_.size(); ++i) {
    if (mechanism.twins[i].function == nullptr) continue;
    entries_[i] = {bytes, static_cast<uint32_t>(launches_[i]->image.size())};
    bytes = TableEnd(bytes, entries_[i].bytes);
  }
  write_ = mechanism.writer;
  // Write(chunk, table, vectors).
  const std::vector<ParamSpan>& params = *write_.params;
  if (bytes == 0 || bytes > params[0].size_bytes) {
    return Fail(Code::kInvalidArgument,
                "a table of " + std::to_string(bytes) +
                    " bytes for a launch that carries " +
                    std::to_string(params[0].size_bytes));
  }
  REPRISE_CU(driver_, cuMemAlloc(&table_, bytes));
  write_.block.x = std::min<uint32_t>(256, bytes / 16);
  write_.image.resize(params[2].offset_bytes + sizeof(int32_t));
  write_.SetWord(params[1].offset_bytes, table_);
  const auto vectors = static_cast<int32_t>(bytes / 16);
  std::memcpy(write_.image.data() + params[2].offset_bytes, &vectors,
              sizeof vectors);
  first_ = 1;
  return {};
}

std::span<std::byte> PatchedGraph::EntryOf(size_t index) {
  if (entries_.empty()) return {};
  const Entry& entry = entries_[index];
  return {write_.image.data() + entry.begin, entry.bytes};
}

Status PatchedGraph::Changed(size_t index) {
  const device::Launch& launch = *launches_[index];
  if (const auto entry = EntryOf(index); !entry.empty()) {
    std::memcpy(entry.data(), launch.image.data(), entry.size());
    table_changed_ = true;
    return {};
  }
  if (patching_ != Patching::kExecUpdate || launch.is_event()) {
    return graph_->Update(first_ + index);
  }
  staged_ = true;
  return graph_->Stage(index);
}

Status PatchedGraph::StageAll() {
  for (size_t i = 0; i < graph_->size(); ++i) {
    REPRISE_RETURN_IF_ERROR(graph_->Stage(i));
  }
  return {};
}

Status PatchedGraph::Apply() {
  if (staged_) {
    if (stale_) REPRISE_RETURN_IF_ERROR(StageAll());
    stale_ = false;
    Status taken = graph_->TakeStaged();
    if (!taken && taken.error().code() == Code::kFailedPrecondition) {
      // One by one, then, and from now on.
      for (size_t i = 0; i < graph_->size(); ++i) {
        REPRISE_RETURN_IF_ERROR(graph_->Update(i));
      }
      patching_ = Patching::kSetParams;
      why_set_params_ = taken.error().message();
      taken = {};
    }
    REPRISE_RETURN_IF_ERROR(taken);
    staged_ = false;
  }
  if (table_changed_) {
    REPRISE_RETURN_IF_ERROR(graph_->Update(0));
    table_changed_ = false;
    table_used_ = false;
  }
  // What was written stays.
  if (first_ != 0 && table_enabled_ == table_used_) {
    REPRISE_RETURN_IF_ERROR(graph_->Enable(0, !table_used_));
    table_enabled_ = !table_used_;
  }
  return {};
}

Status PatchedGraph::Launch(CUstream stream) {
  REPRISE_RETURN_IF_ERROR(Apply());
  REPRISE_RETURN_IF_ERROR(graph_->Launch(stream));
  table_used_ = true;
  return {};
}

// In place: the graph looks at these.
void PatchedGraph::Exchange(std::span<device::Launch> others) {
  for (size_t i = 0; i < others.size(); ++i) {
    std::swap(*launches_[i], others[i]);
  }
}

Status PatchedGraph::TakeOver(std::span<device::Launch> others) {
  if (first_ != 0) {
    return Fail(Code::kFailedPrecondition,
                "a graph with a table is not taken over");
  }
  if (others.size() != launches_.size()) {
    return Fail(Code::kFailedPrecondition, "another number of launches");
  }
  Exchange(others);
  Status taken = StageAll();
  if (taken) taken = graph_->TakeStaged();
  if (taken) {
    staged_ = false;
    stale_ = false;
    return {};
  }
  Exchange(others);
  // The driver does not describe a fill or copy of memory that has gone.
  stale_ = !StageAll();
  return taken;
}

}  // namespace reprise::device
