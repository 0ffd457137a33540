#include "tests/sim/driver_fault.h"

#include <gtest/gtest.h>

namespace reprise::sim {

PlantedFault::PlantedFault(SimulatedGpu& gpu, DriverFault fault)
    : gpu_(gpu), driver_(gpu.driver) {
  EXPECT_EQ(only, nullptr);
  only = this;
  Plant(fault);
}

PlantedFault::~PlantedFault() {
  gpu_.driver = driver_;
  only = nullptr;
}

void PlantedFault::Plant(DriverFault fault) {
  device::Driver& driver = gpu_.driver;
  switch (fault) {
    case DriverFault::kNone:
      break;
    case DriverFault::kSkippedPatch:
      driver.cuGraphExecKernelNodeSetParams =
          [](CUgraphExec exec, CUgraphNode node,
             const CUDA_KERNEL_NODE_PARAMS* params) {
            if (only->NowAndThen()) return CUDA_SUCCESS;
            return only->driver_.cuGraphExecKernelNodeSetParams(exec, node,
                                                                params);
          };
      break;
    case DriverFault::kStaleCopy:
      driver.cuGraphExecMemcpyNodeSetParams =
          [](CUgraphExec, CUgraphNode, const CUDA_MEMCPY3D*, CUcontext) {
            return CUDA_SUCCESS;
          };
      break;
    case DriverFault::kStaleFill:
      driver.cuGraphExecMemsetNodeSetParams =
          [](CUgraphExec, CUgraphNode, const CUDA_MEMSET_NODE_PARAMS*,
             CUcontext) { return CUDA_SUCCESS; };
      break;
    case DriverFault::kStaleUpdate:
      driver.cuGraphExecUpdate = [](CUgraphExec, CUgraph,
                                    CUgraphExecUpdateResultInfo* info) {
        info->result = CU_GRAPH_EXEC_UPDATE_SUCCESS;
        return CUDA_SUCCESS;
      };
      break;
    case DriverFault::kMissingEdge:
      LoseEdges();
      break;
    case DriverFault::kFillOnce:
      FillOnce();
      break;
    case DriverFault::kPatchedInFlight:
      gpu_.patches_in_flight = true;
      break;
    case DriverFault::kTableWrittenOnce:
      driver.cuGraphNodeSetEnabled = [](CUgraphExec exec, CUgraphNode node,
                                        unsigned enabled) {
        if (enabled != 0) return CUDA_SUCCESS;
        return only->driver_.cuGraphNodeSetEnabled(exec, node, enabled);
      };
      break;
    case DriverFault::kLostWait:
      driver.cuStreamWaitEvent = [](CUstream, CUevent, unsigned) {
        return CUDA_SUCCESS;
      };
      break;
    case DriverFault::kFreedAtOnce:
      driver.cuMemFreeAsync = [](CUdeviceptr address, CUstream) {
        const CUstream idle = only->gpu_.streams.Make();
        const CUresult freed = only->driver_.cuMemFreeAsync(address, idle);
        only->gpu_.streams.Synchronize(idle);
        return freed;
      };
      break;
  }
}

void PlantedFault::LoseEdges() {
  device::Driver& driver = gpu_.driver;
  driver.cuGraphAddKernelNode = [](CUgraphNode* node, CUgraph graph,
                                   const CUgraphNode* before, size_t count,
                                   const CUDA_KERNEL_NODE_PARAMS* params) {
    if (count > 0 && only->NowAndThen()) --count;
    return only->driver_.cuGraphAddKernelNode(node, graph, before, count,
                                              params);
  };
  driver.cuGraphAddMemcpyNode =
      [](CUgraphNode* node, CUgraph graph, const CUgraphNode* before,
         size_t count, const CUDA_MEMCPY3D* params, CUcontext context) {
        if (count > 0 && only->NowAndThen()) --count;
        return only->driver_.cuGraphAddMemcpyNode(node, graph, before, count,
                                                  params, context);
      };
}

void PlantedFault::FillOnce() {
  device::Driver& driver = gpu_.driver;
  driver.cuGraphAddMemsetNode = [](CUgraphNode* node, CUgraph graph,
                                   const CUgraphNode* before, size_t count,
                                   const CUDA_MEMSET_NODE_PARAMS* params,
                                   CUcontext context) {
    const CUresult added = only->driver_.cuGraphAddMemsetNode(
        node, graph, before, count, params, context);
    if (added == CUDA_SUCCESS) only->fills_.insert(*node);
    return added;
  };
  // A launch in flight keeps what it was given.
  driver.cuGraphLaunch = [](CUgraphExec exec, CUstream stream) {
    const CUresult launched = only->driver_.cuGraphLaunch(exec, stream);
    for (const CUgraphNode fill : only->fills_) {
      if (only->gpu_.IsOf(fill, exec)) {
        only->driver_.cuGraphNodeSetEnabled(exec, fill, 0);
      }
    }
    return launched;
  };
}

}  // namespace reprise::sim
