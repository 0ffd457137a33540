// Record, scan, patch and replay on a real device: what eager launched is
// launched again from a graph, in another place, with the same bits.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <thread>

#include "engine/device/launch_graph.h"
#include "engine/device/launch_recorder.h"
#include "engine/device/parameter_scan.h"
#include "engine/device/shared_library.h"
#include "engine/device/single_launch.h"
#include "tests/engine/device/gpu_test.h"

namespace reprise::device {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

constexpr char kSource[] = R"(
struct Pack {
  const float* from;
  int count;
  float factor;
  float* to;
};
extern "C" __global__ void scale(float* to, const float* from, float factor,
                                 int count) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count;
       i += gridDim.x * blockDim.x) {
    to[i] = from[i] * factor;
  }
}
extern "C" __global__ void scale_packed(Pack pack) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < pack.count;
       i += gridDim.x * blockDim.x) {
    pack.to[i] = pack.from[i] * pack.factor;
  }
}
extern "C" __global__ void step(unsigned* value) {
  if (blockIdx.x + threadIdx.x != 0) return;
  *value = *value * 1664525u + 1013904223u;
}
extern "C" __global__ void cluster_size(unsigned* to) {
  unsigned size;
  asm("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(size));
  if (threadIdx.x == 0) to[blockIdx.x] = size;
}
__device__ unsigned touched;
extern "C" __global__ void nothing() { touched = 1; }
)";

constexpr int kCount = 5000;

struct Pack {
  CUdeviceptr from;
  int count;
  float factor;
  CUdeviceptr to;
};

class LaunchReplayGpuTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    library_ = LoadLibrary(kSource);
    auto recorder = LaunchRecorder::Create(driver());
    ASSERT_TRUE(recorder) << recorder.error().message();
    recorder_ = *std::move(recorder);
  }

  void TearDown() override {
    if (recorder_ != nullptr) recorder_->Stop();
  }

  CUkernel Kernel(const char* name) {
    CUkernel kernel = nullptr;
    EXPECT_EQ(driver().cuLibraryGetKernel(&kernel, library_.get(), name),
              CUDA_SUCCESS);
    return kernel;
  }
  CUfunction Function(const char* name) {
    CUfunction function = nullptr;
    EXPECT_EQ(driver().cuKernelGetFunction(&function, Kernel(name)),
              CUDA_SUCCESS);
    return function;
  }

  // As a program would: not hidden from the recorder.
  void LaunchKernel(CUfunction function, void** params, void** extra = nullptr,
                    std::vector<CUlaunchAttribute> attributes = {},
                    CUstream stream = nullptr) {
    CUlaunchConfig config{};
    config.gridDimX = 8;
    config.gridDimY = config.gridDimZ = 1;
    config.blockDimX = 64;
    config.blockDimY = config.blockDimZ = 1;
    config.hStream = stream != nullptr ? stream : this->stream();
    config.attrs = attributes.data();
    config.numAttrs = static_cast<unsigned>(attributes.size());
    EXPECT_EQ(driver().cuLaunchKernelEx(&config, function, params, extra),
              CUDA_SUCCESS);
  }

  void Scale(CUfunction function, const Buffer& to, const Buffer& from,
             float factor) {
    CUdeviceptr to_address = to.address();
    CUdeviceptr from_address = from.address();
    int count = kCount;
    void* params[] = {&to_address, &from_address, &factor, &count};
    LaunchKernel(function, params);
  }

  template <typename Op>
  RecordedLaunches Record(Op op) {
    // CUPTI is not attached while another thread of the test launches a graph.
    base::Status started = recorder_->Start(stream());
    for (int tries = 0; !started && tries < 1000; ++tries) {
      EXPECT_THAT(started.error().message(), HasSubstr("other threads"));
      started = recorder_->Start(stream());
    }
    EXPECT_TRUE(started) << started.error().message();
    EXPECT_TRUE(recorder_->BeginOp());
    op();
    RecordedLaunches recorded = recorder_->EndOp();
    recorder_->Stop();
    Synchronize();
    return recorded;
  }

  std::unique_ptr<LaunchGraph> Build(
      const std::vector<Launch>& launches,
      const Dependencies* dependencies = nullptr) {
    std::vector<const Launch*> pointers;
    pointers.reserve(launches.size());
    for (const Launch& launch : launches) pointers.push_back(&launch);
    auto graph =
        LaunchGraph::Create(driver(), pointers, stream(), dependencies);
    EXPECT_TRUE(graph) << graph.error().message();
    return graph ? *std::move(graph) : nullptr;
  }

  void Replay(LaunchGraph& graph) {
    const base::Status launched = graph.Launch(stream());
    EXPECT_TRUE(launched) << launched.error().message();
    Synchronize();
  }

  static std::vector<float> RandomFloats(int seed) {
    std::mt19937 random(seed);
    std::vector<float> values(kCount);
    for (float& value : values)
      value = static_cast<float>(random()) * 1e-3f - 1e6f;
    return values;
  }
  std::vector<float> Poison() { return std::vector<float>(kCount, -7.0f); }

  UniqueLibrary library_;
  std::unique_ptr<LaunchRecorder> recorder_;
};

