// Kernels from source on a GPU: names, architectures, one library for all that
// share it, its end under way, the disk.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "bindings/native/reprise.h"
#include "engine/device/context_scope.h"
#include "engine/device/driver.h"
#include "engine/device/unique_handle.h"
#include "kernels/nvrtc.h"
#include "tests/engine/device/count_devices.h"
#include "tests/engine/device/cuda_libraries.h"
#include "tests/kernels/temporary_folder.h"

namespace reprise {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kSource[] = R"(
extern "C" __global__ void add(float* p, float by) { p[threadIdx.x] += by; }
namespace space { __global__ void negate(float* p) {
  p[threadIdx.x] = -p[threadIdx.x];
} }
template <typename T, int n> __global__ void scale(T* p) {
  p[threadIdx.x] *= T(n);
}
__device__ int runs;
extern "C" __global__ void count_run() { ++runs; }
extern "C" __global__ void get_runs(int* to) { *to = runs; }
// Some tenths of a second.
extern "C" __global__ void slow_add(float* p, float by) {
  for (int i = 0; i < 200; ++i) {
    for (unsigned wait = 500000; wait > 1000; wait /= 2) __nanosleep(wait);
  }
  p[threadIdx.x] += by;
}
)";
using One = void(float*);
using Two = void(float*, float);
constexpr int kCount = 32;
constexpr LaunchConfig kConfig{.grid = {1}, .block = {kCount}};

class GpuCompileTest : public testing::Test {
 protected:
  void SetUp() override {
    device::PreloadCudaLibraries();
    REPRISE_NEEDS_DEVICES(1);
    auto runtime = Runtime::Create({.cache_dir = folder_.path()});
    ASSERT_TRUE(runtime) << runtime.error().message();
    runtime_.emplace(*runtime);
    stream_.emplace(*runtime_->CreateStream());
    values_ = *runtime_->Allocate<float>(kCount);
  }

  template <typename Signature>
  Kernel<Signature> Named(std::string name) {
    return *runtime_->CompileKernel<Signature>(
        {.source = kSource, .name = std::move(name)});
  }
  void Set(float value) {
    Batch batch = stream_->BeginBatch();
    batch.Fill(Out(values_), value);
    ASSERT_TRUE(batch.Submit());
  }
  template <typename Signature, typename... P>
  void Run(const Kernel<Signature>& kernel, P... parameters) {
    Batch batch = stream_->BeginBatch();
    batch.Launch(kernel, kConfig, InOut(values_), parameters...);
    const Status submitted = batch.Submit();
    ASSERT_TRUE(submitted) << submitted.error().message();
  }
  std::vector<float> Values() {
    std::vector<float> values(kCount);
    const Status copied =
        stream_->CopyToHost(values.data(), values_.data(), kCount);
    EXPECT_TRUE(copied) << copied.error().message();
    return values;
  }
  static std::vector<float> All(float value) {
    return std::vector<float>(kCount, value);
  }

  kernels::TemporaryFolder folder_;
  std::optional<Runtime> runtime_;
  std::optional<Stream> stream_;
  Buffer<float> values_;
};

TEST_F(GpuCompileTest, EveryKindOfNameFindsItsKernel) {
  Set(1.0f);
  Run(Named<Two>("add"), 4.0f);
  Run(Named<One>("space::negate"));
  Run(Named<One>("scale<float, 3>"));
  Run(Named<One>("&space::negate"));
  EXPECT_EQ(Values(), All(15.0f));
  const Status unknown = Named<Two>("ad").Wait();
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code(), Code::kInvalidArgument);
  EXPECT_THAT(unknown.error().message(),
              AllOf(HasSubstr("no kernel 'ad': it has"), HasSubstr("add"),
                    HasSubstr("space::negate(float*)")));
}

