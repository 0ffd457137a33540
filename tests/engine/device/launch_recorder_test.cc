// The recorder, driven by a simulated CUPTI: what it keeps of each driver call.

#include "engine/device/launch_recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <bit>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <future>
#include <map>
#include <thread>

#include "engine/device/cupti.h"
#include "tests/engine/base/stuck_thread.h"

namespace reprise::device {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

CUstream Stream(uintptr_t value) { return std::bit_cast<CUstream>(value); }
CUevent Event(uintptr_t value) { return std::bit_cast<CUevent>(value); }

thread_local CUstreamCaptureMode t_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

// One subscriber, as CUPTI has it, and a driver that answers about functions
// and pointers. Each answer comes back as a callback, as the real one's does.
struct Simulation {
  CUpti_CallbackFunc callback = nullptr;
  std::atomic<bool> enabled = false;
  bool held_by_another_tool = false;
  // It refuses a subscription with more parameters, and then with more than
  // `older_params_bytes`.
  size_t knows_params_bytes = sizeof(CUpti_SubscriberParams);
  size_t older_params_bytes = sizeof(CUpti_SubscriberParams);
  bool domain_fails = false;
  bool forgot_threads = false;  // of their calls, exits alone are told
  int questions = 0;
  int subscriptions = 0;
  int finalized = 0;
  std::function<void()> on_question;
  std::function<void()> on_disable;
  std::function<void()> on_subscribe;
  std::function<void()> on_unsubscribe;
  std::function<void()> on_finalize;
  std::map<CUfunction, std::vector<ParamSpan>> functions;
  std::map<CUfunction, std::vector<ParamSpan>> kernels;
  std::map<CUdeviceptr, int> device_of;

