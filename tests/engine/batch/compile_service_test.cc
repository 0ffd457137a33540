// Kernels from source on a simulated driver: real code, found by every kind of
// name, loaded once, unloaded when nothing uses it, whatever fails.

#include "engine/batch/compile_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "bindings/native/kernel_request.h"
#include "bindings/native/reprise.h"
#include "bindings/native/runtime_core.h"
#include "bindings/native/stream_core.h"
#include "tests/engine/base/manual_task_runner.h"
#include "tests/kernels/nvrtc_fixture.h"
#include "tests/kernels/temporary_folder.h"
#include "tests/sim/simulated_gpu.h"
#include "tests/sim/simulated_libraries.h"

namespace reprise::engine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kSource[] = R"(
extern "C" __global__ void add(float* p, float by) { *p += by; }
extern "C" __global__ void twice(float* p) { *p *= 2.0f; }
namespace space { __global__ void negate(float* p) { *p = -*p; } }
__global__ void set(float* p, float to) { *p = to; }
__global__ void set(float* p, int to) { *p = to; }
template <typename T, int n> __global__ void scale(T* p) { *p *= T(n); }
)";
using One = void(float*);
using Two = void(float*, float);

template <typename... P>
std::vector<device::ParamSpan> SpansOf(void (*)(P...)) {
  using Image = native::ParamImage<P...>;
  std::vector<device::ParamSpan> spans;
  for (size_t i = 0; i < Image::kCount; ++i) {
    spans.push_back({Image::kOffsets[i], Image::kSizes[i]});
  }
  return spans;
}

// A simulated device with streams, and a service stepped by hand.
class World {
 public:
  explicit World(RuntimeOptions options = {.cache_dir = ""})
      : options_(std::move(options)) {
    const auto add = [](float* p, float by) { *p += by; };
    const auto set = [](float* p, float to) { *p = to; };
    const auto set_int = [](float* p, int to) { *p = static_cast<float>(to); };
    libraries.host_code = {
        {"add", sim::SimulatedGpu::MakeKernel(+add)},
        {"twice", sim::SimulatedGpu::MakeKernel(+[](float* p) { *p *= 2; })},
        {"_ZN5space6negateEPf",
         sim::SimulatedGpu::MakeKernel(+[](float* p) { *p = -*p; })},
        {"_Z3setPff", sim::SimulatedGpu::MakeKernel(+set)},
        {"_Z3setPfi", sim::SimulatedGpu::MakeKernel(+set_int)},
        {"_Z5scaleIfLi3EEvPT_",
         sim::SimulatedGpu::MakeKernel(+[](float* p) { *p *= 3; })},
        {"_Z5scaleIfLi5EEvPT_",
         sim::SimulatedGpu::MakeKernel(+[](float* p) { *p *= 5; })}};
    NewService();
  }

  // Another one, with nothing in memory. Kernels of the old one go on.
  void NewService() {
    auto runner = std::make_unique<base::ManualTaskRunner>();
    tasks = runner.get();
    service.emplace(core->device(), options_.cache_dir, std::move(runner));
  }

  template <typename Signature>
  Kernel<Signature> Compile(KernelSource source) {
    return Kernel<Signature>(
        service->Compile(native::RequestOf(source), source.name,
                         SpansOf(static_cast<Signature*>(nullptr))));
  }
  template <typename Signature>
  Kernel<Signature> Named(std::string name) {
    return Compile<Signature>({.source = kSource, .name = std::move(name)});
  }

  // What waiting for that kernel complains of.
  template <typename Signature>
  std::string Fault(KernelSource source) {
    const Status waited = Compile<Signature>(std::move(source)).Wait();
    EXPECT_FALSE(waited);
    return waited ? "" : waited.error().message();
  }

  template <typename Signature, typename... P>
  Status Run(const Kernel<Signature>& kernel, P... parameters) {
    Batch batch(stream);
    batch.Launch(kernel, {}, parameters...);
    return batch.Submit();
  }