// The whole way, for each form in which a kernel and its parameters can come:
// two recordings in two places explain the addresses, a third place is patched
// in, and the replay leaves there what eager would have.
class RelocationGpuTest : public LaunchReplayGpuTest,
                          public ::testing::WithParamInterface<const char*> {
 protected:
  void Eager(const Buffer& to, const Buffer& from) {
    const std::string form = GetParam();
    if (form == "function") {
      Scale(Function("scale"), to, from, 1.5f);
    } else if (form == "kernel") {
      Scale(reinterpret_cast<CUfunction>(Kernel("scale")), to, from, 1.5f);
    } else {
      Pack pack{from.address(), kCount, 1.5f, to.address()};
      void* params[] = {&pack};
      size_t size = sizeof pack;
      void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &pack,
                       CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
      if (form == "struct") {
        LaunchKernel(Function("scale_packed"), params);
      } else {
        LaunchKernel(Function("scale_packed"), nullptr, extra);
      }
    }
  }
};

TEST_P(RelocationGpuTest, PatchedReplayHasEagersBits) {
  constexpr size_t kBytes = kCount * sizeof(float);
  Buffer from(driver(), kBytes), to(driver(), kBytes);
  Buffer from2(driver(), kBytes), to2(driver(), kBytes);
  Buffer from3(driver(), kBytes), to3(driver(), kBytes);
  from.Upload(RandomFloats(1));
  from2.Upload(RandomFloats(2));
  from3.Upload(RandomFloats(3));

  RecordedLaunches first = Record([&] { Eager(to, from); });
  const RecordedLaunches second = Record([&] { Eager(to2, from2); });
  ASSERT_THAT(first.refusal, IsEmpty());
  ASSERT_THAT(first.launches, SizeIs(1));
  EXPECT_EQ(first.launches[0].packed, std::string(GetParam()) == "packed");
  EXPECT_THAT(Describe(first.launches[0]), HasSubstr("scale"));

  const KnownRange ranges[] = {{0, from.address(), from2.address(), kBytes},
                               {1, to.address(), to2.address(), kBytes}};
  const auto scan = Scan(first.launches, second.launches, ranges, {},
                         [](uint64_t word) { return word >> 40 != 0; });
  ASSERT_TRUE(scan) << scan.error().message();
  ASSERT_THAT(scan->sites, SizeIs(2));
  EXPECT_THAT(scan->unexplained, IsEmpty());

  // In place.
  const std::vector<float> eager = to.Download<float>();
  to.Upload(Poison());
  const auto graph = Build(first.launches);
  ASSERT_NE(graph, nullptr);
  EXPECT_THAT(to.Download<float>(), Each(-7.0f));
  Replay(*graph);
  EXPECT_EQ(to.Download<float>(), eager);

  // In another place; the old one is not touched.
  Eager(to3, from3);
  Synchronize();
  const std::vector<float> expected = to3.Download<float>();
  to.Upload(Poison());
  to3.Upload(Poison());
  const CUdeviceptr places[] = {from3.address(), to3.address()};
  for (const PointerSite& site : scan->sites) {
    first.launches[site.launch].SetWord(site.offset_bytes,
                                        places[site.id] + site.delta_bytes);
  }
  ASSERT_TRUE(graph->Update(0));
  Replay(*graph);
  EXPECT_EQ(to3.Download<float>(), expected);
  EXPECT_THAT(to.Download<float>(), Each(-7.0f));

  // And by itself, outside a graph.
  to3.Upload(Poison());
  ASSERT_TRUE(Enqueue(driver(), first.launches[0], stream()));
  Synchronize();
  EXPECT_EQ(to3.Download<float>(), expected);
}

