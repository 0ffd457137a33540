#include "engine/batch/launch_limits.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "engine/batch/kernel_code.h"

namespace reprise::engine {

using base::Code;
using base::Error;
using base::Result;
using base::Status;

namespace {

// What every kernel may have of each without asking.
constexpr int kPlainSharedBytes = 48 << 10;
constexpr uint64_t kPlainClusterBlocks = 8;
constexpr int kHostMultiprocessors = 132;
constexpr int kHostThreadsOfABlock = 1024;
constexpr uint32_t kWarp = 32;
constexpr char kSmallerBlocks[] = ": give more blocks of fewer threads";

tl::unexpected<Error> Refuse(std::string why) {
  return base::Fail(Code::kInvalidArgument, std::move(why));
}

uint64_t BlocksOf(const Dim3& dim) { return uint64_t{dim.x} * dim.y * dim.z; }

Status AdmitShape(const LaunchLimits& limits, const Node& node) {
  const uint64_t grid[] = {node.grid.x, node.grid.y, node.grid.z};
  const uint64_t block[] = {node.block.x, node.block.y, node.block.z};
  for (int d = 0; d < 3; ++d) {
    if (grid[d] > static_cast<uint64_t>(limits.grid[d])) {
      return Refuse("a grid of " + std::to_string(grid[d]) + " in direction " +
                    std::to_string(d) + ", the device takes " +
                    std::to_string(limits.grid[d]) +
                    (d > 0 ? ": direction 0 takes more" : ""));
    }
    if (block[d] > static_cast<uint64_t>(limits.block[d])) {
      return Refuse("a block of " + std::to_string(block[d]) +
                    " in direction " + std::to_string(d) +
                    ", the device takes " + std::to_string(limits.block[d]) +
                    kSmallerBlocks);
    }
  }
  if (BlocksOf(node.block) > static_cast<uint64_t>(limits.threads)) {
    return Refuse("a block of " + std::to_string(BlocksOf(node.block)) +
                  " threads, the device takes " +
                  std::to_string(limits.threads) + kSmallerBlocks);
  }
  return {};
}

Status AdmitSharedMemory(const Occupancy& occupancy, const LaunchLimits& limits,
                         const Node& node) {
  KernelCode& kernel = *node.kernel;
  REPRISE_ASSIGN_OR_RETURN(const int own, occupancy.OwnSharedBytes(kernel));
  const int64_t wanted = int64_t{node.shared_bytes} + own;
  if (wanted > limits.shared_bytes) {
    return Refuse(std::to_string(node.shared_bytes) +
                  " bytes of dynamic shared memory beside " +
                  std::to_string(own) +
                  " of the kernel's own, the device has " +
                  std::to_string(limits.shared_bytes) + " for a block");
  }
  if (wanted <= kPlainSharedBytes || kernel.large_shared()) return {};
  // All that there is, so that launches of other sizes need not ask again.
  REPRISE_RETURN_IF_ERROR(
      occupancy.AllowShared(kernel, limits.shared_bytes - own));
  kernel.set_large_shared();
  return {};
}

Status AdmitCluster(const Occupancy& occupancy, const LaunchLimits& limits,
                    const Node& node) {
  if (!limits.clusters) {
    return Refuse(
        "clusters, which the device has not: compute capability 9.0 "
        "is needed");
  }
  const uint64_t blocks = BlocksOf(node.cluster);
  if (blocks > kPlainClusterBlocks) {
    REPRISE_RETURN_IF_ERROR(occupancy.AllowLargeClusters(*node.kernel));
  }
  REPRISE_ASSIGN_OR_RETURN(const uint64_t clusters,
                           occupancy.MostClusters(node));
  if (clusters == 0) {
    return Refuse("clusters of " + std::to_string(blocks) +
                  " blocks, of which the device can hold none");
  }
  if (node.cooperative != 0 && BlocksOf(node.grid) > clusters * blocks) {
    return Refuse("a cooperative grid of " +
                  std::to_string(BlocksOf(node.grid)) +
                  " blocks, of which the device can hold " +
                  std::to_string(clusters * blocks) + " at a time");
  }
  return {};
}

Status AdmitCooperative(const Occupancy& occupancy, const LaunchLimits& limits,
                        const Node& node) {
  if (!limits.cooperative) {
    return Refuse("a cooperative grid, which the device has not");
  }
  if (node.clustered()) return {};  // counted with its clusters
  REPRISE_ASSIGN_OR_RETURN(const uint64_t blocks, occupancy.MostBlocks(node));
  const uint64_t most = blocks * static_cast<uint64_t>(limits.multiprocessors);
  if (BlocksOf(node.grid) > most) {
    return Refuse("a cooperative grid of " +
                  std::to_string(BlocksOf(node.grid)) +
                  " blocks, of which the device can hold " +
                  std::to_string(most) + " at a time");
  }
  return {};
}

class CudaOccupancy final : public Occupancy {
 public:
  explicit CudaOccupancy(const device::Driver& driver) : driver_(driver) {}

