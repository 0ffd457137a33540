#include "engine/device/launch_graph.h"

#include <algorithm>
#include <string>
#include <utility>

#include "engine/device/launch_attribute.h"
#include "engine/device/launch_recorder.h"
#include "engine/device/node_params.h"
#include "engine/device/relaxed_capture.h"
#include "engine/device/shared_memory.h"

namespace reprise::device {
namespace {

using base::Code;
using base::Fail;
using base::Status;

const char* ReasonOf(CUgraphExecUpdateResult result) {
  switch (result) {
    case CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED:
      return "other nodes or edges";
    case CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED:
      return "a node of another kind";
    case CU_GRAPH_EXEC_UPDATE_ERROR_FUNCTION_CHANGED:
    case CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE:
      return "a function that cannot stand in for the one before";
    case CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED:
      return "parameters of a shape that cannot change";
    case CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED:
      return "a node that cannot change";
    case CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED:
      return "other attributes";
    default:
      return "it does not say why";
  }
}

// A line, but for forks.
Dependencies OrderOf(std::span<const Launch* const> launches) {
  Dependencies order(launches.size());
  std::vector<uint32_t> ends;  // launches that none waits for yet
  for (uint32_t i = 0; i < launches.size(); ++i) {
    if (const auto& behind = launches[i]->behind; behind.has_value()) {
      for (const uint32_t distance : *behind) {
        if (distance <= i) order[i].push_back(i - distance);
      }
      std::erase_if(ends, [&](uint32_t end) {
        return std::ranges::find(order[i], end) != order[i].end();
      });
    } else {
      order[i] = std::exchange(ends, {});
    }
    ends.push_back(i);
  }
  return order;
}

}  // namespace

base::Result<std::unique_ptr<LaunchGraph>> LaunchGraph::Create(
    const Driver& driver, std::span<const device::Launch* const> launches,
    CUstream upload_stream, const Dependencies* dependencies) {
  const LaunchRecorder::Hidden hidden;
  const RelaxedCapture relaxed(driver);
  WatchForExit();
  std::unique_ptr<LaunchGraph> made(new LaunchGraph(driver));
  made->launches_.assign(launches.begin(), launches.end());
  made->nodes_.reserve(launches.size());
  REPRISE_CU(driver, cuCtxGetCurrent(&made->context_));
  if (made->context_ == nullptr) {
    return Fail(Code::kFailedPrecondition,
                "a graph needs a CUDA context that is current on this thread");
  }
  CUgraph graph;
  REPRISE_CU(driver, cuGraphCreate(&graph, 0));
  made->graph_ = UniqueGraph(driver, graph);
  Dependencies order;
  if (dependencies == nullptr) {
    order = OrderOf(launches);
    dependencies = &order;
  }
  std::vector<CUgraphNode> before;
  std::vector<CUgraphNode> early;  // whose end need not be waited for
  for (size_t i = 0; i < launches.size(); ++i) {
    before.clear();
    early.clear();
    const auto wait_for = [&](size_t earlier) {
      const bool overlaps = launches[i]->programmatic &&
                            launches[earlier]->kind == Launch::Kind::kKernel;
      (overlaps ? early : before).push_back(made->nodes_[earlier].node);
    };
    for (const uint32_t earlier : (*dependencies)[i]) wait_for(earlier);
    Status added = made->AddNode(*launches[i], before);
    if (added && !early.empty()) added = made->AddEarlyEdges(early);
    if (!added) {
      return tl::unexpected(added.error().In("launch " + std::to_string(i) +
                                             ", " + Describe(*launches[i])));
    }
  }
  CUDA_GRAPH_INSTANTIATE_PARAMS params{};
  params.flags = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
  params.hUploadStream = upload_stream;
  CUgraphExec exec = nullptr;
  if (Status instantiated = Check(
          driver, driver.cuGraphInstantiateWithParams(&exec, graph, &params),
          "cuGraphInstantiateWithParams");
      !instantiated) {
    return tl::unexpected(instantiated.error().In(
        "a graph of " + std::to_string(launches.size()) +
        " launches (instantiation result " + std::to_string(params.result_out) +
        ")"));
  }
  made->exec_ = UniqueGraphExec(driver, exec);
  return made;
}

LaunchGraph::~LaunchGraph() {
  if (Exiting()) return;
  const LaunchRecorder::Hidden hidden;
  const RelaxedCapture relaxed(driver_);
  exec_.Reset();
  graph_.Reset();
}

Status LaunchGraph::AddNode(const device::Launch& launch, Before before) {
  Node node;
  switch (launch.kind) {
    case device::Launch::Kind::kKernel:
      REPRISE_RETURN_IF_ERROR(AddKernelNode(launch, before, node));
      break;
    case device::Launch::Kind::kMemset: {
      const CUDA_MEMSET_NODE_PARAMS params = MemsetNodeParams(launch);
      REPRISE_CU(driver_,
                 cuGraphAddMemsetNode(&node.node, graph_.get(), before.data(),
                                      before.size(), &params, context_));
      break;
    }
    case device::Launch::Kind::kMemcpy: {
      const CUDA_MEMCPY3D params = MemcpyNodeParams(launch);
      REPRISE_CU(driver_,
                 cuGraphAddMemcpyNode(&node.node, graph_.get(), before.data(),
                                      before.size(), &params, context_));
      break;
    }
    case device::Launch::Kind::kWaitEvent:
      REPRISE_CU(driver_, cuGraphAddEventWaitNode(&node.node, graph_.get(),
                                                  before.data(), before.size(),
                                                  EventOf(launch)));
      break;
    case device::Launch::Kind::kRecordEvent:
      REPRISE_CU(driver_, cuGraphAddEventRecordNode(
                              &node.node, graph_.get(), before.data(),
                              before.size(), EventOf(launch)));
      break;
    case device::Launch::Kind::kGraph:
      REPRISE_CU(driver_, cuGraphAddChildGraphNode(&node.node, graph_.get(),
                                                   before.data(), before.size(),
                                                   launch.graph));
      break;
  }
  nodes_.push_back(node);
  return {};
}

Status LaunchGraph::AddEarlyEdges(Before early) {
  CUgraphEdgeData edge{};
  edge.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
  edge.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
  const std::vector<CUgraphEdgeData> edges(early.size(), edge);
  const std::vector<CUgraphNode> to(early.size(), nodes_.back().node);
  REPRISE_CU(driver_,
             cuGraphAddDependencies(graph_.get(), early.data(), to.data(),
                                    edges.data(), early.size()));
  return {};
}

Status LaunchGraph::AddKernelNode(const device::Launch& launch, Before before,
                                  Node& node) {
  KernelArguments arguments(launch);
  CUDA_KERNEL_NODE_PARAMS params = KernelNodeParams(launch, arguments, false);
  const auto add = [&] {
    return driver_.cuGraphAddKernelNode(&node.node, graph_.get(), before.data(),
                                        before.size(), &params);
  };
  if (WithSharedMemory(driver_, launch, add) != CUDA_SUCCESS) {
    params = KernelNodeParams(launch, arguments, true);
    REPRISE_RETURN_IF_ERROR(Check(driver_,
                                  WithSharedMemory(driver_, launch, add),
                                  "cuGraphAddKernelNode"));
    node.by_kernel_handle = true;
  }
  for (const CUlaunchAttribute& attribute : launch.attributes) {
    const AttributeUse use = UseOf(attribute.id);
    if (use == AttributeUse::kOmitted) continue;
    if (use == AttributeUse::kForbidden) {
      return Fail(Code::kInvalidArgument, "a launch with attribute " +
                                              std::to_string(attribute.id) +
                                              " cannot be repeated");
    }
    const CUresult result = driver_.cuGraphKernelNodeSetAttribute(
        node.node, attribute.id, &attribute.value);
    if (result != CUDA_SUCCESS && use == AttributeUse::kRequired) {
      return tl::unexpected(
          driver_.Explain(result, "cuGraphKernelNodeSetAttribute")
              .In("attribute " + std::to_string(attribute.id)));
    }
  }
  return {};
}

Status LaunchGraph::Update(size_t index) {
  const LaunchRecorder::Hidden hidden;
  const device::Launch& launch = *launches_[index];
  const Node& node = nodes_[index];
  switch (launch.kind) {
    case device::Launch::Kind::kKernel: {
      KernelArguments arguments(launch);
      const CUDA_KERNEL_NODE_PARAMS params =
          KernelNodeParams(launch, arguments, node.by_kernel_handle);
      const auto update = [&] {
        return driver_.cuGraphExecKernelNodeSetParams(exec_.get(), node.node,
                                                      &params);
      };
      return Check(driver_, WithSharedMemory(driver_, launch, update),
                   "cuGraphExecKernelNodeSetParams");
    }
    case device::Launch::Kind::kMemset: {
      const CUDA_MEMSET_NODE_PARAMS params = MemsetNodeParams(launch);
      REPRISE_CU(driver_, cuGraphExecMemsetNodeSetParams(exec_.get(), node.node,
                                                         &params, context_));
      return {};
    }
    case device::Launch::Kind::kMemcpy: {
      const CUDA_MEMCPY3D params = MemcpyNodeParams(launch);
      REPRISE_CU(driver_, cuGraphExecMemcpyNodeSetParams(exec_.get(), node.node,
                                                         &params, context_));
      return {};
    }
    case device::Launch::Kind::kWaitEvent:
      REPRISE_CU(driver_, cuGraphExecEventWaitNodeSetEvent(
                              exec_.get(), node.node, EventOf(launch)));
      return {};
    case device::Launch::Kind::kRecordEvent:
      REPRISE_CU(driver_, cuGraphExecEventRecordNodeSetEvent(
                              exec_.get(), node.node, EventOf(launch)));
      return {};
    case device::Launch::Kind::kGraph:
      return Fail(Code::kInvalidArgument, "captured work cannot be updated");
  }
  return Fail(Code::kInvalidArgument, "a launch of no kind");
}

Status LaunchGraph::Stage(size_t index) {
  const LaunchRecorder::Hidden hidden;
  const device::Launch& launch = *launches_[index];
  const Node& node = nodes_[index];
  switch (launch.kind) {
    case device::Launch::Kind::kKernel: {
      KernelArguments arguments(launch);
      const CUDA_KERNEL_NODE_PARAMS params =
          KernelNodeParams(launch, arguments, node.by_kernel_handle);
      const auto stage = [&] {
        return driver_.cuGraphKernelNodeSetParams(node.node, &params);
      };
      return Check(driver_, WithSharedMemory(driver_, launch, stage),
                   "cuGraphKernelNodeSetParams");
    }
    case device::Launch::Kind::kMemset: {
      const CUDA_MEMSET_NODE_PARAMS params = MemsetNodeParams(launch);
      REPRISE_CU(driver_, cuGraphMemsetNodeSetParams(node.node, &params));
      return {};
    }
    case device::Launch::Kind::kMemcpy: {
      const CUDA_MEMCPY3D params = MemcpyNodeParams(launch);
      REPRISE_CU(driver_, cuGraphMemcpyNodeSetParams(node.node, &params));
      return {};
    }
    case device::Launch::Kind::kWaitEvent:
    case device::Launch::Kind::kRecordEvent:
    case device::Launch::Kind::kGraph:
      return Fail(Code::kInvalidArgument,
                  "events and captured work cannot be staged");
  }
  return Fail(Code::kInvalidArgument, "a launch of no kind");
}

Status LaunchGraph::TakeStaged() {
  const LaunchRecorder::Hidden hidden;
  const RelaxedCapture relaxed(driver_);
  CUgraphExecUpdateResultInfo info{};
  const CUresult result =
      driver_.cuGraphExecUpdate(exec_.get(), graph_.get(), &info);
  if (result == CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE) {
    return Fail(Code::kFailedPrecondition,
                "the driver does not take the launches over (" +
                    std::string(ReasonOf(info.result)) + ")");
  }
  return Check(driver_, result, "cuGraphExecUpdate");
}

Status LaunchGraph::Enable(size_t index, bool enabled) {
  const LaunchRecorder::Hidden hidden;
  REPRISE_CU(driver_, cuGraphNodeSetEnabled(exec_.get(), nodes_[index].node,
                                            enabled ? 1 : 0));
  return {};
}

Status LaunchGraph::Launch(CUstream stream) {
  const LaunchRecorder::Hidden hidden;
  REPRISE_CU(driver_, cuGraphLaunch(exec_.get(), stream));
  return {};
}

}  // namespace reprise::device