INSTANTIATE_TEST_SUITE_P(Forms, RelocationGpuTest,
                         ::testing::Values("function", "kernel", "struct",
                                           "packed"),
                         [](const auto& info) { return info.param; });

// Pairs of chains that meet again and again: side by side they give what they
// give in line, also in another place, however that is patched in.
TEST_F(LaunchReplayGpuTest, BranchesRunSideBySideAndArePatched) {
  constexpr int kMeetings = 20;
  constexpr size_t kBytes = kCount * sizeof(float);
  Buffer x(driver(), kBytes), y(driver(), kBytes);
  Buffer a(driver(), kBytes), b(driver(), kBytes), c(driver(), kBytes);
  x.Upload(RandomFloats(1));
  y.Upload(RandomFloats(2));
  Dependencies dependencies;
  RecordedLaunches op = Record([&] {
    for (int i = 0; i < kMeetings; ++i) {
      const auto next = static_cast<uint32_t>(dependencies.size());
      Scale(Function("scale"), a, i == 0 ? x : c, 1.01f);
      Scale(Function("scale"), b, i == 0 ? x : c, 0.98f);
      Scale(Function("scale"), b, b, 1.03f);
      // Waits for who reads what it writes, and who writes what it reads.
      Scale(Function("scale"), c, b, 0.99f);
      Scale(Function("scale"), c, a, 1.02f);
      dependencies.push_back({});
      if (next > 0) dependencies.back().push_back(next - 1);
      dependencies.push_back(dependencies.back());
      dependencies.push_back({next + 1});
      dependencies.push_back({next, next + 2});
      dependencies.push_back({next + 3});
    }
  });
  ASSERT_THAT(op.launches, SizeIs(5 * kMeetings));
  const std::vector<float> eager = c.Download<float>();
  const auto graph = Build(op.launches, &dependencies);
  ASSERT_NE(graph, nullptr);
  for (int i = 0; i < 20; ++i) {
    c.Upload(Poison());
    Replay(*graph);
    ASSERT_EQ(c.Download<float>(), eager);
  }

  for (Launch& launch : op.launches) {
    for (size_t offset = 0; offset < launch.image.size(); offset += 8) {
      if (launch.Word(offset) == x.address()) {
        launch.SetWord(offset, y.address());
      }
    }
  }
  // In line, by themselves.
  for (const Launch& launch : op.launches) {
    ASSERT_TRUE(Enqueue(driver(), launch, stream()));
  }
  Synchronize();
  const std::vector<float> expected = c.Download<float>();
  EXPECT_NE(expected, eager);
  for (const size_t patched : {size_t{0}, size_t{1}})
    ASSERT_TRUE(graph->Update(patched));
  c.Upload(Poison());
  Replay(*graph);
  EXPECT_EQ(c.Download<float>(), expected);
  // As a whole.
  for (size_t i = 0; i < graph->size(); ++i) ASSERT_TRUE(graph->Stage(i));
  ASSERT_TRUE(graph->TakeStaged());
  c.Upload(Poison());
  Replay(*graph);
  EXPECT_EQ(c.Download<float>(), expected);
}

// Launches wait for one another: a chain gives what the same chain gives
// eagerly.
TEST_F(LaunchReplayGpuTest, LongChainRunsInOrder) {
  Buffer value(driver(), sizeof(unsigned));
  value.Upload<unsigned>({1});
  const CUfunction step = Function("step");
  const RecordedLaunches op = Record([&] {
    CUdeviceptr address = value.address();
    void* params[] = {&address};
    for (int i = 0; i < 200; ++i) LaunchKernel(step, params);
  });
  ASSERT_THAT(op.launches, SizeIs(200));
  const std::vector<unsigned> once = value.Download<unsigned>();
  value.Upload<unsigned>({1});
  const auto graph = Build(op.launches);
  ASSERT_NE(graph, nullptr);
  Replay(*graph);
  EXPECT_EQ(value.Download<unsigned>(), once);
  Replay(*graph);
  EXPECT_NE(value.Download<unsigned>(), once);
}

