#include "bindings/native/cuda_graph.h"

#include <cstring>

#include "bindings/native/event_core.h"

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

}  // namespace

device::Launch LaunchOf(const Node& node, const std::byte* image) {
  device::Launch launch;
  launch.image.assign(image, image + node.image_bytes);
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
      launch.value = node.value;
      launch.element_bytes = node.element_bytes;
      break;
    case Node::Kind::kWait:
    case Node::Kind::kRecord:
      launch.kind = node.kind == Node::Kind::kWait
                        ? device::Launch::Kind::kWaitEvent
                        : device::Launch::Kind::kRecordEvent;
      launch.SetWord(0, WordOf(EventCore::In(image)));
      break;
    case Node::Kind::kCapture:
      launch.kind = device::Launch::Kind::kGraph;
      break;
  }
  return launch;
}

Status CudaGraph::Build(const std::vector<Node>& nodes,
                        const std::vector<std::byte>& image,
                        const device::Dependencies& dependencies,
                        CUstream stream, const Captures& captures) {
  launches_.reserve(nodes.size());
  std::vector<const device::Launch*> pointers;
  for (const Node& node : nodes) {
    if (node.kernel != nullptr) {
      kernels_.push_back(node.kernel->shared_from_this());
    }
    pointers.push_back(&launches_.emplace_back(
        LaunchOf(node, image.data() + node.image_begin)));
    if (node.kind == Node::Kind::kCapture) {
      const size_t number =
          BatchRecord::CaptureIn(image.data() + node.image_begin);
      launches_.back().graph =
          static_cast<const CapturedGraph&>(*captures[number]).graph.get();
    }
    if (IsEvent(launches_.back())) {
      events_[launches_.size() - 1] =
          EventCore::In(image.data() + node.image_begin).shared_from_this();
    }
  }
  REPRISE_ASSIGN_OR_RETURN(
      graph_,
      device::LaunchGraph::Create(driver_, pointers, stream, &dependencies));
  return {};
}

Status CudaGraph::Set(size_t index, const std::byte* image) {
  device::Launch& launch = launches_[index];
  if (IsEvent(launch)) {
    EventCore& event = EventCore::In(image);
    launch.SetWord(0, WordOf(event));
    REPRISE_RETURN_IF_ERROR(graph_->Update(index));
    events_[index] = event.shared_from_this();
    return {};
  }
  std::vector<std::byte>& kept = launch.image;
  std::memcpy(kept.data(), image, kept.size());
  return graph_->Update(index);
}

}  // namespace reprise::native
