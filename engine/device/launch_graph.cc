#include "engine/device/launch_graph.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "engine/device/launch_attribute.h"
#include "engine/device/launch_recorder.h"
#include "engine/device/relaxed_capture.h"

namespace reprise::device {
namespace {

using base::Code;
using base::Fail;
using base::Status;

// The parameters of a kernel launch in the form that the driver takes, as
// pointers into the launch's image. The driver reads them during the call.
class KernelArguments {
 public:
  explicit KernelArguments(const Launch& launch) {
    // The driver's interface is not const, but it only reads.
    auto* image = const_cast<std::byte*>(launch.image.data());
    if (launch.packed) {
      size_bytes_ = launch.image.size();
      extra_ = {CU_LAUNCH_PARAM_BUFFER_POINTER, image,
                CU_LAUNCH_PARAM_BUFFER_SIZE, &size_bytes_, CU_LAUNCH_PARAM_END};
      packed_ = true;
      return;
    }
    if (launch.params == nullptr) return;
    const size_t count = launch.params->size();
    if (count == 0) return;
    if (count > few_.size()) many_.resize(count);
    params_ = count > few_.size() ? many_.data() : few_.data();
    for (size_t i = 0; i < count; ++i) {
      params_[i] = image + (*launch.params)[i].offset_bytes;
    }
  }
  KernelArguments(const KernelArguments&) = delete;
  KernelArguments& operator=(const KernelArguments&) = delete;

  void** params() { return params_; }
  void** extra() { return packed_ ? extra_.data() : nullptr; }