TEST_F(LaunchReplayGpuTest, KernelWithoutParameters) {
  const RecordedLaunches op =
      Record([&] { LaunchKernel(Function("nothing"), nullptr); });
  ASSERT_THAT(op.refusal, IsEmpty());
  ASSERT_THAT(op.launches, SizeIs(1));
  EXPECT_THAT(op.launches[0].image, IsEmpty());
  const auto graph = Build(op.launches);
  ASSERT_NE(graph, nullptr);
  EXPECT_TRUE(graph->Update(0));
  Replay(*graph);
}

// The grid of a cluster launch is replayed in clusters.
TEST_F(LaunchReplayGpuTest, ClusterDimensionIsTakenOver) {
  int major = 0;
  REPRISE_ASSERT_CU(cuDeviceGetAttribute(
      &major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device()));
  Buffer to(driver(), 8 * sizeof(unsigned));
  CUlaunchAttribute cluster{};
  cluster.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  cluster.value.clusterDim = {major >= 9 ? 4u : 1u, 1, 1};
  const RecordedLaunches op = Record([&] {
    CUdeviceptr address = to.address();
    void* params[] = {&address};
    LaunchKernel(Function("cluster_size"), params, nullptr, {cluster});
  });
  const std::vector<unsigned> eager = to.Download<unsigned>();
  EXPECT_THAT(eager, Each(cluster.value.clusterDim.x));
  ASSERT_THAT(op.launches, SizeIs(1));
  const auto graph = Build(op.launches);
  ASSERT_NE(graph, nullptr);
  to.Upload(std::vector<unsigned>(8));
  Replay(*graph);
  EXPECT_EQ(to.Download<unsigned>(), eager);
  to.Upload(std::vector<unsigned>(8));
  ASSERT_TRUE(graph->Update(0));
  Replay(*graph);
  EXPECT_EQ(to.Download<unsigned>(), eager);
  to.Upload(std::vector<unsigned>(8));
  ASSERT_TRUE(Enqueue(driver(), op.launches[0], stream()));
  Synchronize();
  EXPECT_EQ(to.Download<unsigned>(), eager);
}

// Attributes that eager libraries set; none may stop a graph from being built.
TEST_F(LaunchReplayGpuTest, CooperativeOverlapAndHintsAreReplayed) {
  Buffer from(driver(), kCount * sizeof(float));
  Buffer to(driver(), kCount * sizeof(float));
  from.Upload(RandomFloats(4));
  std::vector<CUlaunchAttribute> attributes(4);
  attributes[0].id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
  attributes[0].value.cooperative = 1;
  attributes[1].id = CU_LAUNCH_ATTRIBUTE_PRIORITY;
  attributes[1].value.priority = -1;
  attributes[2].id = CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT;
  attributes[2].value.sharedMemCarveout = 50;
  attributes[3].id = CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN;
  attributes[3].value.memSyncDomain = CU_LAUNCH_MEM_SYNC_DOMAIN_DEFAULT;
  CUlaunchAttribute overlap{};
  overlap.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
  overlap.value.programmaticStreamSerializationAllowed = 1;
  const RecordedLaunches op = Record([&] {
    CUdeviceptr to_address = to.address();
    CUdeviceptr from_address = from.address();
    float factor = 2.5f;
    int count = kCount;
    void* params[] = {&to_address, &from_address, &factor, &count};
    for (const CUlaunchAttribute& attribute : attributes) {
      LaunchKernel(Function("scale"), params, nullptr, {attribute});
    }
    LaunchKernel(Function("scale"), params, nullptr, {overlap});
  });
  ASSERT_THAT(op.refusal, IsEmpty());
  ASSERT_THAT(op.launches, SizeIs(5));
  const std::vector<float> eager = to.Download<float>();
  to.Upload(Poison());
  const auto graph = Build(op.launches);
  ASSERT_NE(graph, nullptr);
  Replay(*graph);
  EXPECT_EQ(to.Download<float>(), eager);
  for (const Launch& launch : op.launches) {
    EXPECT_TRUE(Enqueue(driver(), launch, stream()));
  }
  Synchronize();
}