  sim::SimulatedGpu gpu;
  sim::SimulatedLibraries libraries{gpu};
  std::shared_ptr<native::RuntimeCore> core =
      std::make_shared<native::RuntimeCore>(
          native::MakeCudaDevice(gpu.driver, gpu.context),
          RuntimeOptions{.cache_dir = ""});
  std::shared_ptr<native::StreamCore> stream =
      std::make_shared<native::StreamCore>(core, gpu.stream, /*owned=*/false);
  base::ManualTaskRunner* tasks = nullptr;
  std::optional<CompileService> service;
  float value = 1.0f;

 private:
  const RuntimeOptions options_;
};

class CompileServiceTest : public kernels::NvrtcFixture {};

TEST_F(CompileServiceTest, CompilesAndLoadsInTheBackground) {
  World world;
  const auto add = world.Named<Two>("add");
  EXPECT_FALSE(add.code()->ready());
  EXPECT_EQ(world.libraries.loads, 0);
  world.tasks->RunAll();
  EXPECT_TRUE(add.code()->ready());
  EXPECT_EQ(world.libraries.loads, 1);
  EXPECT_EQ(world.libraries.ready_calls, 1);
  // A launch brings nothing to the device any more.
  world.gpu.calls.clear();
  ASSERT_TRUE(world.Run(add, &world.value, 2.0f));
  EXPECT_EQ(world.value, 3.0f);
  for (const std::string& call : world.gpu.calls) {
    EXPECT_THAT(call, AllOf(Not(HasSubstr("Library")), Not("cuFuncLoad"),
                            Not("cuKernelGetFunction")));
  }
}

TEST_F(CompileServiceTest, WaitingDoesWhatNobodyHasBegun) {
  World world;
  const auto add = world.Named<Two>("add");
  ASSERT_TRUE(world.Run(add, &world.value, 2.0f));
  EXPECT_EQ(world.value, 3.0f);
  world.tasks->RunAll();  // finds nothing to do
  EXPECT_EQ(world.libraries.loads, 1);
  EXPECT_EQ(world.service->stats().compiled, 1u);
}

TEST_F(CompileServiceTest, KernelsOfOneSourceShareOneLibrary) {
  World world;
  std::optional add = world.Named<Two>("add");
  std::optional twice = world.Named<One>("twice");
  world.tasks->RunAll();
  std::optional later = world.Named<Two>("add");
  EXPECT_FALSE(later->code()->ready());  // loading is no work for this thread
  world.tasks->RunAll();
  ASSERT_TRUE(add->Wait() && twice->Wait() && later->Wait());
  EXPECT_EQ(world.libraries.loads, 1);
  RuntimeStats stats = world.service->stats();
  EXPECT_EQ(stats.compiled, 1u);
  EXPECT_EQ(stats.memory_hits, 2u);
  EXPECT_EQ(stats.libraries, 1u);

  add.reset();
  twice.reset();
  EXPECT_EQ(world.libraries.loaded(), 1u);
  ASSERT_TRUE(world.Run(*later, &world.value, 1.0f));
  later.reset();
  EXPECT_EQ(world.libraries.loaded(), 0u);
  EXPECT_EQ(world.service->stats().libraries, 0u);

  // Known all the same.
  ASSERT_TRUE(world.Named<Two>("add").Wait());
  EXPECT_EQ(world.libraries.loads, 2);
  EXPECT_EQ(world.service->stats().compiled, 1u);
}

