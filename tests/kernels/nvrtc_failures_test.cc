// Whatever call of NVRTC fails, there is right code or a reason, nothing is
// left over, and nothing that failed is kept.

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/task.h"
#include "kernels/compare.h"
#include "kernels/compare_source.h"
#include "kernels/compiler.h"
#include "kernels/disk_cache.h"
#include "kernels/nvrtc.h"
#include "tests/engine/base/manual_task_runner.h"
#include "tests/kernels/temporary_folder.h"
#include "tests/sim/simulated_gpu.h"
#include "tests/sim/simulated_nvrtc.h"

namespace reprise::kernels {
namespace {

using sim::SimulatedNvrtc;

KernelSource Source(const std::string& architecture) {
  return {.source = "template <int n> __global__ void f() {}",
          .architecture = architecture,
          .headers = {{"a.h", "int a;"}},
          .name_expressions = {"f<1>", "f<2>"}};
}

// A log is for people, and a program that is not destroyed is NVRTC's loss.
bool IsHarmless(const std::string& call) {
  return call == "nvrtcDestroyProgram" || call == "nvrtcGetProgramLog" ||
         call == "nvrtcGetProgramLogSize";
}

// What `source`, for `target`, must become.
void ExpectRight(const CompiledCode& code, const KernelSource& source,
                 const std::string& target) {
  // The final zero is part of an image.
  EXPECT_EQ(std::string(code.image.begin(), code.image.end()),
            SimulatedNvrtc::CodeOf(target, source.source) + '\0');
  EXPECT_EQ(code.architecture, target);
  ASSERT_EQ(code.lowered_names.size(), source.name_expressions.size());
  for (const auto& [expression, name] : code.lowered_names) {
    EXPECT_EQ(name, "_Z" + expression);
  }
}

// Fails each call that `run` makes of NVRTC, one after the other, and returns
// the names of those that failed. `run` makes all that it uses.
std::set<std::string> FailEach(
    const std::function<void(SimulatedNvrtc&)>& run) {
  std::set<std::string> failed;
  for (int calls = 0; calls < 1000; ++calls) {
    SCOPED_TRACE(testing::Message() << "after " << calls << " calls");
    SimulatedNvrtc nvrtc;
    nvrtc.calls.FailAfter(calls);
    run(nvrtc);
    EXPECT_EQ(nvrtc.programs(), 0u);
    if (nvrtc.calls.failed().empty()) return failed;
    failed.insert(nvrtc.calls.failed());
  }
  ADD_FAILURE() << "there is no end of calls";
  return failed;
}

TEST(NvrtcFailuresTest, CodeIsRightOrTheErrorNamesTheCall) {
  for (const std::string architecture : {"sm_90", "sm_103"}) {
    const std::string target = architecture == "sm_90" ? "sm_90" : "compute_90";
    const std::set<std::string> failed = FailEach([&](SimulatedNvrtc& library) {
      const KernelSource source = Source(architecture);
      for (int attempt = 0; attempt < 2; ++attempt) {
        const std::string before = library.calls.failed();
        const auto code =
            Nvrtc::Create(library.entries).and_then([&](const Nvrtc& nvrtc) {
              return nvrtc.Compile(source);
            });
        const std::string& call = library.calls.failed();
        if (code) {
          EXPECT_TRUE(call == before || IsHarmless(call)) << call;
          ExpectRight(*code, source, target);
        } else {
          // Once, and never because of an earlier failure.
          EXPECT_EQ(before, "");
          EXPECT_FALSE(IsHarmless(call)) << call;
          EXPECT_EQ(code.error().code(), base::Code::kInternal);
          EXPECT_NE(code.error().message().find("SIMULATED"), std::string::npos)
              << code.error().message();
        }
      }
    });
    EXPECT_EQ(failed.size(), 12u);
  }
}

// The compiler's log is part of the error if it can be had, and no other error
// takes its place if it cannot.
TEST(NvrtcFailuresTest, ErrorOfTheCompilerIsToldWithoutItsLogToo) {
  for (const int calls_between : {-1, 0, 1}) {
    SimulatedNvrtc library;
    const auto nvrtc = Nvrtc::Create(library.entries);
    ASSERT_TRUE(nvrtc);
    KernelSource source = Source("sm_90");
    source.source = "#error";
    library.compile_error = NVRTC_ERROR_COMPILATION;
    // Created, two expressions, compiled, then the log.
    library.calls.FailAfter(calls_between < 0 ? -1 : 4 + calls_between);
    const auto code = nvrtc->Compile(source);
    ASSERT_FALSE(code);
    EXPECT_EQ(code.error().code(), base::Code::kInvalidArgument);
    EXPECT_NE(code.error().message().find("nvrtcCompileProgram failed"),
              std::string::npos);
    EXPECT_EQ(code.error().message().find("SIMULATED log") != std::string::npos,
              calls_between < 0)
        << library.calls.failed();
    EXPECT_EQ(library.programs(), 0u);
  }
}

// Through the compiler's caches: a failure is told to all who wait and kept
// nowhere, and what is kept is right.
TEST(NvrtcFailuresTest, FailuresAreNotKeptInMemoryOrOnDisk) {
  const KernelSource source = Source("sm_90");
  const std::set<std::string> failed = FailEach([&](SimulatedNvrtc& library) {
    const auto nvrtc = Nvrtc::Create(library.entries);
    if (!nvrtc) return;
    const TemporaryFolder folder;
    auto opened = DiskCache::Open({.directory = folder.path()});
    ASSERT_TRUE(opened);
    const std::shared_ptr<DiskCache> disk = *std::move(opened);
    base::ManualTaskRunner tasks;
    {
      Compiler compiler(tasks, {.disk = disk, .nvrtc = &*nvrtc});
      const auto first = compiler.Compile(source);
      const auto joined = compiler.Compile(source);
      EXPECT_EQ(first, joined);
      tasks.RunAll();
      const auto code = first->Wait();
      const std::string call = library.calls.failed();
      EXPECT_EQ(code.has_value(), call.empty() || IsHarmless(call)) << call;
      if (code) {
        ExpectRight(**code, source, "sm_90");
      } else {
        EXPECT_EQ(joined->Wait().error().message(), code.error().message());
        EXPECT_TRUE(std::filesystem::is_empty(folder.path())) << call;
      }
      // It is tried again, and kept then.
      const auto again = compiler.Compile(source);
      EXPECT_EQ(again->done(), code.has_value());
      tasks.RunAll();
      ASSERT_TRUE(again->Wait());
      ExpectRight(**again->Wait(), source, "sm_90");
      EXPECT_EQ(compiler.stats().compiled, code ? 1u : 2u);
    }
    Compiler later(tasks, {.disk = disk, .nvrtc = &*nvrtc});
    const auto kept = later.Compile(source);
    tasks.RunAll();
    ASSERT_TRUE(kept->Wait());
    ExpectRight(**kept->Wait(), source, "sm_90");
    EXPECT_EQ(later.stats().compiled, 0u);
  });
  EXPECT_EQ(failed.size(), 12u);
}

// The comparison by which plans are trusted: there is one or there is a reason,
// whichever call of NVRTC or of the driver fails.
TEST(NvrtcFailuresTest, DeviceCompareIsWholeOrAbsent) {
  const auto create = [](sim::SimulatedGpu& gpu, SimulatedNvrtc& library) {
    return Nvrtc::Create(library.entries).and_then([&](const Nvrtc& nvrtc) {
      return DeviceCompare::Create(gpu.driver, 0, nvrtc);
    });
  };
  const std::set<std::string> failed = FailEach([&](SimulatedNvrtc& library) {
    sim::SimulatedGpu gpu;
    const auto compare = create(gpu, library);
    const std::string call = library.calls.failed();
    EXPECT_EQ(compare.has_value(), call.empty() || IsHarmless(call)) << call;
    EXPECT_EQ(gpu.objects(), compare ? 1u : 0u) << call;
    library.calls.FailAfter(-1);
    EXPECT_TRUE(create(gpu, library)) << "after " << call << " failed";
  });
  EXPECT_EQ(failed.size(), 10u);
  std::set<std::string> driver_failed;
  for (int calls = 0;; ++calls) {
    SCOPED_TRACE(testing::Message() << "after " << calls << " driver calls");
    ASSERT_LT(calls, 1000);
    SimulatedNvrtc library;
    sim::SimulatedGpu gpu;
    gpu.FailAfter(calls);
    const std::optional<base::Error> error =
        [&]() -> std::optional<base::Error> {
      const auto compare = create(gpu, library);
      if (compare) return std::nullopt;
      EXPECT_EQ(gpu.objects(), 0u);
      return compare.error();
    }();
    EXPECT_EQ(gpu.objects(), 0u);
    if (gpu.failed.empty()) break;
    driver_failed.insert(gpu.failed);
    // In its destructor.
    if (gpu.failed == "cuLibraryUnload" ||
        gpu.failed == "cuThreadExchangeStreamCaptureMode") {
      continue;
    }
    ASSERT_TRUE(error.has_value()) << gpu.failed;
    EXPECT_NE(error->message().find("SIMULATED"), std::string::npos);
  }
  EXPECT_EQ(driver_failed.size(), 5u);
}

}  // namespace
}  // namespace reprise::kernels