TEST_F(LaunchReplayGpuTest, FillsAndCopiesAreReplayedAndPatched) {
  constexpr size_t kBytes = 4096;
  Buffer filled(driver(), kBytes), copied(driver(), kBytes);
  Buffer filled2(driver(), kBytes), copied2(driver(), kBytes);
  const std::vector<uint8_t> zeros(kBytes);
  for (Buffer* buffer : {&filled, &copied, &filled2, &copied2}) {
    buffer->Upload(zeros);
  }
  RecordedLaunches op = Record([&] {
    const CUdeviceptr at = filled.address();
    EXPECT_EQ(driver().cuMemsetD8Async(at, 0xab, 1001, stream()), CUDA_SUCCESS);
    EXPECT_EQ(driver().cuMemsetD16Async(at + 1024, 0x1234, 100, stream()),
              CUDA_SUCCESS);
    EXPECT_EQ(driver().cuMemsetD32Async(at + 2048, 0xdeadbeef, 100, stream()),
              CUDA_SUCCESS);
    EXPECT_EQ(
        driver().cuMemcpyDtoDAsync(copied.address(), at, kBytes, stream()),
        CUDA_SUCCESS);
    EXPECT_EQ(
        driver().cuMemcpyAsync(copied.address() + 3000, at + 1, 999, stream()),
        CUDA_SUCCESS);
  });
  ASSERT_THAT(op.refusal, IsEmpty());
  ASSERT_THAT(op.launches, SizeIs(5));
  const std::vector<uint8_t> eager_filled = filled.Download<uint8_t>();
  const std::vector<uint8_t> eager_copied = copied.Download<uint8_t>();
  EXPECT_NE(eager_filled, zeros);

  filled.Upload(zeros);
  copied.Upload(zeros);
  const auto graph = Build(op.launches);
  ASSERT_NE(graph, nullptr);
  Replay(*graph);
  EXPECT_EQ(filled.Download<uint8_t>(), eager_filled);
  EXPECT_EQ(copied.Download<uint8_t>(), eager_copied);

  filled.Upload(zeros);
  copied.Upload(zeros);
  for (size_t i = 0; i < op.launches.size(); ++i) {
    Launch& launch = op.launches[i];
    for (size_t offset = 0; offset < launch.image.size(); offset += 8) {
      const uint64_t word = launch.Word(offset);
      const bool fill = word - filled.address() < kBytes;
      launch.SetWord(offset, fill
                                 ? word - filled.address() + filled2.address()
                                 : word - copied.address() + copied2.address());
    }
    const base::Status updated = graph->Update(i);
    ASSERT_TRUE(updated) << i << " " << updated.error().message();
  }
  Replay(*graph);
  EXPECT_EQ(filled2.Download<uint8_t>(), eager_filled);
  EXPECT_EQ(copied2.Download<uint8_t>(), eager_copied);
  EXPECT_EQ(filled.Download<uint8_t>(), zeros);
  EXPECT_EQ(copied.Download<uint8_t>(), zeros);

  filled2.Upload(zeros);
  copied2.Upload(zeros);
  for (const Launch& launch : op.launches) {
    ASSERT_TRUE(Enqueue(driver(), launch, stream()));
  }
  Synchronize();
  EXPECT_EQ(filled2.Download<uint8_t>(), eager_filled);
  EXPECT_EQ(copied2.Download<uint8_t>(), eager_copied);
}

TEST_F(LaunchReplayGpuTest, FillOfRowsIsReplayed) {
  Buffer rows(driver(), 4096);
  rows.Upload(std::vector<uint8_t>(4096));
  const RecordedLaunches op = Record([&] {
    EXPECT_EQ(
        driver().cuMemsetD2D32Async(rows.address(), 256, 77, 10, 16, stream()),
        CUDA_SUCCESS);
  });
  ASSERT_THAT(op.launches, SizeIs(1));
  const std::vector<uint8_t> eager = rows.Download<uint8_t>();
  rows.Upload(std::vector<uint8_t>(4096));
  const auto graph = Build(op.launches);
  ASSERT_NE(graph, nullptr);
  Replay(*graph);
  EXPECT_EQ(rows.Download<uint8_t>(), eager);
}