TEST_F(CompileServiceTest, EveryKindOfNameFindsItsKernel) {
  World world;
  const auto run = [&world](const auto& kernel, auto... parameters) {
    world.value = 1.0f;
    const Status done = world.Run(kernel, &world.value, parameters...);
    EXPECT_TRUE(done) << done.error().message();
    return world.value;
  };
  EXPECT_EQ(run(world.Named<Two>("add"), 4.0f), 5.0f);
  EXPECT_EQ(run(world.Named<One>("space::negate")), -1.0f);
  EXPECT_EQ(run(world.Named<One>("_ZN5space6negateEPf")), -1.0f);
  EXPECT_EQ(run(world.Named<One>("&space::negate")), -1.0f);
  EXPECT_EQ(run(world.Named<One>("scale<float, 3>")), 3.0f);
  EXPECT_EQ(run(world.Named<One>("scale<float,5>")), 5.0f);
  EXPECT_EQ(run(world.Named<Two>("(void(*)(float*, float))set"), 7.0f), 7.0f);
  EXPECT_EQ(run(world.Named<void(float*, int)>("(void(*)(float*, int))set"), 8),
            8.0f);
}

TEST_F(CompileServiceTest, NamedInstancesAreCompiledTogether) {
  World world;
  KernelSource source{.source = kSource,
                      .name = "scale<float, 3>",
                      .instances = {"scale<float, 5>", "scale<float, 3>"}};
  const auto by_three = world.Compile<One>(source);
  source.name = "scale<float, 5>";
  const auto by_five = world.Compile<One>(source);
  source.name = "twice";
  const auto twice = world.Compile<One>(source);
  for (const auto* kernel : {&by_three, &by_five, &twice}) {
    ASSERT_TRUE(world.Run(*kernel, &world.value));
  }
  EXPECT_EQ(world.value, 30.0f);
  EXPECT_EQ(world.service->stats().compiled, 1u);
  EXPECT_EQ(world.libraries.loads, 1);
}

TEST_F(CompileServiceTest, UnknownNamesAreToldWithThoseThatThereAre) {
  World world;
  EXPECT_EQ(
      world.Fault<Two>({.source = kSource, .name = "ad"}),
      "the source has no kernel 'ad': it has add, set(float*, float), "
      "set(float*, int), space::negate(float*), twice, and the template scale, "
      "named with arguments as in scale<float>");
  EXPECT_THAT(world.Fault<Two>({.source = kSource, .name = "set"}),
              AllOf(StartsWith("the source has 2 kernels 'set'"),
                    HasSubstr("(void(*)(float*))set")));
  EXPECT_THAT(world.Fault<One>({.source = kSource, .name = "scale<int>"}),
              StartsWith("kernel.cu has no kernel 'scale<int>': it has "));
  EXPECT_THAT(world.Fault<One>({.source = "", .name = "nothing"}),
              StartsWith("the source has no kernel 'nothing': it has no kernel "
                         "at all"));
  EXPECT_EQ(world.libraries.loaded(), 0u);
}

TEST_F(CompileServiceTest, ParametersAreChecked) {
  World world;
  EXPECT_EQ(world.Fault<One>({.source = kSource, .name = "add"}),
            "kernel 'add' takes 2 parameters, not 1");
  EXPECT_EQ(
      (world.Fault<void(float*, double)>({.source = kSource, .name = "add"})),
      "parameter 1 of kernel 'add' has 4 bytes at 8, not 8 at 8");
  EXPECT_EQ(world.libraries.loaded(), 0u);
}

TEST_F(CompileServiceTest, AllThatDecidesWhatIsCompiledReachesTheCompiler) {
  const kernels::TemporaryFolder folder;
  folder.Write("on_disk.h", "#define ON_DISK\n");
  World world;
  KernelSource source{
      .source =
          "#include <on_disk.h>\n"
          "#include <deep/in_memory.h>\n"
          "#if defined ON_DISK && defined IN_MEMORY && defined OPTION\n"
          "extern \"C\" __global__ void add(float*, float) { int q; }\n"
          "#endif\n",
      .name = "add",
      .options = {"-DOPTION"},
      .headers = {{"deep/in_memory.h", "#define IN_MEMORY\n"}},
      .include_paths = {folder.path()},
      .architecture = "compute_80",
      .file = "mine.cu"};
  const auto add = world.Compile<Two>(source);
  const auto log = add.Log();
  ASSERT_TRUE(log) << log.error().message();
  EXPECT_THAT(*log, AllOf(HasSubstr("mine.cu(4)"), HasSubstr("\"q\"")));
  source.source += "\nthis is wrong;\n";
  EXPECT_THAT(world.Fault<Two>(source), HasSubstr("mine.cu(7): error"));
  EXPECT_THAT(*world.Named<Two>("add").Log(), IsEmpty());
}