TEST_F(GpuCompileTest, KernelsOfOneSourceShareItsVariables) {
  const auto count = Named<void()>("count_run");
  const auto get = Named<void(int*)>("get_runs");
  Buffer<int> runs = *runtime_->Allocate<int>(1);
  Batch batch = stream_->BeginBatch();
  for (int i = 0; i < 3; ++i) batch.Launch(count, {});
  batch.Launch(get, {}, runs.data());
  ASSERT_TRUE(batch.Submit());
  int value = 0;
  ASSERT_TRUE(stream_->CopyToHost(&value, runs.data(), 1));
  EXPECT_EQ(value, 3);
  EXPECT_EQ(runtime_->stats().compiled, 1u);
  EXPECT_EQ(runtime_->stats().libraries, 1u);
}

TEST_F(GpuCompileTest, VariablesAreReadAndWritten) {
  constexpr char kTables[] = R"(
__constant__ float table[32];
namespace space { __device__ float shift; }
extern "C" __global__ void look_up(float* p) {
  p[threadIdx.x] = table[31 - threadIdx.x] + space::shift;
  if (threadIdx.x == 0) space::shift += 1.0f;
})";
  const auto look_up =
      *runtime_->CompileKernel<One>({.source = kTables, .name = "look_up"});
  const auto table = look_up.Variable<float>("table");
  const auto shift = look_up.Variable<float>("space::shift");
  ASSERT_TRUE(table) << table.error().message();
  ASSERT_TRUE(shift) << shift.error().message();
  ASSERT_EQ(table->size(), 32u);
  ASSERT_EQ(shift->size(), 1u);
  for (int turn = 0; turn < 3; ++turn) {
    std::vector<float> values(32);
    for (int i = 0; i < 32; ++i) values[i] = static_cast<float>(i * i + turn);
    const std::vector<float> ten{10.0f};
    ASSERT_TRUE(stream_->CopyToDevice(*table, values));
    ASSERT_TRUE(stream_->CopyToDevice(*shift, ten));
    Run(look_up);
    std::vector<float> got(32);
    ASSERT_TRUE(stream_->CopyToHost(got, values_.span()));
    for (int i = 0; i < 32; ++i) EXPECT_EQ(got[i], values[31 - i] + 10.0f);
    std::vector<float> shifted(1);
    ASSERT_TRUE(stream_->CopyToHost(shifted, *shift));
    EXPECT_EQ(shifted[0], 11.0f);
  }
  EXPECT_FALSE(look_up.Variable<float>("shift"));
}

TEST_F(GpuCompileTest, LibraryEndsOnceItsWorkHasPassed) {
  const auto driver = device::Driver::Load();
  ASSERT_TRUE(driver);
  // Reprise leaves none current on this thread.
  CUcontext context = nullptr;
  ASSERT_EQ((*driver)->cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
  const device::ContextScope scope(**driver, context);
  ASSERT_TRUE(scope.status());
  std::optional slow = Named<Two>("slow_add");
  ASSERT_TRUE(slow->Wait());
  Set(1.0f);
  // One by itself, then as graphs.
  for (int call = 0; call < 3; ++call) {
    Batch batch = stream_->BeginBatch();
    batch.Launch(*slow, kConfig, InOut(values_), 1.0f);
    batch.Launch(*slow, kConfig, InOut(values_), 1.0f);
    ASSERT_TRUE(batch.Submit());
    stream_->WaitForBuilds();
  }
  EXPECT_EQ(stream_->stats().replayed, 1u);
  ASSERT_TRUE(stream_->Synchronize());
  stream_.emplace(*runtime_->CreateStream());  // the graph is gone
  EXPECT_EQ(runtime_->stats().libraries, 1u);
  CUevent event = nullptr;
  ASSERT_EQ((*driver)->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING),
            CUDA_SUCCESS);
  const device::UniqueEvent owned(**driver, event);
  Run(*slow, 1.0f);
  ASSERT_EQ(
      (*driver)->cuEventRecord(event, static_cast<CUstream>(stream_->handle())),
      CUDA_SUCCESS);
  ASSERT_EQ((*driver)->cuEventQuery(event), CUDA_ERROR_NOT_READY);
  slow.reset();
  EXPECT_EQ((*driver)->cuEventQuery(event), CUDA_SUCCESS);
  EXPECT_EQ(runtime_->stats().libraries, 0u);
  EXPECT_EQ(Values(), All(8.0f));
}