// The driver calls under one runtime API call are what counts.
TEST_F(LaunchReplayGpuTest, SeesWhatTheRuntimeLaunches) {
  struct Dim {
    unsigned x, y, z;
  };
  const auto runtime = OpenSharedLibrary("libcudart.so.13");
  ASSERT_TRUE(runtime) << runtime.error().message();
  const auto symbol = [&](const char* name) {
    void* found = FindSymbol(*runtime, name);
    EXPECT_NE(found, nullptr) << name;
    return found;
  };
  const auto load = reinterpret_cast<int (*)(
      void**, const void*, void*, void**, unsigned, void*, void**, unsigned)>(
      symbol("cudaLibraryLoadData"));
  const auto get = reinterpret_cast<int (*)(void**, void*, const char*)>(
      symbol("cudaLibraryGetKernel"));
  const auto launch =
      reinterpret_cast<int (*)(const void*, Dim, Dim, void**, size_t,
                               CUstream)>(symbol("cudaLaunchKernel"));
  const auto fill = reinterpret_cast<int (*)(void*, int, size_t, CUstream)>(
      symbol("cudaMemsetAsync"));
  const auto copy =
      reinterpret_cast<int (*)(void*, const void*, size_t, int, CUstream)>(
          symbol("cudaMemcpyAsync"));
  const auto wait =
      reinterpret_cast<int (*)(CUstream)>(symbol("cudaStreamSynchronize"));
  constexpr int kHostToDevice = 1;
  constexpr int kDeviceToDevice = 3;

  const std::vector<char> cubin = Compile(kSource);
  void* library = nullptr;
  ASSERT_EQ(
      load(&library, cubin.data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
      0);
  void* kernel = nullptr;
  ASSERT_EQ(get(&kernel, library, "scale"), 0);

  Buffer from(driver(), kCount * sizeof(float));
  Buffer to(driver(), kCount * sizeof(float));
  Buffer third(driver(), kCount * sizeof(float));
  from.Upload(RandomFloats(6));
  third.Upload(Poison());
  void* to_address = std::bit_cast<void*>(to.address());
  void* from_address = std::bit_cast<void*>(from.address());
  void* third_address = std::bit_cast<void*>(third.address());
  const RecordedLaunches op = Record([&] {
    float factor = 3.25f;
    int count = kCount;
    void* params[] = {&to_address, &from_address, &factor, &count};
    EXPECT_EQ(fill(to_address, 0xff, kCount * sizeof(float), stream()), 0);
    EXPECT_EQ(launch(kernel, {8, 1, 1}, {64, 1, 1}, params, 0, stream()), 0);
    EXPECT_EQ(copy(third_address, to_address, 4000, kDeviceToDevice, stream()),
              0);
  });
  ASSERT_THAT(op.refusal, IsEmpty());
  ASSERT_THAT(op.launches, SizeIs(3));
  EXPECT_EQ(op.launches[0].kind, Launch::Kind::kMemset);
  EXPECT_EQ(op.launches[1].kind, Launch::Kind::kKernel);
  EXPECT_EQ(op.launches[2].kind, Launch::Kind::kMemcpy);
  const std::vector<float> eager = third.Download<float>();
  to.Upload(Poison());
  third.Upload(Poison());
  const auto graph = Build(op.launches);
  ASSERT_NE(graph, nullptr);
  Replay(*graph);
  EXPECT_EQ(third.Download<float>(), eager);

  float number = 1.0f;
  const RecordedLaunches upload = Record([&] {
    EXPECT_EQ(copy(to_address, &number, 4, kHostToDevice, stream()), 0);
  });
  EXPECT_THAT(upload.refusal, HasSubstr("cuMemcpy"));
  const RecordedLaunches waiting =
      Record([&] { EXPECT_EQ(wait(stream()), 0); });
  EXPECT_THAT(waiting.refusal, StartsWith("cuStreamSynchronize"));
}

TEST_F(LaunchReplayGpuTest, RefusesWhatCannotBeReplayed) {
  Buffer buffer(driver(), 64);
  CUstream other_handle;
  REPRISE_ASSERT_CU(cuStreamCreate(&other_handle, CU_STREAM_NON_BLOCKING));
  const UniqueStream other(driver(), other_handle);
  CUevent event_handle;
  REPRISE_ASSERT_CU(cuEventCreate(&event_handle, CU_EVENT_DISABLE_TIMING));
  const UniqueEvent event(driver(), event_handle);
  int host = 0;
  EXPECT_THAT(Record([&] {
                driver().cuMemcpyDtoHAsync(&host, buffer.address(), 4,
                                           stream());
              }).refusal,
              StartsWith("cuMemcpyDtoHAsync"));
  EXPECT_THAT(
      Record([&] { driver().cuEventRecord(event.get(), stream()); }).refusal,
      StartsWith("cuEventRecord"));
  EXPECT_THAT(Record([&] {
                driver().cuMemsetD8Async(buffer.address(), 0, 8, other.get());
              }).refusal,
              HasSubstr("another stream"));
  EXPECT_THAT(Record([&] { driver().cuStreamSynchronize(stream()); }).refusal,
              StartsWith("cuStreamSynchronize"));
  EXPECT_THAT(Record([&] {
                CUdeviceptr address;
                driver().cuMemAlloc(&address, 1 << 20);
                driver().cuMemFree(address);
                driver().cuEventQuery(event.get());
                CUstreamCaptureStatus status;
                driver().cuStreamIsCapturing(stream(), &status);
              }).refusal,
              IsEmpty());
}

TEST_F(LaunchReplayGpuTest, NoticesForeignWorkAndHidesOurOwn) {
  Buffer buffer(driver(), 64);
  ASSERT_TRUE(recorder_->Start(stream()));
  {
    const LaunchRecorder::Hidden hidden;
    driver().cuMemsetD8Async(buffer.address(), 1, 8, stream());
  }
  EXPECT_EQ(recorder_->TakeForeignWork(), std::nullopt);
  std::thread([&] {
    CUcontext context;
    driver().cuDevicePrimaryCtxRetain(&context, device());
    driver().cuCtxSetCurrent(context);
    driver().cuMemsetD8Async(buffer.address(), 1, 8, stream());
  }).join();
  EXPECT_EQ(recorder_->TakeForeignWork(), "cuMemsetD8Async");
  recorder_->Stop();
  driver().cuMemsetD8Async(buffer.address(), 1, 8, stream());
  EXPECT_EQ(recorder_->TakeForeignWork(), std::nullopt);
  Synchronize();
}

// While another thread captures in the strictest mode, graphs are built and
// CUPTI is detached on this one, and the capture survives.
class DuringCaptureGpuTest : public LaunchReplayGpuTest {
 protected:
  // How the capture ended.
  CUresult Capture(const std::function<void()>& meanwhile) {
    const auto cuda = OpenSharedLibrary("libcuda.so.1");
    const auto begin =
        reinterpret_cast<CUresult (*)(CUstream, CUstreamCaptureMode)>(
            FindSymbol(*cuda, "cuStreamBeginCapture_v2"));
    const auto end = reinterpret_cast<CUresult (*)(CUstream, CUgraph*)>(
        FindSymbol(*cuda, "cuStreamEndCapture"));
    CUcontext context;
    EXPECT_EQ(driver().cuCtxGetCurrent(&context), CUDA_SUCCESS);
    CUstream handle;
    EXPECT_EQ(driver().cuStreamCreate(&handle, CU_STREAM_NON_BLOCKING),
              CUDA_SUCCESS);
    const UniqueStream capturing(driver(), handle);
    std::atomic<bool> begun = false;
    std::atomic<bool> done = false;
    CUresult ended = CUDA_ERROR_UNKNOWN;
    std::thread capture([&] {
      driver().cuCtxSetCurrent(context);
      EXPECT_EQ(begin(capturing.get(), CU_STREAM_CAPTURE_MODE_GLOBAL),
                CUDA_SUCCESS);
      begun = true;
      begun.notify_one();
      done.wait(false);
      CUgraph captured = nullptr;
      ended = end(capturing.get(), &captured);
      if (captured != nullptr) driver().cuGraphDestroy(captured);
    });
    begun.wait(false);
    meanwhile();
    done = true;
    done.notify_one();
    capture.join();
    return ended;
  }
};

TEST_F(DuringCaptureGpuTest, GraphsAreBuilt) {
  Buffer buffer(driver(), 64);
  const RecordedLaunches op = Record(
      [&] { driver().cuMemsetD8Async(buffer.address(), 1, 8, stream()); });
  EXPECT_EQ(Capture([&] {
              for (int i = 0; i < 3; ++i) {
                auto graph = Build(op.launches);
                EXPECT_NE(graph, nullptr);
              }
            }),
            CUDA_SUCCESS);
}

TEST_F(DuringCaptureGpuTest, CuptiIsDetached) {
  ASSERT_TRUE(recorder_->Start(stream()));
  recorder_->Stop();
  EXPECT_EQ(Capture([&] { recorder_->Resting(1'000'000); }), CUDA_SUCCESS);
  ASSERT_TRUE(recorder_->Start(stream()));
  EXPECT_TRUE(recorder_->active());
}

// One thread of the kernel, on any of the program's threads.
void LaunchStep(const Driver& driver, CUfunction step, CUdeviceptr value,
                CUstream stream) {
  void* params[] = {&value};
  CUlaunchConfig config{};
  config.gridDimX = config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = config.blockDimY = config.blockDimZ = 1;
  config.hStream = stream;
  EXPECT_EQ(driver.cuLaunchKernelEx(&config, step, params, nullptr),
            CUDA_SUCCESS);
}

// CUPTI tells no more of a thread that is inside a call while callbacks are
// switched off.
TEST_F(LaunchReplayGpuTest, ThreadsThatCuptiForgetsAreRecorded) {
  constexpr int kRounds = 3000;
  const CUfunction step = Function("step");
  Buffer value(driver(), 4);
  std::atomic<bool> stop = false;
  std::thread switching([&] {
    for (int round = 0; round < kRounds; ++round) {
      EXPECT_TRUE(recorder_->Start(stream()));
      for (int i = 0; i < round % 50; ++i) std::this_thread::yield();
      recorder_->Stop();
    }
    stop = true;
  });
  for (uint32_t launches = 0; !stop.load(); ++launches) {
    LaunchStep(driver(), step, value.address(), stream());
    if (launches % 100 == 0) Synchronize();
  }
  switching.join();
  for (int i = 0; i < 2; ++i) {
    const RecordedLaunches op =
        Record([&] { LaunchStep(driver(), step, value.address(), stream()); });
    EXPECT_EQ(op.refusal, "");
    EXPECT_THAT(op.launches, SizeIs(1));
  }
}

// Threads launch graphs and kernels on streams of their own while this one
// records and detaches CUPTI, over and over. Nothing is lost on either side.
TEST_F(LaunchReplayGpuTest, DetachingDisturbsNoOtherThread) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 60;
  constexpr uint32_t kSteps = 8;
  const CUfunction step = Function("step");
  CUcontext context;
  REPRISE_ASSERT_CU(cuCtxGetCurrent(&context));
  std::atomic<bool> stop = false;
  std::array<uint32_t, kThreads> launched{};
  std::vector<std::unique_ptr<Buffer>> values;
  for (int t = 0; t < kThreads; ++t) {
    values.push_back(std::make_unique<Buffer>(driver(), 4));
    values.back()->Upload(std::vector<uint32_t>{0});
  }
  Buffer mine(driver(), 4);
  const RecordedLaunches steps = Record([&] {
    for (uint32_t i = 0; i < kSteps; ++i) {
      LaunchStep(driver(), step, mine.address(), stream());
    }
  });
  ASSERT_THAT(steps.launches, SizeIs(kSteps));
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      driver().cuCtxSetCurrent(context);
      CUstream handle;
      EXPECT_EQ(driver().cuStreamCreate(&handle, CU_STREAM_NON_BLOCKING),
                CUDA_SUCCESS);
      const UniqueStream own(driver(), handle);
      const CUdeviceptr address = values[static_cast<size_t>(t)]->address();
      std::vector<Launch> own_steps = steps.launches;
      std::vector<const Launch*> pointers;
      for (Launch& launch : own_steps) {
        launch.SetWord(0, address);
        pointers.push_back(&launch);
      }
      auto graph = LaunchGraph::Create(driver(), pointers, own.get());
      EXPECT_TRUE(graph) << graph.error().message();
      uint32_t count = 0;
      while (!stop.load()) {
        EXPECT_TRUE((*graph)->Launch(own.get()));
        LaunchStep(driver(), step, address, own.get());
        count += kSteps + 1;
        if (count % 90 == 0) driver().cuStreamSynchronize(own.get());
      }
      EXPECT_EQ(driver().cuStreamSynchronize(own.get()), CUDA_SUCCESS);
      launched[static_cast<size_t>(t)] = count;
    });
  }
  for (int round = 0; round < kRounds; ++round) {
    const RecordedLaunches op =
        Record([&] { LaunchStep(driver(), step, mine.address(), stream()); });
    EXPECT_THAT(op.refusal, IsEmpty());
    EXPECT_THAT(op.launches, SizeIs(1));
    recorder_->Resting(1'000'000);
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  for (size_t t = 0; t < kThreads; ++t) {
    uint32_t expected = 0;
    for (uint32_t i = 0; i < launched[t]; ++i) {
      expected = expected * 1664525u + 1013904223u;
    }
    EXPECT_THAT(values[t]->Download<uint32_t>(), Each(expected));
    EXPECT_GT(launched[t], 0u);
  }
}

}  // namespace
}  // namespace reprise::device
