// Which driver calls a recording takes, ignores, or refuses.

#include "engine/device/driver_call.h"

#include <gtest/gtest.h>

namespace reprise::device {
namespace {

using Use = DriverCall::Use;

#define REPRISE_ID(name) CUPTI_DRIVER_TRACE_CBID_##name

TEST(DriverCallTest, WorkThatCanBeRecordedIsALaunch) {
  for (const CUpti_CallbackId id :
       {REPRISE_ID(cuLaunchKernel), REPRISE_ID(cuLaunchKernel_ptsz),
        REPRISE_ID(cuLaunchKernelEx), REPRISE_ID(cuLaunchKernelEx_ptsz),
        REPRISE_ID(cuLaunchCooperativeKernel), REPRISE_ID(cuMemsetD8Async),
        REPRISE_ID(cuMemsetD2D32Async_ptsz), REPRISE_ID(cuMemcpyAsync),
        REPRISE_ID(cuMemcpyDtoDAsync_v2)}) {
    EXPECT_EQ(ClassifyDriverCall(id).use, Use::kLaunch) << id;
  }
}

TEST(DriverCallTest, OtherWorkAndOrderIsRefusedWithAReason) {
  for (const CUpti_CallbackId id :
       {REPRISE_ID(cuMemcpyHtoDAsync_v2), REPRISE_ID(cuMemcpyDtoHAsync_v2_ptsz),
        REPRISE_ID(cuMemcpyDtoH_v2), REPRISE_ID(cuMemcpy),
        REPRISE_ID(cuMemcpy2DAsync_v2), REPRISE_ID(cuMemcpyPeerAsync),
        REPRISE_ID(cuMemsetD8_v2), REPRISE_ID(cuEventRecord),
        REPRISE_ID(cuEventRecordWithFlags_ptsz), REPRISE_ID(cuStreamWaitEvent),
        REPRISE_ID(cuGraphLaunch), REPRISE_ID(cuLaunchHostFunc),
        REPRISE_ID(cuStreamBeginCapture_v2), REPRISE_ID(cuMemAllocAsync),
        REPRISE_ID(cuLaunchGridAsync), REPRISE_ID(cuMemPrefetchAsync_v2),
        REPRISE_ID(cuStreamWriteValue32_v2)}) {
    EXPECT_EQ(ClassifyDriverCall(id).use, Use::kEnqueues) << id;
    EXPECT_NE(ClassifyDriverCall(id).reason, nullptr) << id;
  }
}

TEST(DriverCallTest, WaitsAndTexturesMatterWithinAnOpOnly) {
  for (const CUpti_CallbackId id :
       {REPRISE_ID(cuStreamSynchronize), REPRISE_ID(cuCtxSynchronize),
        REPRISE_ID(cuEventSynchronize), REPRISE_ID(cuTexObjectCreate),
        REPRISE_ID(cuGraphInstantiateWithParams)}) {
    EXPECT_EQ(ClassifyDriverCall(id).use, Use::kOpOnly) << id;
    EXPECT_NE(ClassifyDriverCall(id).reason, nullptr) << id;
  }
}

TEST(DriverCallTest, QuestionsAndAllocationsAreIgnored) {
  for (const CUpti_CallbackId id :
       {REPRISE_ID(cuPointerGetAttribute),
        REPRISE_ID(cuFuncGetAttribute),
        REPRISE_ID(cuFuncSetAttribute),
        REPRISE_ID(cuStreamIsCapturing),
        REPRISE_ID(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags),
        REPRISE_ID(cuModuleGetFunction),
        REPRISE_ID(cuLibraryLoadData),
        REPRISE_ID(cuKernelGetFunction),
        REPRISE_ID(cuCtxGetCurrent),
        REPRISE_ID(cuEventCreate),
        REPRISE_ID(cuEventDestroy_v2),
        REPRISE_ID(cuEventQuery),
        REPRISE_ID(cuMemAlloc_v2),
        REPRISE_ID(cuMemFree_v2),
        REPRISE_ID(cuMemCreate),
        REPRISE_ID(cuMemMap),
        REPRISE_ID(cuMemSetAccess),
        REPRISE_ID(cuGetProcAddress_v2),
        REPRISE_ID(cuTensorMapEncodeTiled),
        REPRISE_ID(cuFuncGetParamInfo)}) {
    EXPECT_EQ(ClassifyDriverCall(id).use, Use::kIgnored) << id;
  }
}

TEST(DriverCallTest, UnloadingIsNoticed) {
  EXPECT_EQ(ClassifyDriverCall(REPRISE_ID(cuModuleUnload)).use, Use::kUnloads);
  EXPECT_EQ(ClassifyDriverCall(REPRISE_ID(cuLibraryUnload)).use, Use::kUnloads);
}

// Also calls of a CUPTI newer than the headers.
TEST(DriverCallTest, UnknownCallsCountAsWorkOnEveryStream) {
  for (const CUpti_CallbackId id :
       {CUpti_CallbackId{CUPTI_DRIVER_TRACE_CBID_INVALID},
        CUpti_CallbackId{CUPTI_DRIVER_TRACE_CBID_SIZE},
        CUpti_CallbackId{1'000'000}}) {
    const DriverCall& call = ClassifyDriverCall(id);
    EXPECT_EQ(call.use, Use::kEnqueues);
    EXPECT_EQ(call.stream_offset, DriverCall::kNoStream);
  }
}

}  // namespace
}  // namespace reprise::device
