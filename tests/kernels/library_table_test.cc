// Threads that ask for one code share one loading of it.

#include "kernels/library_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

namespace reprise::kernels {
namespace {

std::atomic<int> loads;
std::atomic<int> unloads;
std::atomic<int> failures_left;
std::atomic<int> asking;

// Loading takes until all threads have asked.
constexpr int kThreads = 6;

device::Driver FakeDriver() {
  loads = unloads = failures_left = asking = 0;
  device::Driver driver;
  driver.cuCtxGetCurrent = [](CUcontext* context) {
    *context = nullptr;
    return CUDA_SUCCESS;
  };
  driver.cuThreadExchangeStreamCaptureMode = [](CUstreamCaptureMode*) {
    return CUDA_SUCCESS;
  };
  driver.cuLibraryLoadData =
      [](CUlibrary* library, const void*, CUjit_option* options, void** values,
         unsigned count, CUlibraryOption*, void**, unsigned) {
        while (asking < kThreads) std::this_thread::yield();
        ++loads;
        if (failures_left > 0) {
          --failures_left;
          EXPECT_EQ(count, 2u);
          EXPECT_EQ(options[0], CU_JIT_ERROR_LOG_BUFFER);
          std::string("line 3 is wrong")
              .copy(static_cast<char*>(values[0]),
                    reinterpret_cast<size_t>(values[1]));
          return CUDA_ERROR_INVALID_PTX;
        }
        *library = reinterpret_cast<CUlibrary>(static_cast<uintptr_t>(loads));
        return CUDA_SUCCESS;
      };
  driver.cuLibraryUnload = [](CUlibrary) {
    ++unloads;
    return CUDA_SUCCESS;
  };
  return driver;
}

// What each of the threads was given.
std::vector<base::Result<std::shared_ptr<KernelLibrary>>> LoadAtOnce(
    LibraryTable& table, const std::string& image) {
  std::vector<base::Result<std::shared_ptr<KernelLibrary>>> results(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      ++asking;
      results[t] = table.Load(image);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

TEST(LibraryTableTest, EqualCodeIsLoadedOnceForAllThreads) {
  const device::Driver driver = FakeDriver();
  LibraryTable table(driver, nullptr);
  {
    const auto results = LoadAtOnce(table, "code");
    for (const auto& library : results) {
      ASSERT_TRUE(library);
      EXPECT_EQ(*library, *results[0]);
    }
    EXPECT_EQ(loads, 1);
    EXPECT_EQ(table.size(), 1u);
    const auto other = table.Load(std::string("other code"));
    EXPECT_NE(*other, *results[0]);
    EXPECT_EQ(table.size(), 2u);
  }
  EXPECT_EQ(unloads, 2);
  EXPECT_EQ(table.size(), 0u);
  ASSERT_TRUE(table.Load(std::string("code")));
  EXPECT_EQ(loads, 3);
}

TEST(LibraryTableTest, FailureIsTheOneLoadersAndTheNextOneTriesAgain) {
  const device::Driver driver = FakeDriver();
  LibraryTable table(driver, nullptr);
  failures_left = 1;
  int failed = 0;
  const auto results = LoadAtOnce(table, "code");
  for (const auto& library : results) {
    if (library) continue;
    ++failed;
    EXPECT_THAT(library.error().message(),
                testing::EndsWith("\nline 3 is wrong"));
  }
  EXPECT_EQ(failed, 1);
  EXPECT_EQ(loads, 2);
  EXPECT_EQ(table.size(), 1u);
}

TEST(LibraryTableTest, LibrariesOutliveTheTable) {
  const device::Driver driver = FakeDriver();
  asking = kThreads;
  std::shared_ptr<KernelLibrary> library;
  {
    LibraryTable table(driver, nullptr);
    library = *table.Load(std::string("code"));
  }
  EXPECT_EQ(unloads, 0);
  library.reset();
  EXPECT_EQ(unloads, 1);
}

}  // namespace
}  // namespace reprise::kernels