// As CUDA's own programs include them: without a word about folders.
TEST_F(CompileServiceTest, HeadersOfTheToolkitAreFound) {
  if (!std::filesystem::exists(REPRISE_TEST_CUDA_LIBRARY_DIR
                               "/libnvrtc.so.13")) {
    GTEST_SKIP() << "nvrtc lies apart from the headers of the build";
  }
  const kernels::TemporaryFolder folder;
  World world({.cache_dir = folder.path()});
  for (const char* header : {"cooperative_groups.h", "cuda/std/type_traits"}) {
    const Status compiled =
        world
            .Compile<One>(
                {.source = "#include <" + std::string(header) + ">\n" + kSource,
                 .name = "twice"})
            .Wait();
    EXPECT_TRUE(compiled) << header << ": " << compiled.error().message();
  }
  const KernelSource halves{.source = R"(#include <cuda_fp16.h>
extern "C" __global__ void twice(float* p) {
  *p = __half2float(__hadd(__float2half(*p), __float2half(*p)));
})",
                            .name = "twice"};
  ASSERT_TRUE(world.Run(world.Compile<One>(halves), &world.value));
  EXPECT_EQ(world.value, 2.0f);

  // What they include is known, so that another process finds the code.
  world.NewService();
  ASSERT_TRUE(world.Compile<One>(halves).Wait());
  EXPECT_EQ(world.service->stats().compiled, 0u);
  EXPECT_EQ(world.service->stats().disk_hits, 1u);
}

TEST_F(CompileServiceTest, FoldersOfTheSourceComeBeforeTheToolkits) {
  const kernels::TemporaryFolder folder;
  folder.Write("cuda_fp16.h", "#define MINE\n");
  World world;
  const auto mine = world.Compile<One>(
      {.source =
           "#include <cuda_fp16.h>\n#ifndef MINE\n#error theirs\n#endif\n" +
           std::string(kSource),
       .name = "twice",
       .include_paths = {folder.path()}});
  const Status compiled = mine.Wait();
  EXPECT_TRUE(compiled) << compiled.error().message();
}

// It is the same wherever the toolkit lies.
TEST_F(CompileServiceTest, SourceThatIncludesNothingHasNoFolders) {
  World world;
  const auto add = world.Named<Two>("add");
  ASSERT_TRUE(add.Wait());
  EXPECT_THAT(add.code()->source()->include_paths, IsEmpty());
}

TEST_F(CompileServiceTest, DeviceThatNvrtcDoesNotKnowIsGivenPtx) {
  World world;
  const auto add = world.Compile<Two>(
      {.source = kSource, .name = "add", .architecture = "sm_12345"});
  ASSERT_TRUE(world.Run(add, &world.value, 2.0f));
  EXPECT_EQ(world.value, 3.0f);
  EXPECT_THAT(world.Fault<Two>(
                  {.source = kSource, .name = "add", .architecture = "hopper"}),
              HasSubstr("'hopper' is no architecture"));
}

TEST_F(CompileServiceTest, PlanKeepsTheLibrary) {
  World world;
  std::optional add = world.Named<Two>("add");
  Batch batch(world.stream);
  batch.Launch(*add, {}, &world.value, 1.0f);
  batch.Launch(*add, {}, &world.value, 2.0f);
  {
    auto plan = batch.Prepare();
    ASSERT_TRUE(plan) << plan.error().message();
    add.reset();
    ASSERT_TRUE(plan->Launch());
    EXPECT_EQ(world.value, 4.0f);
    EXPECT_EQ(world.libraries.loaded(), 1u);
  }
  EXPECT_EQ(world.libraries.loaded(), 0u);
}

