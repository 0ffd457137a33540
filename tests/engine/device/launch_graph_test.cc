// Graphs of launches on a simulated driver: what is built, patched and ended.

#include "engine/device/launch_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <functional>
#include <string>

namespace reprise::device {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// What a driver was asked to do, in words; parameters are read during the call.
struct Simulation {
  std::vector<std::string> log;
  uintptr_t nodes = 0;
  int graphs = 0;
  int execs = 0;
  bool functions_are_kernels = false;
  bool instantiate_fails = false;
  bool refuses_updates = false;
  std::vector<CUlaunchAttributeID> refused_attributes;
  int allowed_shared_bytes = 48 << 10;  // of the only function
  int lowered = 0;  // so often is it less again as soon as it has been set
  CUcontext context = std::bit_cast<CUcontext>(uintptr_t{0xc0});
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  CUstreamCaptureMode mode_at_instantiation = CU_STREAM_CAPTURE_MODE_GLOBAL;
};
Simulation* simulation = nullptr;

uint64_t FirstParam(void** params, void** extra) {
  uint64_t word = 0;
  if (params != nullptr) std::memcpy(&word, params[0], sizeof word);
  if (extra != nullptr) std::memcpy(&word, extra[1], sizeof word);
  return word;
}

CUgraphNode NewNode() {
  return std::bit_cast<CUgraphNode>(++simulation->nodes);
}

bool IsAllowed(unsigned shared_bytes) {
  return static_cast<int>(shared_bytes) <= simulation->allowed_shared_bytes;
}

std::string Number(CUgraphNode node) {
  return std::to_string(reinterpret_cast<uintptr_t>(node));
}

std::string After(const CUgraphNode* dependencies, size_t count) {
  std::string after = count == 0 ? "" : " after";
  for (size_t i = 0; i < count; ++i) after += " " + Number(dependencies[i]);
  return after;
}

Driver SimulatedDriver() {
  Driver driver;
  driver.cuGetErrorName = [](CUresult, const char** name) {
    *name = "CUDA_ERROR_SIMULATED";
    return CUDA_SUCCESS;
  };
  driver.cuCtxGetCurrent = [](CUcontext* context) {
    *context = simulation->context;
    return CUDA_SUCCESS;
  };
  driver.cuCtxGetDevice = [](CUdevice* device) {
    *device = 0;
    return CUDA_SUCCESS;
  };
  driver.cuDeviceGetAttribute = [](int* value, CUdevice_attribute attribute,
                                   CUdevice) {
    EXPECT_EQ(attribute, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
    *value = 100'000;
    return CUDA_SUCCESS;
  };
  driver.cuFuncGetAttribute = [](int* value, CUfunction_attribute attribute,
                                 CUfunction) {
    EXPECT_EQ(attribute, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
    *value = 1'000;
    return CUDA_SUCCESS;
  };
  driver.cuFuncSetAttribute = [](CUfunction, CUfunction_attribute attribute,
                                 int value) {
    EXPECT_EQ(attribute, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
    if (simulation->lowered-- > 0) return CUDA_SUCCESS;
    simulation->allowed_shared_bytes = value;
    return CUDA_SUCCESS;
  };
  driver.cuThreadExchangeStreamCaptureMode = [](CUstreamCaptureMode* mode) {
    std::swap(simulation->mode, *mode);
    return CUDA_SUCCESS;
  };
  driver.cuGraphCreate = [](CUgraph* graph, unsigned) {
    *graph = std::bit_cast<CUgraph>(uintptr_t{0x9});
    ++simulation->graphs;
    return CUDA_SUCCESS;
  };
  driver.cuGraphDestroy = [](CUgraph) {
    EXPECT_EQ(simulation->execs, 0) << "the executable graph goes first";
    --simulation->graphs;
    return CUDA_SUCCESS;
  };
  driver.cuGraphAddKernelNode = [](CUgraphNode* node, CUgraph,
                                   const CUgraphNode* before, size_t count,
                                   const CUDA_KERNEL_NODE_PARAMS* p) {
    if (simulation->functions_are_kernels && p->func != nullptr) {
      return CUDA_ERROR_INVALID_HANDLE;
    }
    if (!IsAllowed(p->sharedMemBytes)) return CUDA_ERROR_INVALID_VALUE;
    *node = NewNode();
    simulation->log.push_back(
        std::string(p->func != nullptr ? "function " : "kernel ") +
        std::to_string(FirstParam(p->kernelParams, p->extra)) +
        (p->extra != nullptr ? " packed" : "") + After(before, count));
    return CUDA_SUCCESS;
  };
  driver.cuGraphKernelNodeSetAttribute = [](CUgraphNode, CUlaunchAttributeID id,
                                            const CUlaunchAttributeValue*) {
    for (const CUlaunchAttributeID refused : simulation->refused_attributes) {
      if (refused == id) return CUDA_ERROR_INVALID_VALUE;
    }
    simulation->log.push_back("attribute " + std::to_string(id));
    return CUDA_SUCCESS;
  };
  driver.cuGraphAddMemsetNode = [](CUgraphNode* node, CUgraph,
                                   const CUgraphNode* before, size_t count,
                                   const CUDA_MEMSET_NODE_PARAMS* p,
                                   CUcontext context) {
    EXPECT_EQ(context, simulation->context);
    *node = NewNode();
    simulation->log.push_back("fill " + std::to_string(p->dst) + " with " +
                              std::to_string(p->value) + After(before, count));
    return CUDA_SUCCESS;
  };
  driver.cuGraphAddMemcpyNode = [](CUgraphNode* node, CUgraph,
                                   const CUgraphNode* before, size_t count,
                                   const CUDA_MEMCPY3D* p, CUcontext context) {
    EXPECT_EQ(context, simulation->context);
    *node = NewNode();
    simulation->log.push_back("copy " + std::to_string(p->srcDevice) + " to " +
                              std::to_string(p->dstDevice) +
                              After(before, count));
    return CUDA_SUCCESS;
  };
  driver.cuGraphInstantiateWithParams = [](CUgraphExec* exec, CUgraph,
                                           CUDA_GRAPH_INSTANTIATE_PARAMS* p) {
    EXPECT_EQ(p->flags, cuuint64_t{CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD});
    simulation->mode_at_instantiation = simulation->mode;
    if (simulation->instantiate_fails) return CUDA_ERROR_OUT_OF_MEMORY;
    *exec = std::bit_cast<CUgraphExec>(uintptr_t{0xe});
    ++simulation->execs;
    return CUDA_SUCCESS;
  };
  driver.cuGraphExecDestroy = [](CUgraphExec) {
    --simulation->execs;
    return CUDA_SUCCESS;
  };
  driver.cuGraphExecKernelNodeSetParams = [](CUgraphExec, CUgraphNode node,
                                             const CUDA_KERNEL_NODE_PARAMS* p) {
    EXPECT_EQ(p->func == nullptr, simulation->functions_are_kernels);
    if (!IsAllowed(p->sharedMemBytes)) return CUDA_ERROR_INVALID_VALUE;
    simulation->log.push_back(
        "update " + Number(node) + " to " +
        std::to_string(FirstParam(p->kernelParams, p->extra)));
    return CUDA_SUCCESS;
  };
  driver.cuGraphExecMemsetNodeSetParams = [](CUgraphExec, CUgraphNode node,
                                             const CUDA_MEMSET_NODE_PARAMS* p,
                                             CUcontext) {
    simulation->log.push_back("update " + Number(node) + " to fill " +
                              std::to_string(p->dst));
    return CUDA_SUCCESS;
  };
  driver.cuGraphExecMemcpyNodeSetParams =
      [](CUgraphExec, CUgraphNode node, const CUDA_MEMCPY3D* p, CUcontext) {
        simulation->log.push_back("update " + Number(node) + " to copy to " +
                                  std::to_string(p->dstDevice));
        return CUDA_SUCCESS;
      };
  driver.cuGraphKernelNodeSetParams = [](CUgraphNode node,
                                         const CUDA_KERNEL_NODE_PARAMS* p) {
    if (!IsAllowed(p->sharedMemBytes)) return CUDA_ERROR_INVALID_VALUE;
    simulation->log.push_back(
        "stage " + Number(node) + " with " +
        std::to_string(FirstParam(p->kernelParams, p->extra)) + ", grid " +
        std::to_string(p->gridDimX));
    return CUDA_SUCCESS;
  };
  driver.cuGraphMemsetNodeSetParams = [](CUgraphNode node,
                                         const CUDA_MEMSET_NODE_PARAMS* p) {
    simulation->log.push_back("stage " + Number(node) + " to fill " +
                              std::to_string(p->dst));
    return CUDA_SUCCESS;
  };
  driver.cuGraphMemcpyNodeSetParams = [](CUgraphNode node,
                                         const CUDA_MEMCPY3D* p) {
    simulation->log.push_back("stage " + Number(node) + " to copy to " +
                              std::to_string(p->dstDevice));
    return CUDA_SUCCESS;
  };
  driver.cuGraphExecUpdate = [](CUgraphExec, CUgraph,
                                CUgraphExecUpdateResultInfo* info) {
    simulation->log.push_back("take");
    if (!simulation->refuses_updates) return CUDA_SUCCESS;
    info->result = CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE;
    return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  };
  driver.cuGraphNodeSetEnabled = [](CUgraphExec, CUgraphNode node,
                                    unsigned enabled) {
    simulation->log.push_back((enabled != 0 ? "enable " : "disable ") +
                              Number(node));
    return CUDA_SUCCESS;
  };
  driver.cuGraphLaunch = [](CUgraphExec, CUstream) {
    simulation->log.push_back("launch");
    return CUDA_SUCCESS;
  };
  return driver;
}

class LaunchGraphTest : public ::testing::Test {
 protected:
  LaunchGraphTest() {
    simulation = &simulation_;
    kernel_.function = std::bit_cast<CUfunction>(uintptr_t{0xf00});
    kernel_.name = std::make_shared<const std::string>("some_kernel");
    kernel_.params = std::make_shared<const std::vector<ParamSpan>>(
        std::vector<ParamSpan>{{0, 8}});
    kernel_.image.resize(8);
    kernel_.SetWord(0, 100);
    fill_.kind = Launch::Kind::kMemset;
    fill_.image.resize(8);
    fill_.SetWord(0, 200);
    fill_.value = 3;
    fill_.element_bytes = 2;
    fill_.width = 16;
    copy_.kind = Launch::Kind::kMemcpy;
    copy_.image.resize(16);
    copy_.SetWord(0, 300);
    copy_.SetWord(8, 400);
    copy_.width = 16;
  }
  ~LaunchGraphTest() override {
    EXPECT_EQ(simulation_.graphs, 0);
    EXPECT_EQ(simulation_.execs, 0);
    EXPECT_EQ(simulation_.mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
  }

  base::Result<std::unique_ptr<LaunchGraph>> Create(
      std::vector<const Launch*> launches) {
    return LaunchGraph::Create(driver_, launches, nullptr);
  }

  Simulation simulation_;
  const Driver driver_ = SimulatedDriver();
  Launch kernel_;
  Launch fill_;
  Launch copy_;
};

TEST_F(LaunchGraphTest, ChainsLaunchesInProgramOrder) {
  const auto graph = Create({&kernel_, &fill_, &copy_});
  ASSERT_TRUE(graph) << graph.error().message();
  EXPECT_EQ((*graph)->size(), 3u);
  EXPECT_THAT(simulation_.log,
              ElementsAre("function 100", "fill 200 with 3 after 1",
                          "copy 400 to 300 after 2"));
  ASSERT_TRUE((*graph)->Launch(nullptr));
  EXPECT_EQ(simulation_.log.back(), "launch");
}

// Two forks, of which the second begins at once, and what waits for both.
TEST_F(LaunchGraphTest, ForksOfAnOpRunSideBySide) {
  Launch first = fill_;
  first.behind = {1};
  Launch second = copy_;
  second.behind = {2};
  const auto graph = Create({&kernel_, &first, &second, &fill_, &copy_});
  ASSERT_TRUE(graph) << graph.error().message();
  EXPECT_THAT(
      simulation_.log,
      ElementsAre("function 100", "fill 200 with 3 after 1",
                  "copy 400 to 300 after 1", "fill 200 with 3 after 2 3",
                  "copy 400 to 300 after 4"));
}

TEST_F(LaunchGraphTest, TakesWholeLaunchesOver) {
  const auto graph = Create({&kernel_, &fill_, &copy_});
  ASSERT_TRUE(graph);
  simulation_.log.clear();
  kernel_.SetWord(0, 101);
  kernel_.grid.x = 7;
  fill_.SetWord(0, 201);
  copy_.SetWord(0, 301);
  for (size_t i = 0; i < 3; ++i) ASSERT_TRUE((*graph)->Stage(i));
  ASSERT_TRUE((*graph)->TakeStaged());
  EXPECT_THAT(simulation_.log,
              ElementsAre("stage 1 with 101, grid 7", "stage 2 to fill 201",
                          "stage 3 to copy to 301", "take"));
}

TEST_F(LaunchGraphTest, TellsWhyTheDriverTakesNothingOver) {
  const auto graph = Create({&kernel_});
  ASSERT_TRUE(graph);
  simulation_.refuses_updates = true;
  ASSERT_TRUE((*graph)->Stage(0));
  const base::Status taken = (*graph)->TakeStaged();
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().code(), base::Code::kFailedPrecondition);
  EXPECT_THAT(taken.error().message(), HasSubstr("a function that cannot"));
  EXPECT_TRUE((*graph)->Launch(nullptr));
}

TEST_F(LaunchGraphTest, LaunchesCanBeLeftOut) {
  const auto graph = Create({&kernel_, &fill_});
  ASSERT_TRUE(graph);
  simulation_.log.clear();
  ASSERT_TRUE((*graph)->Enable(1, false));
  ASSERT_TRUE((*graph)->Enable(1, true));
  EXPECT_THAT(simulation_.log, ElementsAre("disable 2", "enable 2"));
}

// A capture that another thread has under way must survive an instantiation.
TEST_F(LaunchGraphTest, InstantiatesInRelaxedCaptureMode) {
  ASSERT_TRUE(Create({&kernel_}));
  EXPECT_EQ(simulation_.mode_at_instantiation, CU_STREAM_CAPTURE_MODE_RELAXED);
  EXPECT_EQ(simulation_.mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

TEST_F(LaunchGraphTest, UpdateWritesTheChangedImage) {
  const auto graph = Create({&kernel_, &fill_, &copy_});
  ASSERT_TRUE(graph);
  simulation_.log.clear();
  kernel_.SetWord(0, 101);
  fill_.SetWord(0, 201);
  copy_.SetWord(0, 301);
  for (size_t i = 0; i < 3; ++i) ASSERT_TRUE((*graph)->Update(i));
  EXPECT_THAT(simulation_.log,
              ElementsAre("update 1 to 101", "update 2 to fill 201",
                          "update 3 to copy to 301"));
}

TEST_F(LaunchGraphTest, TakesKernelHandlesWhereFunctionsAreRefused) {
  simulation_.functions_are_kernels = true;
  const auto graph = Create({&kernel_});
  ASSERT_TRUE(graph);
  EXPECT_THAT(simulation_.log, ElementsAre("kernel 100"));
  EXPECT_TRUE((*graph)->Update(0));
}

// A library has set less for another launch of the kernel, and may do so again.
TEST_F(LaunchGraphTest, SharedMemoryIsAllowedAsWhenTheKernelWasLaunched) {
  kernel_.shared_bytes = 16'384;
  simulation_.allowed_shared_bytes = 4'096;
  simulation_.lowered = 2;
  const auto graph = Create({&kernel_});
  ASSERT_TRUE(graph) << graph.error().message();
  EXPECT_EQ(simulation_.allowed_shared_bytes, 99'000);
  for (const auto& use :
       {std::function<base::Status()>([&] { return (*graph)->Update(0); }),
        std::function<base::Status()>([&] { return (*graph)->Stage(0); })}) {
    simulation_.allowed_shared_bytes = 4'096;
    EXPECT_TRUE(use());
    EXPECT_EQ(simulation_.allowed_shared_bytes, 99'000);
  }
}

TEST_F(LaunchGraphTest, MoreSharedMemoryThanThereIsIsAFailure) {
  kernel_.shared_bytes = 100'000;
  EXPECT_FALSE(Create({&kernel_}));
}

TEST_F(LaunchGraphTest, PassesPackedParametersPacked) {
  kernel_.packed = true;
  kernel_.params = nullptr;
  ASSERT_TRUE(Create({&kernel_}));
  EXPECT_THAT(simulation_.log, ElementsAre("function 100 packed"));
}

TEST_F(LaunchGraphTest, KernelsOfManyParametersAreUpdatedWhole) {
  std::vector<ParamSpan> spans;
  for (uint32_t i = 0; i < 100; ++i) spans.push_back({i * 8, 8});
  kernel_.params =
      std::make_shared<const std::vector<ParamSpan>>(std::move(spans));
  kernel_.image.resize(800);
  ASSERT_TRUE(Create({&kernel_}));
  EXPECT_THAT(simulation_.log, ElementsAre("function 100"));
}

TEST_F(LaunchGraphTest, SetsAttributesAndOmitsOverlap) {
  for (const CUlaunchAttributeID id :
       {CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
        CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
        CU_LAUNCH_ATTRIBUTE_PRIORITY}) {
    CUlaunchAttribute attribute{};
    attribute.id = id;
    kernel_.attributes.push_back(attribute);
  }
  ASSERT_TRUE(Create({&kernel_}));
  EXPECT_THAT(simulation_.log,
              ElementsAre("function 100", "attribute 4", "attribute 8"));
}

TEST_F(LaunchGraphTest, RefusedHintIsNoFailure) {
  kernel_.attributes.resize(1);
  kernel_.attributes[0].id =
      CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT;
  simulation_.refused_attributes = {kernel_.attributes[0].id};
  EXPECT_TRUE(Create({&kernel_}));
}

TEST_F(LaunchGraphTest, RefusedClusterIsAFailureThatNamesTheLaunch) {
  kernel_.attributes.resize(1);
  kernel_.attributes[0].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  simulation_.refused_attributes = {kernel_.attributes[0].id};
  const auto graph = Create({&fill_, &kernel_});
  ASSERT_FALSE(graph);
  EXPECT_THAT(graph.error().message(),
              AllOf(HasSubstr("launch 1"), HasSubstr("some_kernel"),
                    HasSubstr("attribute 4"), HasSubstr("SIMULATED")));
}

TEST_F(LaunchGraphTest, ForbiddenAttributesAreRefused) {
  kernel_.attributes.resize(1);
  kernel_.attributes[0].id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT;
  EXPECT_FALSE(Create({&kernel_}));
}

TEST_F(LaunchGraphTest, FailedInstantiationLeavesNothingBehind) {
  simulation_.instantiate_fails = true;
  const auto graph = Create({&kernel_});
  ASSERT_FALSE(graph);
  EXPECT_EQ(graph.error().code(), base::Code::kResourceExhausted);
}

TEST_F(LaunchGraphTest, NeedsACurrentContext) {
  simulation_.context = nullptr;
  const auto graph = Create({&kernel_});
  ASSERT_FALSE(graph);
  EXPECT_EQ(graph.error().code(), base::Code::kFailedPrecondition);
}

TEST_F(LaunchGraphTest, NoLaunchesMakeAnEmptyGraph) {
  const auto graph = Create({});
  ASSERT_TRUE(graph);
  EXPECT_EQ((*graph)->size(), 0u);
  EXPECT_THAT(simulation_.log, IsEmpty());
}

}  // namespace
}  // namespace reprise::device
