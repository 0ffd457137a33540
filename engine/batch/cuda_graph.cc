#include "engine/batch/cuda_graph.h"

#include <cstring>
#include <utility>

#include "engine/batch/batch_event.h"
#include "engine/batch/batch_record.h"

namespace reprise::engine {

using base::Status;

namespace {

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

uint64_t WordOf(const BatchEvent& event) {
  return reinterpret_cast<uint64_t>(event.event());
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
      launch.grid = node.grid;
      launch.block = node.block;
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
      launch.SetWord(0, WordOf(BatchEvent::In(image)));
      return launch;
    case Node::Kind::kCapture:
      launch.kind = device::Launch::Kind::kGraph;
      break;
  }
  SetArguments(launch, image);
  return launch;
}

Status CudaGraph::Build(const std::vector<Node>& nodes,
                        const std::vector<std::byte>& image,
                        const device::Dependencies& dependencies,
                        CUstream stream, const Captures& captures,
                        const Mechanism& mechanism) {
  device::PatchedGraph::Mechanism given{.patching = mechanism.patching};
  if (mechanism.writer != nullptr) {
    const KernelCode& writer = *mechanism.writer;
    kernels_.push_back(mechanism.writer);
    given.writer.function = writer.function();
    given.writer.params = writer.params();
    given.writer.name = writer.shared_name();
  }
  for (const std::shared_ptr<KernelCode>& twin : mechanism.twins) {
    auto& reader = given.twins.emplace_back();
    if (twin == nullptr) continue;
    kernels_.push_back(twin);
    reader = {twin->function(), twin->params()};
  }
  launches_.reserve(nodes.size());
  std::vector<device::Launch*> pointers;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const Node& node = nodes[i];
    const std::byte* arguments = image.data() + node.image_begin;
    if (node.kernel != nullptr) {
      kernels_.push_back(node.kernel->shared_from_this());
    }
    device::Launch& launch = launches_.emplace_back(LaunchOf(node, arguments));
    pointers.push_back(&launch);
    if (node.kind == Node::Kind::kCapture) {
      const size_t number = BatchRecord::CaptureIn(arguments);
      launch.graph =
          static_cast<const CapturedGraph&>(*captures[number]).graph.get();
    }
    if (launch.is_event()) {
      events_[i] = BatchEvent::In(arguments).shared_from_this();
    }
  }
  REPRISE_ASSIGN_OR_RETURN(
      graph_, device::PatchedGraph::Create(driver_, context_, pointers,
                                           dependencies, stream, given));
  return {};
}

Status CudaGraph::Set(size_t index, const std::byte* image) {
  device::Launch& launch = launches_[index];
  if (!launch.is_event()) {
    SetArguments(launch, image);
    return graph_->Changed(index);
  }
  BatchEvent& event = BatchEvent::In(image);
  launch.SetWord(0, WordOf(event));
  REPRISE_RETURN_IF_ERROR(graph_->Changed(index));
  events_[index] = event.shared_from_this();
  return {};
}

Status CudaGraph::TakeOver(const std::vector<Node>& nodes,
                           const std::vector<std::byte>& image) {
  std::vector<device::Launch> others;
  std::vector<std::shared_ptr<KernelCode>> kernels;
  for (const Node& node : nodes) {
    if (node.kernel != nullptr) {
      kernels.push_back(node.kernel->shared_from_this());
    }
    others.push_back(LaunchOf(node, image.data() + node.image_begin));
  }
  REPRISE_RETURN_IF_ERROR(graph_->TakeOver(others));
  // Launches in flight have what they need of the old ones.
  kernels_ = std::move(kernels);
  return {};
}

}  // namespace reprise::engine