TEST_F(CompileServiceTest, GraphsOfBatchesKeepTheLibrary) {
  World world;
  std::optional add = world.Named<Two>("add");
  for (int call = 0; call < 3; ++call) {
    Batch batch(world.stream);
    batch.Launch(*add, {}, &world.value, 1.0f);
    batch.Launch(*add, {}, &world.value, 2.0f);
    ASSERT_TRUE(batch.Submit());
    world.core->queue().WaitIdle(std::nullopt);
  }
  EXPECT_EQ(world.stream->batches().stats().replayed, 1u);
  add.reset();
  EXPECT_EQ(world.libraries.loaded(), 1u);
  world.stream.reset();
  EXPECT_EQ(world.libraries.loaded(), 0u);
}

TEST_F(CompileServiceTest, WorkUnderWayEndsBeforeItsLibrary) {
  World world;
  world.gpu.streams.SetPace(sim::SimulatedStreams::Pace::kByHand);
  {
    const auto add = world.Named<Two>("add");
    ASSERT_TRUE(world.Run(add, &world.value, 2.0f));
    EXPECT_EQ(world.value, 1.0f);
  }
  EXPECT_EQ(world.libraries.loaded(), 0u);
  world.gpu.streams.SynchronizeAll();
  EXPECT_EQ(world.value, 3.0f);
}

TEST_F(CompileServiceTest, KernelThatNobodyHoldsIsNotLoaded) {
  World world;
  std::optional add = world.Named<Two>("add");
  add.reset();
  world.tasks->RunAll();
  EXPECT_EQ(world.service->stats().compiled, 1u);
  EXPECT_EQ(world.libraries.loads, 0);
}

TEST_F(CompileServiceTest, KernelsOutliveTheServiceAndTellWhatWasDropped) {
  World world;
  const auto add = world.Named<Two>("add");
  ASSERT_TRUE(add.Wait());
  const auto twice = world.Compile<One>(
      {.source = kSource, .name = "twice", .options = {"-DANOTHER"}});
  world.service.reset();
  ASSERT_TRUE(world.Run(add, &world.value, 2.0f));
  EXPECT_EQ(world.value, 3.0f);
  const Status waited = twice.Wait();
  ASSERT_FALSE(waited);
  EXPECT_EQ(waited.error().code(), Code::kFailedPrecondition);
}

TEST_F(CompileServiceTest, CodeOutlivesTheProcessOnDisk) {
  const kernels::TemporaryFolder folder;
  World world({.cache_dir = folder.path()});
  ASSERT_TRUE(world.Named<Two>("add").Wait());
  RuntimeStats stats = world.service->stats();
  EXPECT_EQ(stats.compiled, 1u);
  EXPECT_EQ(stats.cache_dir, folder.path());
  EXPECT_THAT(stats.why_no_cache, IsEmpty());

  world.NewService();
  const auto scale = world.Named<One>("scale<float, 3>");
  const auto add = world.Named<Two>("add");
  ASSERT_TRUE(world.Run(add, &world.value, 2.0f));
  ASSERT_TRUE(world.Run(scale, &world.value));
  EXPECT_EQ(world.value, 9.0f);
  stats = world.service->stats();
  EXPECT_EQ(stats.disk_hits, 1u);
  EXPECT_EQ(stats.compiled, 1u);

  // What is damaged is made anew.
  for (const auto& item : std::filesystem::directory_iterator(folder.path())) {
    std::filesystem::resize_file(item.path(), 100);
  }
  for (const uint64_t compiled : {1, 0}) {
    world.NewService();
    ASSERT_TRUE(world.Named<Two>("add").Wait());
    EXPECT_EQ(world.service->stats().compiled, compiled);
  }
}

