// Code on disk is found without NVRTC.

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <optional>
#include <string>

#include "kernels/compiler.h"
#include "kernels/disk_cache.h"
#include "tests/engine/base/manual_task_runner.h"
#include "tests/kernels/nvrtc_fixture.h"
#include "tests/kernels/temporary_folder.h"

namespace reprise::kernels {
namespace {

constexpr char kFolder[] = "REPRISE_TEST_FOLDER";

bool NvrtcIsLoaded() {
  return dlopen("libnvrtc.so.13", RTLD_NOW | RTLD_NOLOAD) != nullptr;
}

// Ends the process: with 0 if the code was there, 1 if it was compiled, others
// if something is wrong.
[[noreturn]] void CompileOnce() {
  auto disk = DiskCache::Open({.directory = getenv(kFolder)});
  if (!disk) _exit(2);
  base::InPlaceTaskRunner runner;
  Compiler compiler(runner, {.disk = *std::move(disk)});
  const auto code =
      compiler
          .Compile({.source = "extern \"C\" __global__ void found() {}",
                    .architecture = "sm_12345"})
          ->Wait();
  if (!code) {
    _exit(code.error().code() == base::Code::kUnavailable ? 77 : 3);
  }
  if (!Mentions((*code)->image, "found")) _exit(4);
  const bool compiled = compiler.stats().compiled != 0;
  if (NvrtcIsLoaded() != compiled) _exit(5);
  _exit(compiled ? 1 : 0);
}

// Each process is a fresh one, which finds NVRTC as a user's would.
TEST(NvrtcUnusedTest, CodeOnDiskIsFoundWithoutLoadingIt) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  std::optional<TemporaryFolder> folder;
  if (getenv(kFolder) == nullptr) {
    folder.emplace();
    setenv(kFolder, folder->path().c_str(), 1);
#ifdef REPRISE_TEST_CUDA_LIBRARY_DIR
    setenv("LD_LIBRARY_PATH", REPRISE_TEST_CUDA_LIBRARY_DIR, 1);
#endif
  }
  EXPECT_EXIT(
      CompileOnce(),
      [](int status) {
        return testing::ExitedWithCode(1)(status) ||
               testing::ExitedWithCode(77)(status);
      },
      "");
  EXPECT_EXIT(
      CompileOnce(),
      [](int status) {
        return testing::ExitedWithCode(0)(status) ||
               testing::ExitedWithCode(77)(status);
      },
      "");
  if (folder) unsetenv(kFolder);
}

}  // namespace
}  // namespace reprise::kernels