  Result<int> OwnSharedBytes(KernelCode& kernel) const override {
    int bytes = 0;
    REPRISE_CU(driver_,
               cuFuncGetAttribute(&bytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES,
                                  kernel.function()));
    return bytes;
  }
  Result<int> MostThreads(KernelCode& kernel) const override {
    int threads = 0;
    REPRISE_CU(driver_, cuFuncGetAttribute(
                            &threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
                            kernel.function()));
    return threads;
  }
  Status AllowShared(KernelCode& kernel, int bytes) const override {
    REPRISE_CU(driver_,
               cuFuncSetAttribute(
                   kernel.function(),
                   CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes));
    return {};
  }
  Status AllowLargeClusters(KernelCode& kernel) const override {
    REPRISE_CU(driver_,
               cuFuncSetAttribute(
                   kernel.function(),
                   CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1));
    return {};
  }
  Result<uint64_t> MostClusters(const Node& node) const override {
    CUlaunchAttribute attribute{};
    attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    attribute.value.clusterDim = {node.cluster.x, node.cluster.y,
                                  node.cluster.z};
    CUlaunchConfig config{};
    config.gridDimX = node.grid.x;
    config.gridDimY = node.grid.y;
    config.gridDimZ = node.grid.z;
    config.blockDimX = node.block.x;
    config.blockDimY = node.block.y;
    config.blockDimZ = node.block.z;
    config.sharedMemBytes = node.shared_bytes;
    config.attrs = &attribute;
    config.numAttrs = 1;
    int clusters = 0;
    REPRISE_CU(driver_, cuOccupancyMaxActiveClusters(
                            &clusters, node.kernel->function(), &config));
    return static_cast<uint64_t>(clusters);
  }
  Result<uint64_t> MostBlocks(const Node& node) const override {
    int blocks = 0;
    REPRISE_CU(driver_,
               cuOccupancyMaxActiveBlocksPerMultiprocessor(
                   &blocks, node.kernel->function(),
                   static_cast<int>(BlocksOf(node.block)), node.shared_bytes));
    return static_cast<uint64_t>(blocks);
  }

