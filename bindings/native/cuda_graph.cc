#include "bindings/native/cuda_graph.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "bindings/native/event_core.h"
#include "engine/device/context_scope.h"
#include "engine/device/exiting.h"
#include "engine/device/relaxed_capture.h"

namespace reprise::native {
namespace {

device::Dim3 DimOf(const Dim3& dim) { return {dim.x, dim.y, dim.z}; }

std::vector<CUlaunchAttribute> AttributesOf(const Node& node) {
  std::vector<CUlaunchAttribute> attributes;
  const auto add = [&attributes](CUlaunchAttributeID id) -> auto& {
    CUlaunchAttribute& attribute = attributes.emplace_back();
    attribute.id = id;
    return attribute.value;
  };
  if (node.clustered()) {
    add(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION).clusterDim = {
        node.cluster.x, node.cluster.y, node.cluster.z};
  }
  if (node.cooperative != 0) {
    add(CU_LAUNCH_ATTRIBUTE_COOPERATIVE).cooperative = 1;
  }
  if (node.priority != 0) {
    add(CU_LAUNCH_ATTRIBUTE_PRIORITY).priority = node.priority;
  }
  return attributes;
}

uint64_t WordOf(const EventCore& event) {
  return reinterpret_cast<uint64_t>(event.event());
}

bool IsEvent(const device::Launch& launch) {
  return launch.kind == device::Launch::Kind::kWaitEvent ||
         launch.kind == device::Launch::Kind::kRecordEvent;
}

// Of a launch with an image of its size.
void SetArguments(device::Launch& launch, const std::byte* image) {
  std::memcpy(launch.image.data(), image, launch.image.size());
  if (launch.kind == device::Launch::Kind::kMemset) {
    launch.value = BatchRecord::ValueIn(image);
  }
}

}  // namespace

device::Launch LaunchOf(const Node& node, const std::byte* image) {
  device::Launch launch;
  launch.image.resize(node.image_bytes);
  launch.width = node.width;
  switch (node.kind) {
    case Node::Kind::kKernel:
      launch.kind = device::Launch::Kind::kKernel;
      launch.function = node.kernel->function();
      launch.grid = DimOf(node.grid);
      launch.block = DimOf(node.block);
      launch.shared_bytes = node.shared_bytes;
      launch.attributes = AttributesOf(node);
      launch.programmatic = node.programmatic != 0;
      launch.params = node.kernel->params();
      launch.name = node.kernel->shared_name();
      break;
    case Node::Kind::kCopy:
      launch.kind = device::Launch::Kind::kMemcpy;
      break;
    case Node::Kind::kFill:
      launch.kind = device::Launch::Kind::kMemset;
      launch.image.resize(BatchRecord::kFillValue);
      launch.element_bytes = node.element_bytes;
      break;
    case Node::Kind::kWait:
    case Node::Kind::kRecord:
      launch.kind = node.kind == Node::Kind::kWait
                        ? device::Launch::Kind::kWaitEvent
                        : device::Launch::Kind::kRecordEvent;
      launch.SetWord(0, WordOf(EventCore::In(image)));
      return launch;
    case Node::Kind::kCapture:
      launch.kind = device::Launch::Kind::kGraph;
      break;
  }
  SetArguments(launch, image);
  return launch;
}

CudaGraph::~CudaGraph() {
  if (device::Exiting()) return;
  const device::ContextScope scope(driver_, context_);
  const device::RelaxedCapture relaxed(driver_);
  graph_.reset();
  if (table_ != 0) driver_.cuMemFree(table_);
}

Status CudaGraph::Build(const std::vector<Node>& nodes,
                        const std::vector<std::byte>& image,
                        const device::Dependencies& dependencies,
                        CUstream stream, const Captures& captures) {
  launches_.reserve(nodes.size() + 1);
  if (mechanism_.patching == Patching::kTable) {
    REPRISE_RETURN_IF_ERROR(AddTable(nodes));
  }
  for (size_t i = 0; i < nodes.size(); ++i) {
    const Node& node = nodes[i];
    const std::byte* arguments = image.data() + node.image_begin;
    if (node.kernel != nullptr) {
      kernels_.push_back(node.kernel->shared_from_this());
    }
    device::Launch& launch = launches_.emplace_back(LaunchOf(node, arguments));
    if (node.kind == Node::Kind::kCapture) {
      const size_t number = BatchRecord::CaptureIn(arguments);
      launch.graph =
          static_cast<const CapturedGraph&>(*captures[number]).graph.get();
    }
    if (IsEvent(launch)) {
      events_[i] = EventCore::In(arguments).shared_from_this();
    }
    const std::span<std::byte> entry = EntryOf(i);
    if (entry.empty()) continue;
    std::memcpy(entry.data(), arguments, entry.size());
    const KernelCode& twin = *mechanism_.twins[i];
    launch.function = twin.function();
    launch.params = twin.params();
    launch.image.resize(sizeof(CUdeviceptr));
    launch.SetWord(0, table_ + entries_[i].begin);
  }
  std::vector<const device::Launch*> pointers;
  for (const device::Launch& launch : launches_) pointers.push_back(&launch);
  const device::Dependencies* edges = &dependencies;
  device::Dependencies behind_table;
  if (first_ != 0) {
    behind_table = BehindTable(dependencies);
    edges = &behind_table;
  }
  REPRISE_ASSIGN_OR_RETURN(
      graph_, device::LaunchGraph::Create(driver_, pointers, stream, edges));
  return {};
}

device::Dependencies CudaGraph::BehindTable(
    const device::Dependencies& dependencies) const {
  device::Dependencies shifted(dependencies.size() + first_);
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

Status CudaGraph::AddTable(const std::vector<Node>& nodes) {
  uint32_t bytes = 0;
  entries_.resize(nodes.size());
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (mechanism_.twins[i] == nullptr) continue;
    kernels_.push_back(mechanism_.twins[i]);
    entries_[i] = {bytes, nodes[i].image_bytes};
    bytes = TableEnd(bytes, nodes[i]);
  }
  // Write(chunk, table, vectors).
  const KernelCode& writer = *mechanism_.writer;
  const std::vector<device::ParamSpan>& params = *writer.params();
  if (bytes == 0 || bytes > params[0].size_bytes) {
    return base::Fail(Code::kInvalidArgument,
                      "a table of " + std::to_string(bytes) +
                          " bytes for a launch that carries " +
                          std::to_string(params[0].size_bytes));
  }
  REPRISE_CU(driver_, cuMemAlloc(&table_, bytes));
  kernels_.push_back(mechanism_.writer);
  device::Launch& write = launches_.emplace_back();
  write.function = writer.function();
  write.params = writer.params();
  write.name = writer.shared_name();
  write.block.x = std::min<uint32_t>(256, bytes / 16);
  write.image.resize(params[2].offset_bytes + sizeof(int32_t));
  write.SetWord(params[1].offset_bytes, table_);
  const auto vectors = static_cast<int32_t>(bytes / 16);
  std::memcpy(write.image.data() + params[2].offset_bytes, &vectors,
              sizeof vectors);
  first_ = 1;
  return {};
}

std::span<std::byte> CudaGraph::EntryOf(size_t index) {
  if (entries_.empty()) return {};
  const Entry& entry = entries_[index];
  return {launches_[0].image.data() + entry.begin, entry.bytes};
}

Status CudaGraph::Set(size_t index, const std::byte* image) {
  device::Launch& launch = launches_[first_ + index];
  if (IsEvent(launch)) {
    EventCore& event = EventCore::In(image);
    launch.SetWord(0, WordOf(event));
    REPRISE_RETURN_IF_ERROR(graph_->Update(first_ + index));
    events_[index] = event.shared_from_this();
    return {};
  }
  if (const auto entry = EntryOf(index); !entry.empty()) {
    std::memcpy(entry.data(), image, entry.size());
    table_changed_ = true;
    return {};
  }
  SetArguments(launch, image);
  if (mechanism_.patching != Patching::kExecUpdate) {
    return graph_->Update(first_ + index);
  }
  staged_ = true;
  return graph_->Stage(index);
}

Status CudaGraph::StageAll() {
  for (size_t i = 0; i < launches_.size(); ++i) {
    REPRISE_RETURN_IF_ERROR(graph_->Stage(i));
  }
  return {};
}

Status CudaGraph::Apply() {
  if (staged_) {
    if (stale_) REPRISE_RETURN_IF_ERROR(StageAll());
    stale_ = false;
    Status taken = graph_->TakeStaged();
    if (!taken && taken.error().code() == Code::kFailedPrecondition) {
      // One by one, then, and from now on.
      for (size_t i = 0; i < launches_.size(); ++i) {
        REPRISE_RETURN_IF_ERROR(graph_->Update(i));
      }
      mechanism_.patching = Patching::kSetParams;
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

Status CudaGraph::Launch(CUstream stream) {
  REPRISE_RETURN_IF_ERROR(Apply());
  REPRISE_RETURN_IF_ERROR(graph_->Launch(stream));
  table_used_ = true;
  return {};
}

Status CudaGraph::TakeOver(const std::vector<Node>& nodes,
                           const std::vector<std::byte>& image) {
  if (mechanism_.patching == Patching::kTable) {
    return base::Fail(Code::kFailedPrecondition,
                      "a graph with a table is not taken over");
  }
  std::vector<device::Launch> others;
  std::vector<std::shared_ptr<KernelCode>> kernels;
  for (const Node& node : nodes) {
    if (node.kernel != nullptr) {
      kernels.push_back(node.kernel->shared_from_this());
    }
    others.push_back(LaunchOf(node, image.data() + node.image_begin));
  }
  if (others.size() != launches_.size()) {
    return base::Fail(Code::kFailedPrecondition, "another number of launches");
  }
  // In place: the graph looks at these.
  const auto exchange = [&] {
    for (size_t i = 0; i < others.size(); ++i) {
      std::swap(launches_[i], others[i]);
    }
  };
  exchange();
  Status taken = StageAll();
  if (taken) taken = graph_->TakeStaged();
  if (taken) {
    // Launches in flight have what they need of the old ones.
    kernels_ = std::move(kernels);
    staged_ = false;
    stale_ = false;
    return {};
  }
  exchange();
  // The driver does not describe a fill or copy of memory that has gone.
  stale_ = !StageAll();
  return taken;
}

}  // namespace reprise::native
