// The driver's table, with and without a driver; handles and their end.

#include "engine/device/driver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bit>
#include <string>
#include <utility>
#include <vector>

#include "engine/device/exiting.h"
#include "engine/device/unique_handle.h"

namespace reprise::device {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

CUresult CUDAAPI ErrorName(CUresult result, const char** name) {
  *name = result == CUDA_ERROR_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY"
                                             : "CUDA_ERROR_OTHER";
  return CUDA_SUCCESS;
}

CUresult CUDAAPI ErrorString(CUresult, const char** text) {
  *text = "some meaning";
  return CUDA_SUCCESS;
}

std::vector<CUgraph> destroyed;

CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

CUresult CUDAAPI ExchangeCaptureMode(CUstreamCaptureMode* mode) {
  std::swap(*mode, capture_mode);
  return CUDA_SUCCESS;
}

// The program may be capturing.
CUresult CUDAAPI DestroyGraph(CUgraph graph) {
  EXPECT_EQ(capture_mode, CU_STREAM_CAPTURE_MODE_RELAXED);
  destroyed.push_back(graph);
  return CUDA_SUCCESS;
}

Driver FakeDriver() {
  Driver driver;
  driver.cuGetErrorName = ErrorName;
  driver.cuGetErrorString = ErrorString;
  driver.cuGraphDestroy = DestroyGraph;
  driver.cuThreadExchangeStreamCaptureMode = ExchangeCaptureMode;
  return driver;
}

CUgraph Graph(uintptr_t value) { return std::bit_cast<CUgraph>(value); }

// Where there is no driver or no device, that is said in one sentence, and
// nothing else goes wrong; the answer stays the same.
TEST(DriverTest, LoadsOnceOrSaysWhyNot) {
  const auto first = Driver::Load();
  const auto second = Driver::Load();
  ASSERT_EQ(first.has_value(), second.has_value());
  if (first) {
    EXPECT_EQ(*first, *second);
    int version = 0;
    EXPECT_EQ((*first)->cuDriverGetVersion(&version), CUDA_SUCCESS);
    EXPECT_GE(version, 13000);
  } else {
    EXPECT_EQ(first.error().code(), base::Code::kUnavailable);
    const std::string& message = first.error().message();
    EXPECT_THAT(message, AnyOf(StartsWith("no NVIDIA driver was found"),
                               StartsWith("the NVIDIA driver"),
                               StartsWith("libcuda.so.1 is the toolkit's")));
    EXPECT_THAT(message, Not(HasSubstr("/lib")));
  }
}

TEST(DriverTest, UnusableDriverIsToldWithWhatToDo) {
  const Driver driver = FakeDriver();
  for (const auto& [result, remedy] :
       {std::pair(CUDA_ERROR_NO_DEVICE, "CUDA_VISIBLE_DEVICES"),
        std::pair(CUDA_ERROR_STUB_LIBRARY, "install driver 580"),
        std::pair(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, "cannot be used")}) {
    const base::Error error = driver.WhyUnusable(result, "cuInit");
    EXPECT_EQ(error.code(), base::Code::kUnavailable);
    EXPECT_THAT(error.message(),
                AllOf(HasSubstr(remedy), HasSubstr("cuInit failed with")));
  }
}

TEST(DriverTest, ErrorNamesCallResultAndMeaning) {
  const base::Error error =
      FakeDriver().Explain(CUDA_ERROR_OUT_OF_MEMORY, "cuMemAlloc");
  EXPECT_EQ(error.code(), base::Code::kResourceExhausted);
  EXPECT_THAT(error.message(), AllOf(HasSubstr("cuMemAlloc"),
                                     HasSubstr("CUDA_ERROR_OUT_OF_MEMORY"),
                                     HasSubstr("some meaning")));
}

TEST(DriverTest, EmptyTableStillExplains) {
  EXPECT_THAT(Driver().Explain(CUDA_ERROR_INVALID_VALUE, "cuInit").message(),
              HasSubstr("error 1"));
}

TEST(DriverTest, CheckTurnsResultsIntoStatus) {
  const Driver driver = FakeDriver();
  EXPECT_TRUE(Check(driver, CUDA_SUCCESS, "cuInit"));
  const base::Status failed = Check(driver, CUDA_ERROR_INVALID_VALUE, "cuInit");
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code(), base::Code::kInternal);
}

TEST(UniqueHandleTest, EndsItsObjectOnce) {
  const Driver driver = FakeDriver();
  destroyed.clear();
  {
    UniqueGraph graph(driver, Graph(1));
    UniqueGraph moved(std::move(graph));
    EXPECT_FALSE(graph);  // NOLINT(bugprone-use-after-move)
    EXPECT_EQ(moved.get(), Graph(1));
    EXPECT_THAT(destroyed, IsEmpty());
  }
  EXPECT_THAT(destroyed, ElementsAre(Graph(1)));
  EXPECT_EQ(capture_mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

TEST(UniqueHandleTest, AssignmentEndsTheOldObject) {
  const Driver driver = FakeDriver();
  destroyed.clear();
  UniqueGraph graph(driver, Graph(1));
  graph = UniqueGraph(driver, Graph(2));
  EXPECT_THAT(destroyed, ElementsAre(Graph(1)));
  graph.Reset();
  graph.Reset();
  EXPECT_THAT(destroyed, ElementsAre(Graph(1), Graph(2)));
}

// A forked child must not touch the driver: its handles are left alone.
TEST(UniqueHandleTest, ForkedChildLeavesHandlesAlone) {
  WatchForExit();
  const Driver driver = FakeDriver();
  destroyed.clear();
  UniqueGraph graph(driver, Graph(1));
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    graph.Reset();
    _exit(destroyed.empty() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

// Static objects that end with the process leave their handles to the driver.
TEST(UniqueHandleTest, StaticHandleIsLeftAloneAtExit) {
  EXPECT_EXIT(
      {
        static const Driver driver = [] {
          Driver aborting = FakeDriver();
          aborting.cuGraphDestroy = [](CUgraph) -> CUresult { _exit(3); };
          return aborting;
        }();
        static UniqueGraph graph(driver, Graph(1));
        WatchForExit();
        std::exit(0);
      },
      ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace reprise::device