TEST_F(GpuCompileTest, PlanKeepsItsLibrary) {
  std::optional<Plan> plan;
  {
    const auto add = Named<Two>("add");
    Batch batch = stream_->BeginBatch();
    batch.Fill(Out(values_), 1.0f);
    batch.Launch(add, kConfig, InOut(values_), 1.0f);
    auto prepared = batch.Prepare();
    ASSERT_TRUE(prepared) << prepared.error().message();
    plan.emplace(*std::move(prepared));
  }
  EXPECT_EQ(runtime_->stats().libraries, 1u);
  ASSERT_TRUE(plan->Launch());
  EXPECT_EQ(Values(), All(2.0f));
  plan.reset();
  EXPECT_EQ(runtime_->stats().libraries, 0u);
}

TEST_F(GpuCompileTest, PtxIsTranslatedWhereTheDriverKnowsIt) {
  const auto add = *runtime_->CompileKernel<Two>(
      {.source = kSource, .name = "add", .architecture = "compute_80"});
  const device::Driver& driver = **device::Driver::Load();
  int knows = 0;
  ASSERT_EQ(driver.cuDriverGetVersion(&knows), CUDA_SUCCESS);
  const std::string& compiled = (*kernels::Nvrtc::Load())->version();
  const int is_of = std::stoi(compiled) * 1000 +
                    std::stoi(compiled.substr(compiled.find('.') + 1)) * 10;
  if (is_of > knows) {
    const Status waited = add.Wait();
    ASSERT_FALSE(waited);
    EXPECT_THAT(waited.error().message(), HasSubstr("newer CUDA than the"));
    return;
  }
  Set(1.0f);
  Run(add, 1.0f);
  EXPECT_EQ(Values(), All(2.0f));
}

TEST_F(GpuCompileTest, OtherDevicesCodeIsRefused) {
  Set(2.0f);
  // No device runs both.
  int refused = 0;
  for (const char* architecture : {"sm_80", "sm_100"}) {
    const auto other = *runtime_->CompileKernel<Two>(
        {.source = kSource, .name = "add", .architecture = architecture});
    const Status waited = other.Wait();
    if (waited) continue;
    ++refused;
    EXPECT_THAT(waited.error().message(), HasSubstr("CUDA_ERROR_"));
  }
  EXPECT_GE(refused, 1);
  Run(Named<Two>("add"), 1.0f);
  EXPECT_EQ(Values(), All(3.0f));
}

TEST_F(GpuCompileTest, NextRuntimeFindsCodeOnDisk) {
  ASSERT_TRUE(Named<Two>("add").Wait());
  const Runtime next = *Runtime::Create({.cache_dir = folder_.path()});
  const auto add = *next.CompileKernel<Two>({.source = kSource, .name = "add"});
  Set(1.0f);
  Run(add, 1.0f);
  EXPECT_EQ(Values(), All(2.0f));
  const RuntimeStats stats = next.stats();
  EXPECT_EQ(stats.compiled, 0u);
  EXPECT_EQ(stats.disk_hits, 1u);
  EXPECT_EQ(stats.cache_dir, folder_.path());
}

// Loading on other threads while this one launches and replays.
TEST_F(GpuCompileTest, ManyKernelsCompileBesideReplays) {
  const auto add = Named<Two>("add");
  Set(0.0f);
  std::vector<Kernel<Two>> others;
  constexpr int kOthers = 24;
  for (int i = 0; i < kOthers; ++i) {
    others.push_back(*runtime_->CompileKernel<Two>(
        {.source = kSource,
         .name = "add",
         .options = {"-DNUMBER=" + std::to_string(i)}}));
    Batch batch = stream_->BeginBatch();
    batch.Launch(add, kConfig, InOut(values_), 1.0f);
    batch.Launch(add, kConfig, InOut(values_), 2.0f);
    ASSERT_TRUE(batch.Submit());
  }
  for (const auto& other : others) Run(other, 1.0f);
  EXPECT_EQ(Values(), All(4.0f * kOthers));
  EXPECT_EQ(runtime_->stats().compiled, 1u + kOthers);
}

}  // namespace
}  // namespace reprise