  Driver driver;
  Cupti cupti;
};
Simulation* simulation = nullptr;

void Call(CUpti_CallbackId id, const char* name, const void* params,
          const char* symbol = nullptr) {
  const CUpti_CallbackFunc callback = simulation->callback;
  for (const CUpti_ApiCallbackSite site : {CUPTI_API_ENTER, CUPTI_API_EXIT}) {
    if (!simulation->enabled) return;
    if (site == CUPTI_API_ENTER && simulation->forgot_threads) continue;
    CUpti_CallbackData data{};
    data.callbackSite = site;
    data.functionName = name;
    data.functionParams = params;
    data.symbolName = symbol;
    callback(nullptr, CUPTI_CB_DOMAIN_DRIVER_API, id, &data);
  }
}
#define REPRISE_CALL(name, params) \
  Call(CUPTI_DRIVER_TRACE_CBID_##name, #name, params)

CUresult Param(const std::map<CUfunction, std::vector<ParamSpan>>& known,
               CUfunction function, size_t index, size_t* offset,
               size_t* size) {
  ++simulation->questions;
  if (simulation->on_question) simulation->on_question();
  // An unknown call would refuse the op, if the recorder saw it.
  Call(CUPTI_DRIVER_TRACE_CBID_INVALID, "question", nullptr);
  const auto found = known.find(function);
  if (found == known.end()) return CUDA_ERROR_INVALID_HANDLE;
  if (index >= found->second.size()) return CUDA_ERROR_INVALID_VALUE;
  *offset = found->second[index].offset_bytes;
  *size = found->second[index].size_bytes;
  return CUDA_SUCCESS;
}

class LaunchRecorderTest : public ::testing::Test {
 protected:
  LaunchRecorderTest() {
    simulation = &simulation_;
    Driver& driver = simulation_.driver;
    driver.cuFuncGetParamInfo = [](CUfunction f, size_t i, size_t* offset,
                                   size_t* size) {
      return Param(simulation->functions, f, i, offset, size);
    };
    driver.cuKernelGetParamInfo = [](CUkernel k, size_t i, size_t* offset,
                                     size_t* size) {
      return Param(simulation->kernels, reinterpret_cast<CUfunction>(k), i,
                   offset, size);
    };
    driver.cuCtxGetCurrent = [](CUcontext* context) {
      Call(CUPTI_DRIVER_TRACE_CBID_cuCtxGetCurrent, "cuCtxGetCurrent", nullptr);
      *context = nullptr;
      return CUDA_SUCCESS;
    };
    driver.cuThreadExchangeStreamCaptureMode = [](CUstreamCaptureMode* mode) {
      std::swap(*mode, t_mode);
      return CUDA_SUCCESS;
    };
    driver.cuFuncGetName = [](const char** name, CUfunction) {
      *name = "asked_name";
      return CUDA_SUCCESS;
    };
    driver.cuPointerGetAttribute = [](void* data, CUpointer_attribute attribute,
                                      CUdeviceptr pointer) {
      const auto found = simulation->device_of.find(pointer);
      if (found == simulation->device_of.end()) return CUDA_ERROR_INVALID_VALUE;
      const int value = attribute == CU_POINTER_ATTRIBUTE_MEMORY_TYPE
                            ? CU_MEMORYTYPE_DEVICE
                            : found->second;
      std::memcpy(data, &value, sizeof value);
      return CUDA_SUCCESS;
    };
    Cupti& cupti = simulation_.cupti;
    cupti.cuptiSubscribe_v2 = [](CUpti_SubscriberHandle* handle,
                                 CUpti_CallbackFunc callback, void*,
                                 CUpti_SubscriberParams* params) {
      EXPECT_EQ(t_mode, CU_STREAM_CAPTURE_MODE_RELAXED);
      if (params->structSize > simulation->knows_params_bytes) {
        simulation->knows_params_bytes = simulation->older_params_bytes;
        return CUPTI_ERROR_INVALID_PARAMETER;
      }
      if (simulation->held_by_another_tool) {
        std::strcpy(params->oldSubscriberName, "CUPTI for a profiler");
        return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
      }
      if (simulation->callback != nullptr) {
        return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
      }
      if (simulation->on_subscribe) simulation->on_subscribe();
      ++simulation->subscriptions;
      simulation->callback = callback;
      *handle = reinterpret_cast<CUpti_SubscriberHandle>(simulation);
      return CUPTI_SUCCESS;
    };
    cupti.cuptiUnsubscribe = [](CUpti_SubscriberHandle) {
      EXPECT_EQ(t_mode, CU_STREAM_CAPTURE_MODE_RELAXED);
      if (simulation->callback == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
      if (simulation->on_unsubscribe) simulation->on_unsubscribe();
      simulation->callback = nullptr;
      simulation->enabled = false;
      return CUPTI_SUCCESS;
    };
    cupti.cuptiEnableDomain = [](uint32_t enable, CUpti_SubscriberHandle,
                                 CUpti_CallbackDomain domain) {
      EXPECT_EQ(t_mode, CU_STREAM_CAPTURE_MODE_RELAXED);
      if (simulation->domain_fails) return CUPTI_ERROR_NOT_COMPATIBLE;
      if (simulation->callback == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
      EXPECT_EQ(domain, CUPTI_CB_DOMAIN_DRIVER_API);
      if (enable == 0 && simulation->on_disable) simulation->on_disable();
      simulation->enabled = enable != 0;
      return CUPTI_SUCCESS;
    };
    cupti.cuptiFinalize = [] {
      EXPECT_EQ(t_mode, CU_STREAM_CAPTURE_MODE_RELAXED);
      if (simulation->on_finalize) simulation->on_finalize();
      ++simulation->finalized;
      simulation->forgot_threads = false;
      return CUPTI_SUCCESS;
    };
    cupti.cuptiGetResultString = [](CUptiResult, const char** text) {
      *text = "a meaning";
      return CUPTI_SUCCESS;
    };
    recorder_ = LaunchRecorder::Create(driver, cupti);
  }
  // That CUPTI is attached is the process's, not a recorder's: the next test
  // begins without.
  ~LaunchRecorderTest() override {
    recorder_ = LaunchRecorder::Create(simulation_.driver, simulation_.cupti);
    recorder_->Resting(1'000'000);
  }

  // Declared first: the recorder stops when it is destroyed.
  // Threads that have ended may be on their way out for a while, as Linux has
  // it.
  template <typename Condition>
  void RestUntil(uint32_t nodes, Condition condition) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (!condition() && std::chrono::steady_clock::now() < end) {
      recorder_->Resting(nodes);
    }
  }
  void RestUntilDetached(int times) {
    RestUntil(1'000'000, [&] { return simulation_.finalized == times; });
    EXPECT_EQ(simulation_.finalized, times);
  }
  void RestUntilGivenUp() {
    RestUntil(0, [&] { return simulation_.callback == nullptr; });
    EXPECT_EQ(simulation_.callback, nullptr);
  }

  Simulation simulation_;
  std::unique_ptr<LaunchRecorder> recorder_;
  const CUstream stream_ = Stream(0x100);
};

// A kernel with an address, an int, and four bytes of padding at the end.
struct KernelCall {
  explicit KernelCall(CUstream stream, uint64_t address = 0x7f00'0000'1000) {
    this->address = address;
    simulation->functions[function] = {{0, 8}, {8, 4}};
    params.f = function;
    params.gridDimX = 3;
    params.gridDimY = params.gridDimZ = 1;
    params.blockDimX = 64;
    params.blockDimY = params.blockDimZ = 1;
    params.sharedMemBytes = 256;
    params.hStream = stream;
    params.kernelParams = pointers;
  }

  CUfunction function = std::bit_cast<CUfunction>(uintptr_t{0xf00});
  uint64_t address;
  int count = 17;
  void* pointers[2] = {&address, &count};
  cuLaunchKernel_params params{};
};

TEST_F(LaunchRecorderTest, RecordsKernelWithItsParameterBytes) {
  ASSERT_TRUE(recorder_->Start(stream_));
  ASSERT_TRUE(recorder_->BeginOp());
  KernelCall call(stream_);
  Call(CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, "cuLaunchKernel", &call.params,
       "the_kernel");
  const RecordedLaunches op = recorder_->EndOp();
  EXPECT_THAT(op.refusal, IsEmpty());
  ASSERT_THAT(op.launches, SizeIs(1));
  const Launch& launch = op.launches[0];
  EXPECT_EQ(launch.kind, Launch::Kind::kKernel);
  EXPECT_EQ(launch.function, call.function);
  EXPECT_EQ(launch.grid, (Dim3{3, 1, 1}));
  EXPECT_EQ(launch.block, (Dim3{64, 1, 1}));
  EXPECT_EQ(launch.shared_bytes, 256u);
  EXPECT_FALSE(launch.packed);
  ASSERT_EQ(launch.image.size(), 12u);
  EXPECT_EQ(launch.Word(0), call.address);
  int count = 0;
  std::memcpy(&count, launch.image.data() + 8, sizeof count);
  EXPECT_EQ(count, 17);
  ASSERT_NE(launch.name, nullptr);
  EXPECT_EQ(*launch.name, "the_kernel");
}

// The parameters are copied: what the caller's memory holds later is no matter.
TEST_F(LaunchRecorderTest, KeepsParametersByValueAndInOrder) {
  ASSERT_TRUE(recorder_->Start(stream_));
  ASSERT_TRUE(recorder_->BeginOp());
  KernelCall call(stream_, 1);
  REPRISE_CALL(cuLaunchKernel, &call.params);
  call.address = 2;
  REPRISE_CALL(cuLaunchKernel_ptsz, &call.params);
  call.address = 3;
  const RecordedLaunches op = recorder_->EndOp();
  ASSERT_THAT(op.launches, SizeIs(2));
  EXPECT_EQ(op.launches[0].Word(0), 1u);
  EXPECT_EQ(op.launches[1].Word(0), 2u);
  EXPECT_EQ(op.launches[0].params, op.launches[1].params);
}

TEST_F(LaunchRecorderTest, AsksAboutAFunctionOnceUntilCodeIsUnloaded) {
  ASSERT_TRUE(recorder_->Start(stream_));
  KernelCall call(stream_);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(recorder_->BeginOp());
    REPRISE_CALL(cuLaunchKernel, &call.params);
    ASSERT_THAT(recorder_->EndOp().launches, SizeIs(1));
  }
  EXPECT_EQ(simulation_.questions, 3);  // two parameters and the end
  // The handle comes to name a function of one parameter.
  REPRISE_CALL(cuLibraryUnload, nullptr);
  simulation_.functions[call.function] = {{0, 8}};
  ASSERT_TRUE(recorder_->BeginOp());
  REPRISE_CALL(cuLaunchKernel, &call.params);
  const RecordedLaunches op = recorder_->EndOp();
  ASSERT_THAT(op.launches, SizeIs(1));
  EXPECT_EQ(op.launches[0].image.size(), 8u);
}

TEST_F(LaunchRecorderTest, TakesLayoutOfKernelHandles) {
  ASSERT_TRUE(recorder_->Start(stream_));
  ASSERT_TRUE(recorder_->BeginOp());
  KernelCall call(stream_);
  simulation_.functions.clear();
  simulation_.kernels[call.function] = {{0, 8}, {16, 4}};
  REPRISE_CALL(cuLaunchKernel, &call.params);
  const RecordedLaunches op = recorder_->EndOp();
  ASSERT_THAT(op.launches, SizeIs(1));
  EXPECT_EQ(op.launches[0].image.size(), 20u);
  EXPECT_EQ(op.launches[0].Word(0), call.address);
  EXPECT_EQ(op.launches[0].Word(8), 0u);
  ASSERT_NE(op.launches[0].name, nullptr);
  EXPECT_EQ(*op.launches[0].name, "asked_name");
}

TEST_F(LaunchRecorderTest, RefusesKernelOfUnknownLayout) {
  ASSERT_TRUE(recorder_->Start(stream_));
  ASSERT_TRUE(recorder_->BeginOp());
  KernelCall call(stream_);
  simulation_.functions.clear();
  REPRISE_CALL(cuLaunchKernel, &call.params);
  EXPECT_THAT(recorder_->EndOp().refusal, StartsWith("cuLaunchKernel: "));
}

// A launch, a fork with another one, and the way back.
void CallFork(CUstream own, CUstream fork, bool join) {
  KernelCall first(own, 1);
  REPRISE_CALL(cuLaunchKernel, &first.params);
  cuEventRecord_params record{Event(1), own};
  REPRISE_CALL(cuEventRecord, &record);
  cuStreamWaitEvent_params wait{fork, Event(1), CU_EVENT_WAIT_DEFAULT};
  REPRISE_CALL(cuStreamWaitEvent, &wait);
  KernelCall second(fork, 2);
  REPRISE_CALL(cuLaunchKernel, &second.params);
  if (!join) return;
  record = {Event(2), fork};
  REPRISE_CALL(cuEventRecord, &record);
  wait = {own, Event(2), CU_EVENT_WAIT_DEFAULT};
  REPRISE_CALL(cuStreamWaitEvent, &wait);
}

TEST_F(LaunchRecorderTest, RecordsForksWhereAnOpMayHaveThem) {
  ASSERT_TRUE(recorder_->Start(stream_));
  ASSERT_TRUE(recorder_->BeginOp());
  recorder_->LetOpFork();
  CallFork(stream_, Stream(0x200), /*join=*/true);
  const RecordedLaunches op = recorder_->EndOp();
  EXPECT_THAT(op.refusal, IsEmpty());
  ASSERT_THAT(op.launches, SizeIs(2));
  EXPECT_EQ(op.launches[0].Word(0), 1u);
  EXPECT_EQ(op.launches[1].Word(0), 2u);
  EXPECT_EQ(op.launches[0].behind, std::nullopt);
  EXPECT_EQ(op.launches[1].behind, std::vector<uint32_t>{1});
  EXPECT_EQ(recorder_->TakeForeignWork(), std::nullopt);
}

TEST_F(LaunchRecorderTest, RefusesForksThatAreNotJoinedOrNotTheOps) {
  ASSERT_TRUE(recorder_->Start(stream_));
  ASSERT_TRUE(recorder_->BeginOp());
  recorder_->LetOpFork();
  CallFork(stream_, Stream(0x200), /*join=*/false);
  EXPECT_THAT(recorder_->EndOp().refusal, HasSubstr("nothing waits for"));

  ASSERT_TRUE(recorder_->BeginOp());
  CallFork(stream_, Stream(0x200), /*join=*/true);
  EXPECT_THAT(recorder_->EndOp().refusal, StartsWith("cuEventRecord: "));

  // Of that stream nobody knows what it did before.
  ASSERT_TRUE(recorder_->BeginOp());
  recorder_->LetOpFork();
  KernelCall other(Stream(0x200));
  REPRISE_CALL(cuLaunchKernel, &other.params);
  EXPECT_THAT(recorder_->EndOp().refusal, HasSubstr("another stream"));

  // What is neither a launch nor an event is refused as ever.
  ASSERT_TRUE(recorder_->BeginOp());
  recorder_->LetOpFork();
  REPRISE_CALL(cuStreamSynchronize, nullptr);
  EXPECT_THAT(recorder_->EndOp().refusal, StartsWith("cuStreamSynchronize: "));
}

TEST_F(LaunchRecorderTest, RefusesLaunchThatRecordsAnEvent) {
  ASSERT_TRUE(recorder_->Start(stream_));
  ASSERT_TRUE(recorder_->BeginOp());
  KernelCall call(stream_);
  CUlaunchAttribute attribute{};
  attribute.id = CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT;
  CUlaunchConfig config{};
  config.hStream = stream_;
  config.attrs = &attribute;
  config.numAttrs = 1;
  cuLaunchKernelEx_params params{&config, call.function, call.pointers,
                                 nullptr};
  REPRISE_CALL(cuLaunchKernelEx, &params);
  EXPECT_THAT(recorder_->EndOp().refusal, HasSubstr("cuLaunchKernelEx"));
}

TEST_F(LaunchRecorderTest, RecordsFills) {
  ASSERT_TRUE(recorder_->Start(stream_));
  ASSERT_TRUE(recorder_->BeginOp());
  cuMemsetD8Async_params bytes{0x1000, 7, 100, stream_};
  REPRISE_CALL(cuMemsetD8Async, &bytes);
  cuMemsetD16Async_params halves{0x2000, 0x1234, 50, stream_};
  REPRISE_CALL(cuMemsetD16Async, &halves);
  cuMemsetD2D32Async_params rows{0x3000, 256, 9, 8, 5, stream_};
  REPRISE_CALL(cuMemsetD2D32Async, &rows);
  // Rows without gaps are one.
  cuMemsetD2D32Async_params dense{0x4000, 32, 9, 8, 5, stream_};
  REPRISE_CALL(cuMemsetD2D32Async, &dense);
  cuMemsetD8Async_params nothing{0x1000, 7, 0, stream_};
  REPRISE_CALL(cuMemsetD8Async, &nothing);
  const RecordedLaunches op = recorder_->EndOp();
  EXPECT_THAT(op.refusal, IsEmpty());
  ASSERT_THAT(op.launches, SizeIs(4));
  for (const Launch& launch : op.launches) {
    EXPECT_EQ(launch.kind, Launch::Kind::kMemset);
    ASSERT_EQ(launch.image.size(), 8u);
  }
  EXPECT_EQ(op.launches[0].Word(0), 0x1000u);
  EXPECT_EQ(op.launches[0].value, 7u);
  EXPECT_EQ(op.launches[0].width, 100u);
  EXPECT_EQ(op.launches[1].element_bytes, 2u);
  EXPECT_EQ(op.launches[1].value, 0x1234u);
  EXPECT_EQ(op.launches[2].element_bytes, 4u);
  EXPECT_EQ(op.launches[2].height, 5u);
  EXPECT_EQ(op.launches[2].pitch_bytes, 256u);
  EXPECT_EQ(op.launches[3].height, 1u);
  EXPECT_EQ(op.launches[3].width, 40u);
}

TEST_F(LaunchRecorderTest, RecordsCopiesWithinTheDevice) {
  simulation_.device_of = {{0x1000, 0}, {0x2000, 0}};
  ASSERT_TRUE(recorder_->Start(stream_));
  ASSERT_TRUE(recorder_->BeginOp());
  cuMemcpyAsync_params any{0x1000, 0x2000, 64, stream_};
  REPRISE_CALL(cuMemcpyAsync, &any);
  cuMemcpyDtoDAsync_v2_params device{0x2000, 0x1000, 32, stream_};
  REPRISE_CALL(cuMemcpyDtoDAsync_v2, &device);
  const RecordedLaunches op = recorder_->EndOp();
  EXPECT_THAT(op.refusal, IsEmpty());
  ASSERT_THAT(op.launches, SizeIs(2));
  EXPECT_EQ(op.launches[0].kind, Launch::Kind::kMemcpy);
  EXPECT_EQ(op.launches[0].Word(0), 0x1000u);
  EXPECT_EQ(op.launches[0].Word(8), 0x2000u);
  EXPECT_EQ(op.launches[0].width, 64u);
  EXPECT_EQ(op.launches[1].Word(0), 0x2000u);
}

TEST_F(LaunchRecorderTest, RefusesCopiesThatLeaveTheDevice) {
  simulation_.device_of = {{0x1000, 0}, {0x2000, 0}, {0x3000, 1}};
  ASSERT_TRUE(recorder_->Start(stream_));
  for (const CUdeviceptr from : {CUdeviceptr{0x3000}, CUdeviceptr{0x9999}}) {
    ASSERT_TRUE(recorder_->BeginOp());
    cuMemcpyAsync_params copy{0x1000, from, 64, stream_};
    REPRISE_CALL(cuMemcpyAsync, &copy);
    EXPECT_THAT(recorder_->EndOp().refusal,
                StartsWith("cuMemcpyAsync: a copy"));
  }
}

TEST_F(LaunchRecorderTest, RefusalNamesTheFirstCallThatCannotBeReplayed) {
  ASSERT_TRUE(recorder_->Start(stream_));
  ASSERT_TRUE(recorder_->BeginOp());
  KernelCall call(stream_);
  REPRISE_CALL(cuLaunchKernel, &call.params);
  cuMemcpyDtoHAsync_v2_params copy{nullptr, 0x1000, 8, stream_};
  REPRISE_CALL(cuMemcpyDtoHAsync_v2, &copy);
  cuStreamSynchronize_params wait{stream_};
  REPRISE_CALL(cuStreamSynchronize, &wait);
  const RecordedLaunches op = recorder_->EndOp();
  EXPECT_EQ(op.refusal, "cuMemcpyDtoHAsync_v2: a copy between host and device");
  EXPECT_THAT(op.launches, SizeIs(1));
}

TEST_F(LaunchRecorderTest, RefusesWorkOnAnotherStream) {
  ASSERT_TRUE(recorder_->Start(stream_));
  ASSERT_TRUE(recorder_->BeginOp());
  KernelCall call(Stream(0x200));
  REPRISE_CALL(cuLaunchKernel, &call.params);
  EXPECT_EQ(recorder_->EndOp().refusal,
            "cuLaunchKernel: work on another stream");
}

TEST_F(LaunchRecorderTest, RefusesCallsThatNobodyKnows) {
  ASSERT_TRUE(recorder_->Start(stream_));
  ASSERT_TRUE(recorder_->BeginOp());
  Call(100'000, "cuFromTheFuture", nullptr);
  EXPECT_THAT(recorder_->EndOp().refusal, StartsWith("cuFromTheFuture: "));
}

TEST_F(LaunchRecorderTest, IgnoresHarmlessAndHiddenCalls) {
  ASSERT_TRUE(recorder_->Start(stream_));
  ASSERT_TRUE(recorder_->BeginOp());
  REPRISE_CALL(cuMemAlloc_v2, nullptr);
  REPRISE_CALL(cuPointerGetAttribute, nullptr);
  {
    const LaunchRecorder::Hidden hidden;
    const LaunchRecorder::Hidden nested;
    Call(100'000, "cuFromTheFuture", nullptr);
  }
  const RecordedLaunches op = recorder_->EndOp();
  EXPECT_THAT(op.refusal, IsEmpty());
  EXPECT_THAT(op.launches, IsEmpty());
}

TEST_F(LaunchRecorderTest, NoticesForeignWorkOnTheStreamOnce) {
  ASSERT_TRUE(recorder_->Start(stream_));
  KernelCall elsewhere(Stream(0x200));
  REPRISE_CALL(cuLaunchKernel, &elsewhere.params);
  cuStreamSynchronize_params wait{stream_};
  REPRISE_CALL(cuStreamSynchronize, &wait);
  EXPECT_EQ(recorder_->TakeForeignWork(), std::nullopt);

  cuEventRecord_params event{nullptr, stream_};
  std::thread([&] { REPRISE_CALL(cuEventRecord, &event); }).join();
  KernelCall call(stream_);
  REPRISE_CALL(cuLaunchKernel, &call.params);
  EXPECT_EQ(recorder_->TakeForeignWork(), "cuEventRecord");
  EXPECT_EQ(recorder_->TakeForeignWork(), std::nullopt);
}

// An op is open on one thread; what another does at that time is not its work.
TEST_F(LaunchRecorderTest, OpsOfTwoThreadsStayApart) {
  ASSERT_TRUE(recorder_->Start(stream_));
  ASSERT_TRUE(recorder_->BeginOp());
  KernelCall mine(stream_, 1);
  REPRISE_CALL(cuLaunchKernel, &mine.params);
  std::thread([&] {
    ASSERT_TRUE(recorder_->BeginOp());
    KernelCall theirs(stream_, 2);
    REPRISE_CALL(cuLaunchKernel, &theirs.params);
    REPRISE_CALL(cuLaunchKernel, &theirs.params);
    EXPECT_THAT(recorder_->EndOp().launches, SizeIs(2));
  }).join();
  const RecordedLaunches op = recorder_->EndOp();
  ASSERT_THAT(op.launches, SizeIs(1));
  EXPECT_EQ(op.launches[0].Word(0), 1u);
  EXPECT_EQ(recorder_->TakeForeignWork(), std::nullopt);
}

// What comes after an op that nobody has ended is not its work.
TEST_F(LaunchRecorderTest, NoticesForeignWorkBehindAnOpThatWasDropped) {
  ASSERT_TRUE(recorder_->Start(stream_));
  ASSERT_TRUE(recorder_->BeginOp());
  KernelCall call(stream_);
  REPRISE_CALL(cuLaunchKernel, &call.params);
  LaunchRecorder::DropOp();
  EXPECT_EQ(recorder_->TakeForeignWork(), std::nullopt);
  REPRISE_CALL(cuLaunchKernel, &call.params);
  EXPECT_EQ(recorder_->TakeForeignWork(), "cuLaunchKernel");
  LaunchRecorder::DropOp();  // none is open
  ASSERT_TRUE(recorder_->BeginOp());
  EXPECT_THAT(recorder_->EndOp().launches, IsEmpty());
}

TEST_F(LaunchRecorderTest, StartsAgainAfterStop) {
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(recorder_->active());
    ASSERT_TRUE(recorder_->Start(stream_));
    EXPECT_TRUE(recorder_->active());
    EXPECT_TRUE(simulation_.enabled);
    ASSERT_TRUE(recorder_->BeginOp());
    KernelCall call(stream_);
    REPRISE_CALL(cuLaunchKernel, &call.params);
    EXPECT_THAT(recorder_->EndOp().launches, SizeIs(1));
    recorder_->Stop();
    EXPECT_FALSE(simulation_.enabled);
    EXPECT_EQ(simulation_.subscriptions, 1);
  }
  recorder_->Stop();
}

// Who is about to call back may still be walking by the subscription.
TEST_F(LaunchRecorderTest, EndsTheSubscriptionOnlyWhileNothingCallsBack) {
  simulation_.on_unsubscribe = [&] {
    EXPECT_FALSE(simulation_.enabled);
    EXPECT_FALSE(recorder_->active());
  };
  ASSERT_TRUE(recorder_->Start(stream_));
  recorder_->GiveUp();  // it is needed
  EXPECT_NE(simulation_.callback, nullptr);
  recorder_->Stop();
  EXPECT_NE(simulation_.callback, nullptr);
  recorder_->GiveUp();
  EXPECT_EQ(simulation_.callback, nullptr);
  recorder_->GiveUp();
  ASSERT_TRUE(recorder_->Start(stream_));
  EXPECT_EQ(simulation_.subscriptions, 2);
  recorder_->Stop();
  RestUntilGivenUp();
  ASSERT_TRUE(recorder_->Start(stream_));
  EXPECT_EQ(simulation_.subscriptions, 3);
  recorder_->Stop();
  RestUntilDetached(1);
  EXPECT_EQ(simulation_.callback, nullptr);
}

TEST_F(LaunchRecorderTest, EndsTheSubscriptionBehindCallbacksThatAreUnderWay) {
  std::atomic<bool> calling = false;
  std::atomic<bool> called = false;
  simulation_.on_question = [&] {
    if (calling.exchange(true)) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    called = true;
  };
  simulation_.on_unsubscribe = [&] { EXPECT_TRUE(called.load()); };
  ASSERT_TRUE(recorder_->Start(stream_));
  std::thread other([&] {
    ASSERT_TRUE(recorder_->BeginOp());
    KernelCall call(stream_);
    REPRISE_CALL(cuLaunchKernel, &call.params);
    EXPECT_THAT(recorder_->EndOp().refusal, HasSubstr("stopped"));
  });
  while (!calling.load()) std::this_thread::yield();
  recorder_->Stop();
  recorder_->GiveUp();
  EXPECT_EQ(simulation_.callback, nullptr);
  other.join();
  simulation_.on_unsubscribe = nullptr;
}

// One that is kept from running may be within CUPTI still.
TEST_F(LaunchRecorderTest, EndsNoSubscriptionWhileAThreadDoesNotRun) {
  ASSERT_TRUE(recorder_->Start(stream_));
  tests::StuckThread stuck;
  if (!stuck.is_stuck()) GTEST_SKIP() << "no thread can be held here";
  recorder_->Stop();
  const auto end =
      std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
  while (std::chrono::steady_clock::now() < end) recorder_->Resting(0);
  recorder_->Resting(1'000'000);
  EXPECT_NE(simulation_.callback, nullptr);
  EXPECT_EQ(simulation_.finalized, 0);
  stuck.LetGo();
  RestUntilGivenUp();
  RestUntilDetached(1);
}

// Whoever has detached CUPTI has taken our subscription along.
TEST_F(LaunchRecorderTest, SubscribesAnewWhereTheSubscriptionIsGone) {
  ASSERT_TRUE(recorder_->Start(stream_));
  recorder_->Stop();
  simulation_.callback = nullptr;
  EXPECT_FALSE(recorder_->Start(stream_));
  EXPECT_TRUE(recorder_->Start(stream_));
  EXPECT_EQ(simulation_.subscriptions, 2);
}

TEST_F(LaunchRecorderTest, IsNotDetachedBesideGraphsOfTheProgramThatAreTold) {
  ASSERT_TRUE(recorder_->Start(stream_));
  recorder_->Stop();
  std::atomic<bool> inside = false;
  std::atomic<bool> may_end = false;
  std::thread other([&] {
    const LaunchRecorder::GraphOfProgram launching;
    inside = true;
    while (!may_end.load()) std::this_thread::yield();
  });
  while (!inside.load()) std::this_thread::yield();
  recorder_->Resting(1'000'000);
  EXPECT_EQ(simulation_.finalized, 0);
  may_end = true;
  other.join();
  RestUntilDetached(1);
}

TEST_F(LaunchRecorderTest, AnotherRecorderTakesTheSubscription) {
  auto other = LaunchRecorder::Create(simulation_.driver, simulation_.cupti);
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(other->Start(stream_));
    other->Stop();
    ASSERT_TRUE(recorder_->Start(stream_));
    recorder_->Stop();
  }
  EXPECT_EQ(simulation_.subscriptions, 4);
  other.reset();
  EXPECT_NE(simulation_.callback, nullptr);
  ASSERT_TRUE(recorder_->Start(stream_));
  EXPECT_EQ(simulation_.subscriptions, 4);
  recorder_->Stop();
  other = LaunchRecorder::Create(simulation_.driver, simulation_.cupti);
  other->Resting(1'000'000);
  EXPECT_EQ(simulation_.finalized, 1);
}

// A thread with a scope of ours, in the middle of it until it may end.
class AtWork {
 public:
  AtWork() {
    while (!inside_.load()) std::this_thread::yield();
  }
  ~AtWork() {
    may_end_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> inside_ = false;
  std::atomic<bool> may_end_ = false;
  std::thread thread_{[this] {
    const LaunchRecorder::Hidden hidden;
    inside_ = true;
    while (!may_end_.load()) std::this_thread::yield();
  }};
};

TEST_F(LaunchRecorderTest, IsNeitherAttachedNorDetachedBesideOurOwnCalls) {
  {
    const AtWork other;
    const base::Status attached = recorder_->Start(stream_);
    ASSERT_FALSE(attached);
    EXPECT_EQ(attached.error().code(), base::Code::kUnavailable);
    EXPECT_THAT(attached.error().message(), HasSubstr("other threads"));
    EXPECT_FALSE(recorder_->active());
    EXPECT_FALSE(recorder_->Attach());
  }
  ASSERT_TRUE(recorder_->Start(stream_));
  recorder_->Stop();
  {
    const AtWork other;
    ASSERT_TRUE(recorder_->Start(stream_));  // attached already
    recorder_->Stop();
    recorder_->Resting(1'000'000);
    EXPECT_EQ(simulation_.finalized, 0);
  }
  RestUntilDetached(1);
}

TEST_F(LaunchRecorderTest, OurOwnCallsWaitForAttachingAndDetaching) {
  std::atomic<bool> closed = false;
  std::thread other;
  const auto while_closed = [&] {
    closed = true;
    other = std::thread([&] {
      const LaunchRecorder::Hidden hidden;
      EXPECT_FALSE(closed.load());
    });
    for (int i = 0; i < 10'000; ++i) std::this_thread::yield();
    closed = false;
  };
  simulation_.on_subscribe = while_closed;
  ASSERT_TRUE(recorder_->Start(stream_));
  other.join();
  recorder_->Stop();
  simulation_.on_subscribe = nullptr;
  simulation_.on_finalize = while_closed;
  RestUntilDetached(1);
  other.join();
}

// In a process of its own: what is known of the program's threads stays known.
TEST_F(LaunchRecorderTest, StaysAttachedBesideGraphsOfTheProgramsThreads) {
  const auto run = [&](bool on_another_thread) {
    EXPECT_TRUE(recorder_->Start(stream_));
    cuGraphLaunch_params launch{nullptr, stream_};
    const auto launch_graph = [&] { REPRISE_CALL(cuGraphLaunch, &launch); };
    if (on_another_thread) {
      std::thread(launch_graph).join();
    } else {
      launch_graph();
    }
    std::thread([&] {
      const LaunchRecorder::GraphOfProgram launching;
      launch_graph();  // that is told apart anyway
    }).join();
    recorder_->Stop();
    if (on_another_thread) {
      for (int i = 0; i < 100; ++i) recorder_->Resting(1'000'000);
    } else {
      RestUntilDetached(1);
    }
    std::exit(HasFailure() ? -1 : simulation_.finalized);
  };
  EXPECT_EXIT(run(false), testing::ExitedWithCode(1), "");
  EXPECT_EXIT(run(true), testing::ExitedWithCode(0), "");
}

TEST_F(LaunchRecorderTest, ForeignWorkOfAnEarlierRecordingIsForgotten) {
  ASSERT_TRUE(recorder_->Start(stream_));
  KernelCall call(stream_);
  REPRISE_CALL(cuLaunchKernel, &call.params);
  recorder_->Stop();
  ASSERT_TRUE(recorder_->Start(stream_));
  EXPECT_EQ(recorder_->TakeForeignWork(), std::nullopt);
}

TEST_F(LaunchRecorderTest, OneRecorderAtATime) {
  auto other = LaunchRecorder::Create(simulation_.driver, simulation_.cupti);
  ASSERT_TRUE(recorder_->Start(stream_));
  const base::Status second = other->Start(stream_);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), base::Code::kUnavailable);
  EXPECT_FALSE(other->active());
  other->Stop();
  EXPECT_TRUE(recorder_->active());
  recorder_.reset();
  EXPECT_TRUE(other->Start(stream_));
}

TEST_F(LaunchRecorderTest, SaysWhichToolHoldsCupti) {
  simulation_.held_by_another_tool = true;
  const base::Status started = recorder_->Start(stream_);
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().code(), base::Code::kUnavailable);
  EXPECT_THAT(started.error().message(), HasSubstr("CUPTI for a profiler"));
  EXPECT_FALSE(recorder_->active());
  simulation_.held_by_another_tool = false;
  EXPECT_TRUE(recorder_->Start(stream_));
}

// CUPTI 13.0 beside headers of 13.2: it knows fewer parameters.
TEST_F(LaunchRecorderTest, SubscribesToACuptiThatIsOlderThanItsHeaders) {
  simulation_.knows_params_bytes = 0;
  simulation_.older_params_bytes = 32;
  const base::Status started = recorder_->Start(stream_);
  EXPECT_TRUE(started) << started.error().message();
  EXPECT_EQ(simulation_.subscriptions, 1);
}

TEST_F(LaunchRecorderTest, GivesSubscriptionBackWhereCallbacksAreRefused) {
  simulation_.domain_fails = true;
  const base::Status started = recorder_->Start(stream_);
  ASSERT_FALSE(started);
  EXPECT_THAT(started.error().message(), HasSubstr("a meaning"));
  EXPECT_EQ(simulation_.callback, nullptr);
  simulation_.domain_fails = false;
  EXPECT_TRUE(recorder_->Start(stream_));
}

// Attached, CUPTI makes every node of a graph launch dearer.
TEST_F(LaunchRecorderTest, DetachesOnceReplaysHaveCostMoreThanAttachingAgain) {
  recorder_->Resting(1'000'000);  // never attached
  EXPECT_EQ(simulation_.finalized, 0);
  ASSERT_TRUE(recorder_->Start(stream_));
  recorder_->Resting(1'000'000);  // in use
  EXPECT_EQ(simulation_.finalized, 0);
  EXPECT_TRUE(recorder_->active());
  recorder_->Stop();
  for (int i = 0; i < 100; ++i) recorder_->Resting(100);
  EXPECT_EQ(simulation_.finalized, 0);
  for (int i = 0; i < 1000; ++i) recorder_->Resting(100);
  EXPECT_EQ(simulation_.finalized, 1);
  EXPECT_EQ(simulation_.callback, nullptr);
  ASSERT_TRUE(recorder_->Start(stream_));
  recorder_->Stop();
  recorder_->Resting(100);
  EXPECT_EQ(simulation_.finalized, 1);
}

TEST_F(LaunchRecorderTest, AttachesAheadOfTheFirstStart) {
  ASSERT_TRUE(recorder_->Attach());
  EXPECT_EQ(simulation_.callback, nullptr);
  EXPECT_FALSE(recorder_->active());
  ASSERT_TRUE(recorder_->Start(stream_));
  ASSERT_TRUE(recorder_->Attach());
  EXPECT_TRUE(recorder_->active());
  recorder_->Stop();
  RestUntilDetached(1);
  simulation_.held_by_another_tool = true;
  EXPECT_FALSE(recorder_->Attach());
}

TEST_F(LaunchRecorderTest, LeavesCuptiToAToolThatHasSubscribedSince) {
  ASSERT_TRUE(recorder_->Start(stream_));
  recorder_->Stop();
  recorder_->GiveUp();
  simulation_.held_by_another_tool = true;
  for (int i = 0; i < 1000; ++i) recorder_->Resting(100);
  EXPECT_EQ(simulation_.finalized, 0);
  simulation_.held_by_another_tool = false;
  EXPECT_TRUE(recorder_->Start(stream_));
}

TEST_F(LaunchRecorderTest, OpAcrossTheEndOfRecordingIsRefused) {
  ASSERT_TRUE(recorder_->Start(stream_));
  ASSERT_TRUE(recorder_->BeginOp());
  recorder_->Stop();
  EXPECT_THAT(recorder_->EndOp().refusal, HasSubstr("stopped"));
  EXPECT_THAT(recorder_->BeginOp().error().message(),
              HasSubstr("nothing is being recorded"));
  ASSERT_TRUE(recorder_->Start(stream_));
  EXPECT_FALSE(recorder_->EndOp().refusal.empty());
}

// An op that ends meanwhile does not pass for one that was told of in whole.
TEST_F(LaunchRecorderTest, OpIsRefusedFromWhenRecordingBeginsToStop) {
  ASSERT_TRUE(recorder_->Start(stream_));
  ASSERT_TRUE(recorder_->BeginOp());
  RecordedLaunches op;
  simulation_.on_disable = [&] {
    simulation_.on_disable = nullptr;
    op = recorder_->EndOp();
  };
  recorder_->Stop();
  EXPECT_THAT(op.refusal, HasSubstr("stopped"));
}

TEST_F(LaunchRecorderTest, AttachesAnewForAThreadThatCuptiForgot) {
  ASSERT_TRUE(recorder_->Start(stream_));
  simulation_.forgot_threads = true;
  KernelCall call(stream_);
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(recorder_->BeginOp());
    REPRISE_CALL(cuLaunchKernel, &call.params);
    const RecordedLaunches op = recorder_->EndOp();
    EXPECT_EQ(op.refusal, "");
    EXPECT_THAT(op.launches, SizeIs(1));
    EXPECT_EQ(simulation_.finalized, 1);
    EXPECT_EQ(simulation_.subscriptions, 2);
  }
  recorder_->Stop();
}