 private:
  const device::Driver& driver_;
};

// Of compute capability 9.0, for kernels that need few registers.
class HostOccupancy final : public Occupancy {
 public:
  Result<int> OwnSharedBytes(KernelCode&) const override { return 0; }
  Result<int> MostThreads(KernelCode&) const override {
    return kHostThreadsOfABlock;
  }
  Status AllowShared(KernelCode&, int) const override { return {}; }
  Status AllowLargeClusters(KernelCode&) const override { return {}; }
  Result<uint64_t> MostClusters(const Node& node) const override {
    constexpr uint64_t kMostBlocksOfACluster = 16;
    const uint64_t blocks = BlocksOf(node.cluster);
    if (blocks > kMostBlocksOfACluster) return 0;
    REPRISE_ASSIGN_OR_RETURN(const uint64_t most, MostBlocks(node));
    return most * kHostMultiprocessors / blocks;
  }
  Result<uint64_t> MostBlocks(const Node& node) const override {
    constexpr uint64_t kBlocks = 32;
    constexpr uint64_t kSharedBytesOfABlock = 1 << 10;  // beside its own
    const uint64_t threads = (BlocksOf(node.block) + kWarp - 1) / kWarp * kWarp;
    return std::min({kBlocks, uint64_t{kHostThreads} / threads,
                     uint64_t{kHostSharedBytes} /
                         (node.shared_bytes + kSharedBytesOfABlock)});
  }
};

}  // namespace

Result<LaunchLimits> LaunchLimits::Of(const device::Driver& driver,
                                      CUdevice device) {
  LaunchLimits limits;
  struct Row {
    int* value;
    CUdevice_attribute attribute;
  };
  int cooperative = 0;
  int clusters = 0;
  const Row rows[] = {
      {&limits.grid[0], CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X},
      {&limits.grid[1], CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y},
      {&limits.grid[2], CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z},
      {&limits.block[0], CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X},
      {&limits.block[1], CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y},
      {&limits.block[2], CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z},
      {&limits.threads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK},
      {&limits.shared_bytes,
       CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN},
      {&limits.multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT},
      {&cooperative, CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH},
      {&clusters, CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH},
  };
  for (const Row& row : rows) {
    REPRISE_CU(driver, cuDeviceGetAttribute(row.value, row.attribute, device));
  }
  limits.cooperative = cooperative != 0;
  limits.clusters = clusters != 0;
  REPRISE_CU(driver, cuCtxGetStreamPriorityRange(&limits.priority_least,
                                                 &limits.priority_greatest));
  return limits;
}

LaunchLimits LaunchLimits::OfHost() {
  constexpr int kMostBlocks = 65'535;
  return {.grid = {std::numeric_limits<int>::max(), kMostBlocks, kMostBlocks},
          .block = {1024, 1024, 64},
          .threads = kHostThreadsOfABlock,
          .shared_bytes = 227 << 10,
          .multiprocessors = kHostMultiprocessors,
          .priority_greatest = -5};
}

std::unique_ptr<Occupancy> MakeCudaOccupancy(const device::Driver& driver) {
  return std::make_unique<CudaOccupancy>(driver);
}

std::unique_ptr<Occupancy> MakeHostOccupancy() {
  return std::make_unique<HostOccupancy>();
}

Status AdmitPriority(const LaunchLimits& limits, int32_t priority) {
  if (priority >= limits.priority_greatest &&
      priority <= limits.priority_least) {
    return {};
  }
  return Refuse("a priority of " + std::to_string(priority) +
                ", the device takes " +
                std::to_string(limits.priority_greatest) + " to " +
                std::to_string(limits.priority_least));
}

Status Admit(const Occupancy& occupancy, const LaunchLimits& limits,
             const Node& node) {
  REPRISE_RETURN_IF_ERROR(AdmitShape(limits, node));
  if (node.shared_bytes > 0) {
    REPRISE_RETURN_IF_ERROR(AdmitSharedMemory(occupancy, limits, node));
  }
  REPRISE_RETURN_IF_ERROR(AdmitPriority(limits, node.priority));
  if (node.clustered()) {
    REPRISE_RETURN_IF_ERROR(AdmitCluster(occupancy, limits, node));
  }
  if (node.cooperative != 0) {
    REPRISE_RETURN_IF_ERROR(AdmitCooperative(occupancy, limits, node));
  }
  if (node.programmatic != 0 && !limits.clusters) {
    return Refuse(
        "a programmatic launch, which the device has not: compute "
        "capability 9.0 is needed");
  }
  return {};
}

}  // namespace reprise::engine