TEST_F(CompileServiceTest, CacheThatCannotBeUsedIsNoErrorAndIsTold) {
  const kernels::TemporaryFolder folder;
  folder.Write("file", "");
  folder.Write("open/file", "");
  std::filesystem::permissions(folder / "open", std::filesystem::perms::all);
  const auto why = [](std::optional<std::string> cache_dir) {
    World world({.cache_dir = std::move(cache_dir)});
    EXPECT_TRUE(world.Run(world.Named<Two>("add"), &world.value, 2.0f));
    EXPECT_EQ(world.service->stats().compiled, 1u);
    EXPECT_THAT(world.service->stats().cache_dir, IsEmpty());
    return world.service->stats().why_no_cache;
  };
  EXPECT_THAT(why(folder / "file"), HasSubstr("cannot be opened"));
  EXPECT_THAT(why(folder / "file/below"), HasSubstr("cannot be made"));
  EXPECT_THAT(why(folder / "open"), HasSubstr("others may write to it"));
  EXPECT_THAT(why(""), HasSubstr("is empty"));
  EXPECT_THAT(why("/proc/none"), HasSubstr("'/proc/none'"));
}

TEST_F(CompileServiceTest, UnsetFolderIsTheEnvironments) {
  const kernels::TemporaryFolder folder;
  const char* const before = getenv("REPRISE_CACHE_DIR");
  const std::string kept = before == nullptr ? "" : before;
  setenv("REPRISE_CACHE_DIR", (folder / "new").c_str(), 1);
  {
    World world{RuntimeOptions{}};
    EXPECT_EQ(world.service->stats().cache_dir, folder / "new");
  }
  setenv("REPRISE_CACHE_DIR", kept.c_str(), 1);
}

// Whatever call of the driver fails, a kernel works or says why not, nothing is
// left over, and the next one works.
TEST_F(CompileServiceTest, EveryDriverCallMayFailOnce) {
  const kernels::TemporaryFolder folder;
  std::set<std::string> failed;
  for (int calls = 0;; ++calls) {
    SCOPED_TRACE(testing::Message() << "after " << calls << " calls");
    World world({.cache_dir = folder.path()});
    world.gpu.FailAfter(calls);
    for (const char* name : {"add", "(void(*)(float*, float))set", "ad"}) {
      const auto kernel = world.Named<Two>(name);
      world.tasks->RunAll();
      const Status waited = kernel.Wait();
      if (waited) {
        world.value = 1.0f;
        (void)world.Run(kernel, &world.value, 2.0f);
      } else if (std::string(name) != "ad") {
        EXPECT_THAT(waited.error().message(), HasSubstr("SIMULATED"));
      }
    }
    const std::string call = world.gpu.failed;
    EXPECT_EQ(world.libraries.loaded(), 0u) << call;
    if (call.empty()) break;
    failed.insert(call);
    const auto kernel = world.Named<Two>("add");
    world.value = 1.0f;
    ASSERT_TRUE(world.Run(kernel, &world.value, 2.0f)) << call;
    EXPECT_EQ(world.value, 3.0f);
    ASSERT_LT(calls, 1000);
  }
  for (const char* call :
       {"cuLibraryLoadData", "cuLibraryGetKernel", "cuKernelGetFunction",
        "cuFuncLoad", "cuFuncGetParamInfo", "cuLibraryEnumerateKernels",
        "cuLibraryGetKernelCount", "cuKernelGetName", "cuLibraryUnload"}) {
    EXPECT_EQ(failed.count(call), 1u) << call;
  }
}

TEST(HostCompileServiceTest, HostCompilesNothing) {
  const auto runtime = Runtime::Create({.device = RuntimeOptions::kHost});
  ASSERT_TRUE(runtime);
  const auto kernel =
      runtime->CompileKernel<One>({.source = kSource, .name = "twice"});
  ASSERT_TRUE(kernel);
  const Status waited = kernel->Wait();
  ASSERT_FALSE(waited);
  EXPECT_EQ(waited.error().code(), Code::kUnavailable);
  EXPECT_THAT(waited.error().message(), HasSubstr("HostKernel"));
  EXPECT_THAT(runtime->stats().why_no_cache, HasSubstr("host"));
}

}  // namespace
}  // namespace reprise::engine