// Meanwhile it tells nothing of other threads, either.
TEST_F(LaunchRecorderTest, RefusesOpsThatWereOpenWhileItWasAttachedAnew) {
  ASSERT_TRUE(recorder_->Start(stream_));
  std::promise<void> open;
  std::promise<void> attached;
  std::thread other([&] {
    EXPECT_TRUE(recorder_->BeginOp());
    open.set_value();
    attached.get_future().wait();  // it need not run meanwhile
    EXPECT_THAT(recorder_->EndOp().refusal, HasSubstr("stopped"));
  });
  open.get_future().wait();
  simulation_.forgot_threads = true;
  EXPECT_TRUE(recorder_->BeginOp());
  attached.set_value();
  other.join();
  EXPECT_EQ(recorder_->EndOp().refusal, "");
  recorder_->Stop();
}

// Where it cannot be attached anew, nothing passes for an op without launches.
TEST_F(LaunchRecorderTest, OpensNoOpThatCuptiWouldNotTellOf) {
  ASSERT_TRUE(recorder_->Start(stream_));
  simulation_.forgot_threads = true;
  std::atomic<bool> inside = false;
  std::atomic<bool> over = false;
  std::thread other([&] {
    const LaunchRecorder::Hidden hidden;
    inside = true;
    while (!over) std::this_thread::yield();
  });
  while (!inside) std::this_thread::yield();
  EXPECT_THAT(recorder_->BeginOp().error().message(),
              HasSubstr("does not tell of this thread's driver calls"));
  EXPECT_FALSE(recorder_->EndOp().refusal.empty());
  EXPECT_EQ(simulation_.finalized, 0);
  over = true;
  other.join();
  ASSERT_TRUE(recorder_->BeginOp());
  EXPECT_EQ(simulation_.finalized, 1);
  recorder_->EndOp();
  recorder_->Stop();
}

}  // namespace
}  // namespace reprise::device