 private:
  std::array<void*, 32> few_;
  std::vector<void*> many_;
  void** params_ = nullptr;
  std::array<void*, 5> extra_;
  size_t size_bytes_ = 0;
  bool packed_ = false;
};

CUDA_KERNEL_NODE_PARAMS KernelNodeParams(const Launch& launch,
                                         KernelArguments& arguments,
                                         bool by_kernel_handle) {
  CUDA_KERNEL_NODE_PARAMS params{};
  if (by_kernel_handle) {
    params.kern = reinterpret_cast<CUkernel>(launch.function);
  } else {
    params.func = launch.function;
  }
  params.gridDimX = launch.grid.x;
  params.gridDimY = launch.grid.y;
  params.gridDimZ = launch.grid.z;
  params.blockDimX = launch.block.x;
  params.blockDimY = launch.block.y;
  params.blockDimZ = launch.block.z;
  params.sharedMemBytes = launch.shared_bytes;
  params.kernelParams = arguments.params();
  params.extra = arguments.extra();
  return params;
}

CUDA_MEMSET_NODE_PARAMS MemsetNodeParams(const Launch& launch) {
  CUDA_MEMSET_NODE_PARAMS params{};
  params.dst = launch.Word(0);
  params.pitch = launch.pitch_bytes;
  params.value = launch.value;
  params.elementSize = launch.element_bytes;
  params.width = launch.width;
  params.height = launch.height;
  return params;
}

CUevent EventOf(const Launch& launch) {
  return reinterpret_cast<CUevent>(launch.Word(0));
}

CUDA_MEMCPY3D MemcpyNodeParams(const Launch& launch) {
  CUDA_MEMCPY3D params{};
  params.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  params.srcDevice = launch.Word(8);
  params.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  params.dstDevice = launch.Word(0);
  params.WidthInBytes = launch.width;
  params.Height = 1;
  params.Depth = 1;
  return params;
}

// How much dynamic shared memory a kernel may have is a setting of its
// function: a library that launches it with other sizes sets what it needs each
// time, so that a launch of before may ask for more than is allowed now. The
// most that the device has is set then: whoever sets less meanwhile does so for
// a launch of its own, and nobody who sets more finds less.
bool AllowSharedMemory(const Driver& driver, const Launch& launch) {
  CUfunction function = launch.function;
  int own_bytes = 0;
  const auto own = [&] {
    return driver.cuFuncGetAttribute(
        &own_bytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function);
  };
  if (own() != CUDA_SUCCESS) {  // a handle of a kernel, of whatever context
    if (driver.cuKernelGetFunction(
            &function, reinterpret_cast<CUkernel>(launch.function)) !=
            CUDA_SUCCESS ||
        own() != CUDA_SUCCESS) {
      return false;
    }
  }
  CUdevice device = 0;
  int most_bytes = 0;
  return driver.cuCtxGetDevice(&device) == CUDA_SUCCESS &&
         driver.cuDeviceGetAttribute(
             &most_bytes, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
             device) == CUDA_SUCCESS &&
         driver.cuFuncSetAttribute(
             function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
             most_bytes - own_bytes) == CUDA_SUCCESS;
}

// What `call` says that is given the kernel's launch; it may be called again.
template <typename Call>
CUresult WithSharedMemory(const Driver& driver, const Launch& launch,
                          const Call& call) {
  constexpr int kTries = 4;  // another thread may set less in between
  CUresult result = call();
  for (int tries = 0; tries < kTries && result == CUDA_ERROR_INVALID_VALUE &&
                      launch.shared_bytes > 0;
       ++tries) {
    if (!AllowSharedMemory(driver, launch)) break;
    result = call();
  }
  return result;
}

Status EnqueueKernel(const Driver& driver, const Launch& launch,
                     CUstream stream) {
  std::vector<CUlaunchAttribute> attributes;
  for (const CUlaunchAttribute& attribute : launch.attributes) {
    switch (UseOf(attribute.id)) {
      case AttributeUse::kRequired:
      case AttributeUse::kHint:
        attributes.push_back(attribute);
        break;
      case AttributeUse::kOmitted:
        break;
      case AttributeUse::kForbidden:
        return Fail(Code::kInvalidArgument, "a launch with attribute " +
                                                std::to_string(attribute.id) +
                                                " cannot be repeated");
    }
  }
  if (launch.programmatic) {
    CUlaunchAttribute& attribute = attributes.emplace_back();
    attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    attribute.value.programmaticStreamSerializationAllowed = 1;
  }
  CUlaunchConfig config{};
  config.gridDimX = launch.grid.x;
  config.gridDimY = launch.grid.y;
  config.gridDimZ = launch.grid.z;
  config.blockDimX = launch.block.x;
  config.blockDimY = launch.block.y;
  config.blockDimZ = launch.block.z;
  config.sharedMemBytes = launch.shared_bytes;
  config.hStream = stream;
  config.attrs = attributes.data();
  config.numAttrs = static_cast<unsigned>(attributes.size());
  KernelArguments arguments(launch);
  const auto enqueue = [&] {
    return driver.cuLaunchKernelEx(&config, launch.function, arguments.params(),
                                   arguments.extra());
  };
  return Check(driver, WithSharedMemory(driver, launch, enqueue),
               "cuLaunchKernelEx");
}

Status EnqueueMemset(const Driver& driver, const Launch& launch,
                     CUstream stream) {
  const CUdeviceptr to = launch.Word(0);
  const size_t pitch = launch.pitch_bytes;
  const size_t width = launch.width;
  const size_t height = launch.height;
  const bool flat = height == 1;
  CUresult result = CUDA_ERROR_INVALID_VALUE;
  switch (launch.element_bytes) {
    case 1: {
      const auto value = static_cast<unsigned char>(launch.value);
      result = flat ? driver.cuMemsetD8Async(to, value, width, stream)
                    : driver.cuMemsetD2D8Async(to, pitch, value, width, height,
                                               stream);
      break;
    }
    case 2: {
      const auto value = static_cast<unsigned short>(launch.value);
      result = flat ? driver.cuMemsetD16Async(to, value, width, stream)
                    : driver.cuMemsetD2D16Async(to, pitch, value, width, height,
                                                stream);
      break;
    }
    case 4:
      result = flat ? driver.cuMemsetD32Async(to, launch.value, width, stream)
                    : driver.cuMemsetD2D32Async(to, pitch, launch.value, width,
                                                height, stream);
      break;
  }
  return Check(driver, result, "memset");
}

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

}  // namespace

Status Enqueue(const Driver& driver, const Launch& launch, CUstream stream) {
  const LaunchRecorder::Hidden hidden;
  switch (launch.kind) {
    case Launch::Kind::kKernel:
      return EnqueueKernel(driver, launch, stream);
    case Launch::Kind::kMemset:
      return EnqueueMemset(driver, launch, stream);
    case Launch::Kind::kMemcpy:
      return Check(driver,
                   driver.cuMemcpyDtoDAsync(launch.Word(0), launch.Word(8),
                                            launch.width, stream),
                   "cuMemcpyDtoDAsync");
    case Launch::Kind::kWaitEvent:
      return Check(driver, driver.cuStreamWaitEvent(stream, EventOf(launch), 0),
                   "cuStreamWaitEvent");
    case Launch::Kind::kRecordEvent:
      return Check(driver, driver.cuEventRecord(EventOf(launch), stream),
                   "cuEventRecord");
    case Launch::Kind::kGraph:
      return Fail(Code::kInvalidArgument,
                  "captured work is launched as part of a graph only");
  }
  return Fail(Code::kInvalidArgument, "a launch of no kind");
}

namespace {

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
