#include "engine/device/driver_call.h"

#include <array>
#include <cstddef>
#include <initializer_list>

namespace reprise::device {
namespace {

// These paste names before cuda.h's macros can give them another version; they
// are short because the table is made of them. A call that names its stream
// comes alone (ONE), or with its twin for programs whose null stream is each
// thread's own (BOTH).
#define ID(name) CUPTI_DRIVER_TRACE_CBID_##name
#define ONE(name, stream) \
  Row { CUPTI_DRIVER_TRACE_CBID_##name, offsetof(name##_params, stream), false }
#define BOTH(name, stream)                                                     \
  Row{CUPTI_DRIVER_TRACE_CBID_##name, offsetof(name##_params, stream), false}, \
      Row {                                                                    \
    CUPTI_DRIVER_TRACE_CBID_##name##_ptsz,                                     \
        offsetof(name##_ptsz_params, stream), true                             \
  }

constexpr size_t kKnownCalls = CUPTI_DRIVER_TRACE_CBID_SIZE;
using Use = DriverCall::Use;
using Table = std::array<DriverCall, kKnownCalls>;

struct Row {
  size_t id;
  size_t stream_offset;
  bool per_thread_default;
};

constexpr void Add(Table& table, Use use, const char* reason,
                   std::initializer_list<size_t> ids) {
  for (const size_t id : ids) {
    table[id] = DriverCall{use, false, DriverCall::kNoStream, reason};
  }
}

constexpr void Add(Table& table, Use use, const char* reason,
                   std::initializer_list<Row> rows) {
  for (const Row& row : rows) {
    table[row.id] = DriverCall{use, row.per_thread_default,
                               static_cast<int16_t>(row.stream_offset), reason};
  }
}

// A table reads best packed, so it is formatted by hand.
// clang-format off

// Recorded, unless the parameters say otherwise.
constexpr void AddLaunches(Table& table) {
  Add(table, Use::kLaunch, nullptr, {
    BOTH(cuLaunchKernel, hStream), BOTH(cuLaunchCooperativeKernel, hStream),
    BOTH(cuMemsetD8Async, hStream), BOTH(cuMemsetD16Async, hStream),
    BOTH(cuMemsetD32Async, hStream), BOTH(cuMemsetD2D8Async, hStream),
    BOTH(cuMemsetD2D16Async, hStream), BOTH(cuMemsetD2D32Async, hStream),
    BOTH(cuMemcpyAsync, hStream), BOTH(cuMemcpyDtoDAsync_v2, hStream)});
  table[ID(cuLaunchKernelEx)] =
    DriverCall{Use::kLaunch, false, DriverCall::kInConfig, nullptr};
  table[ID(cuLaunchKernelEx_ptsz)] =
    DriverCall{Use::kLaunch, true, DriverCall::kInConfig, nullptr};
}

// Copies and fills that are not recorded.
constexpr void AddCopies(Table& table) {
  Add(table, Use::kEnqueues, "a copy between host and device", {
    ONE(cuMemcpyHtoDAsync, hStream), BOTH(cuMemcpyHtoDAsync_v2, hStream),
    ONE(cuMemcpyDtoHAsync, hStream), BOTH(cuMemcpyDtoHAsync_v2, hStream),
    ONE(cuMemcpyHtoAAsync, hStream), BOTH(cuMemcpyHtoAAsync_v2, hStream),
    ONE(cuMemcpyAtoHAsync, hStream), BOTH(cuMemcpyAtoHAsync_v2, hStream)});
  Add(table, Use::kEnqueues, "a copy between host and device", {
    ID(cuMemcpyHtoD), ID(cuMemcpyHtoD_v2), ID(cuMemcpyHtoD_v2_ptds),
    ID(cuMemcpyDtoH), ID(cuMemcpyDtoH_v2), ID(cuMemcpyDtoH_v2_ptds),
    ID(cuMemcpyHtoA), ID(cuMemcpyHtoA_v2), ID(cuMemcpyHtoA_v2_ptds),
    ID(cuMemcpyAtoH), ID(cuMemcpyAtoH_v2), ID(cuMemcpyAtoH_v2_ptds)});
  Add(table, Use::kEnqueues, "a synchronous copy or fill", {
    ID(cuMemcpy), ID(cuMemcpy_ptds), ID(cuMemcpy_v2), ID(cuMemcpyDtoD),
    ID(cuMemcpyDtoD_v2), ID(cuMemcpyDtoD_v2_ptds), ID(cuMemcpyDtoA),
    ID(cuMemcpyDtoA_v2), ID(cuMemcpyDtoA_v2_ptds), ID(cuMemcpyAtoD),
    ID(cuMemcpyAtoD_v2), ID(cuMemcpyAtoD_v2_ptds), ID(cuMemcpyAtoA),
    ID(cuMemcpyAtoA_v2), ID(cuMemcpyAtoA_v2_ptds), ID(cuMemcpy2D),
    ID(cuMemcpy2D_v2), ID(cuMemcpy2D_v2_ptds), ID(cuMemcpy2DUnaligned),
    ID(cuMemcpy2DUnaligned_v2), ID(cuMemcpy2DUnaligned_v2_ptds),
    ID(cuMemcpy3D), ID(cuMemcpy3D_v2), ID(cuMemcpy3D_v2_ptds),
    ID(cuMemcpyPeer), ID(cuMemcpyPeer_ptds), ID(cuMemcpy3DPeer),
    ID(cuMemcpy3DPeer_ptds), ID(cuMemsetD8), ID(cuMemsetD8_v2),
    ID(cuMemsetD8_v2_ptds), ID(cuMemsetD16), ID(cuMemsetD16_v2),
    ID(cuMemsetD16_v2_ptds), ID(cuMemsetD32), ID(cuMemsetD32_v2),
    ID(cuMemsetD32_v2_ptds), ID(cuMemsetD2D8), ID(cuMemsetD2D8_v2),
    ID(cuMemsetD2D8_v2_ptds), ID(cuMemsetD2D16), ID(cuMemsetD2D16_v2),
    ID(cuMemsetD2D16_v2_ptds), ID(cuMemsetD2D32), ID(cuMemsetD2D32_v2),
    ID(cuMemsetD2D32_v2_ptds)});
  Add(table, Use::kEnqueues, "a copy of rows, arrays, batches or devices", {
    ONE(cuMemcpyDtoDAsync, hStream), ONE(cuMemcpy2DAsync, hStream),
    BOTH(cuMemcpy2DAsync_v2, hStream), ONE(cuMemcpy3DAsync, hStream),
    BOTH(cuMemcpy3DAsync_v2, hStream), BOTH(cuMemcpyPeerAsync, hStream),
    BOTH(cuMemcpy3DPeerAsync, hStream), BOTH(cuMemcpyBatchAsync, hStream),
    BOTH(cuMemcpyBatchAsync_v2, hStream), BOTH(cuMemcpy3DBatchAsync, hStream),
    BOTH(cuMemcpy3DBatchAsync_v2, hStream),
    BOTH(cuMemBatchDecompressAsync, stream)});
}

// What orders streams, calls the host or runs work of its own.
constexpr void AddOrder(Table& table) {
  Add(table, Use::kEnqueues, "an event or a wait in the stream", {
    BOTH(cuEventRecord, hStream), BOTH(cuEventRecordWithFlags, hStream),
    BOTH(cuStreamWaitEvent, hStream), BOTH(cuStreamWaitValue32, stream),
    BOTH(cuStreamWaitValue32_v2, stream), BOTH(cuStreamWaitValue64, stream),
    BOTH(cuStreamWaitValue64_v2, stream), BOTH(cuStreamWriteValue32, stream),
    BOTH(cuStreamWriteValue32_v2, stream), BOTH(cuStreamWriteValue64, stream),
    BOTH(cuStreamWriteValue64_v2, stream), BOTH(cuStreamBatchMemOp, stream),
    BOTH(cuStreamBatchMemOp_v2, stream),
    BOTH(cuSignalExternalSemaphoresAsync, stream),
    BOTH(cuWaitExternalSemaphoresAsync, stream)});
  Add(table, Use::kEnqueues, "an event or a wait in the stream", {
    ID(cuCtxRecordEvent), ID(cuCtxWaitEvent), ID(cuGreenCtxRecordEvent),
    ID(cuGreenCtxWaitEvent)});
  Add(table, Use::kEnqueues, "a function of the host in the stream", {
    BOTH(cuLaunchHostFunc, hStream), BOTH(cuStreamAddCallback, hStream)});
  Add(table, Use::kEnqueues, "a graph", {
    BOTH(cuGraphLaunch, hStream), BOTH(cuGraphUpload, hStream)});
  Add(table, Use::kEnqueues, "a capture of the stream", {
    BOTH(cuStreamBeginCapture, hStream),
    BOTH(cuStreamBeginCapture_v2, hStream),
    BOTH(cuStreamBeginCaptureToGraph, hStream),
    BOTH(cuStreamEndCapture, hStream),
    BOTH(cuStreamUpdateCaptureDependencies, hStream),
    BOTH(cuStreamUpdateCaptureDependencies_v2, hStream)});
  Add(table, Use::kEnqueues, "memory that comes and goes in stream order", {
    BOTH(cuMemAllocAsync, hStream), BOTH(cuMemAllocFromPoolAsync, hStream),
    BOTH(cuMemFreeAsync, hStream), BOTH(cuMemMapArrayAsync, hStream),
    BOTH(cuStreamAttachMemAsync, hStream), BOTH(cuMemPrefetchAsync, hStream),
    BOTH(cuMemPrefetchAsync_v2, hStream),
    BOTH(cuMemPrefetchBatchAsync, hStream),
    BOTH(cuMemDiscardBatchAsync, hStream),
    BOTH(cuMemDiscardAndPrefetchBatchAsync, hStream)});
  Add(table, Use::kEnqueues, "graphics", {
    BOTH(cuGraphicsMapResources, hStream),
    BOTH(cuGraphicsUnmapResources, hStream)});
  Add(table, Use::kEnqueues, "a launch of an old kind", {
    ONE(cuLaunchGridAsync, hStream)});
  Add(table, Use::kEnqueues, "a launch of an old kind", {
    ID(cuLaunch), ID(cuLaunchGrid), ID(cuLaunchCooperativeKernelMultiDevice)});
}

// Nothing is enqueued, but a replay could not repeat it.
constexpr void AddOpOnly(Table& table) {
  Add(table, Use::kOpOnly, "a wait of the host for the device", {
    BOTH(cuStreamSynchronize, hStream)});
  Add(table, Use::kOpOnly, "a wait of the host for the device", {
    ID(cuCtxSynchronize), ID(cuCtxSynchronize_v2), ID(cuEventSynchronize)});
  Add(table, Use::kOpOnly, "a texture or surface, which cannot be patched", {
    ID(cuTexObjectCreate), ID(cuSurfObjectCreate), ID(cuTexRefSetArray),
    ID(cuTexRefSetAddress), ID(cuTexRefSetAddress_v2),
    ID(cuTexRefSetAddress2D), ID(cuTexRefSetAddress2D_v2),
    ID(cuTexRefSetAddress2D_v3), ID(cuTexRefSetMipmappedArray),
    ID(cuSurfRefSetArray)});
  Add(table, Use::kOpOnly, "an executable graph", {
    ID(cuGraphInstantiate), ID(cuGraphInstantiate_v2),
    ID(cuGraphInstantiateWithFlags), ID(cuGraphInstantiateWithParams),
    ID(cuGraphInstantiateWithParams_ptsz)});
}

// Memory: allocation, mapping, questions.
constexpr void AddMemory(Table& table) {
  Add(table, Use::kIgnored, nullptr, {
    ID(cuMemGetInfo), ID(cuMemAlloc), ID(cuMemAllocPitch), ID(cuMemFree),
    ID(cuMemGetAddressRange), ID(cuMemAllocHost), ID(cuMemFreeHost),
    ID(cuMemHostAlloc), ID(cuMemHostGetDevicePointer), ID(cuMemHostGetFlags),
    ID(cuArrayCreate), ID(cuArrayGetDescriptor), ID(cuArrayDestroy),
    ID(cuArray3DCreate), ID(cuArray3DGetDescriptor), ID(cuMemGetInfo_v2),
    ID(cuMemAlloc_v2), ID(cuMemAllocPitch_v2), ID(cuMemFree_v2),
    ID(cuMemGetAddressRange_v2), ID(cuMemHostGetDevicePointer_v2),
    ID(cuMemHostAlloc_v2), ID(cuArrayCreate_v2), ID(cuArrayGetDescriptor_v2),
    ID(cuArray3DCreate_v2), ID(cuArray3DGetDescriptor_v2),
    ID(cuMemAllocHost_v2), ID(cuMemHostRegister), ID(cuMemHostUnregister),
    ID(cuPointerGetAttribute), ID(cuIpcGetMemHandle), ID(cuIpcOpenMemHandle),
    ID(cuIpcCloseMemHandle), ID(cuIpcGetEventHandle), ID(cuIpcOpenEventHandle),
    ID(cuMipmappedArrayCreate), ID(cuMipmappedArrayGetLevel),
    ID(cuMipmappedArrayDestroy), ID(cuMemAllocManaged),
    ID(cuPointerSetAttribute), ID(cuMemHostRegister_v2),
    ID(cuPointerGetAttributes), ID(cuMemAdvise), ID(cuMemRangeGetAttribute),
    ID(cuMemRangeGetAttributes), ID(cuImportExternalMemory),
    ID(cuExternalMemoryGetMappedBuffer),
    ID(cuExternalMemoryGetMappedMipmappedArray), ID(cuDestroyExternalMemory),
    ID(cuImportExternalSemaphore), ID(cuDestroyExternalSemaphore),
    ID(cuMemAddressReserve), ID(cuMemAddressFree), ID(cuMemCreate),
    ID(cuMemRelease), ID(cuMemMap), ID(cuMemUnmap), ID(cuMemSetAccess),
    ID(cuMemExportToShareableHandle), ID(cuMemImportFromShareableHandle),
    ID(cuMemGetAllocationGranularity),
    ID(cuMemGetAllocationPropertiesFromHandle), ID(cuMemGetAccess),
    ID(cuMemRetainAllocationHandle), ID(cuIpcOpenMemHandle_v2),
    ID(cuArrayGetSparseProperties), ID(cuMipmappedArrayGetSparseProperties),
    ID(cuArrayGetPlane), ID(cuMemPoolTrimTo), ID(cuMemPoolSetAttribute),
    ID(cuMemPoolGetAttribute), ID(cuMemPoolSetAccess), ID(cuMemPoolCreate),
    ID(cuMemPoolDestroy), ID(cuMemPoolExportToShareableHandle),
    ID(cuMemPoolImportFromShareableHandle), ID(cuMemPoolExportPointer),
    ID(cuMemPoolImportPointer), ID(cuMemPoolGetAccess),
    ID(cuArrayGetMemoryRequirements),
    ID(cuMipmappedArrayGetMemoryRequirements),
    ID(cuMemGetHandleForAddressRange), ID(cuMulticastCreate),
    ID(cuMulticastAddDevice), ID(cuMulticastBindMem), ID(cuMulticastBindAddr),
    ID(cuMulticastUnbind), ID(cuMulticastGetGranularity), ID(cuMemAdvise_v2),
    ID(cuMemGetDefaultMemPool), ID(cuMemGetMemPool), ID(cuMemSetMemPool)});
}

// Graphs that are only being put together.
constexpr void AddGraphs(Table& table) {
  Add(table, Use::kIgnored, nullptr, {
    ID(cuGraphCreate), ID(cuGraphAddKernelNode),
    ID(cuGraphKernelNodeGetParams), ID(cuGraphAddMemcpyNode),
    ID(cuGraphMemcpyNodeGetParams), ID(cuGraphAddMemsetNode),
    ID(cuGraphMemsetNodeGetParams), ID(cuGraphMemsetNodeSetParams),
    ID(cuGraphNodeGetType), ID(cuGraphGetRootNodes),
    ID(cuGraphNodeGetDependencies), ID(cuGraphNodeGetDependentNodes),
    ID(cuGraphExecDestroy), ID(cuGraphDestroy), ID(cuGraphAddDependencies),
    ID(cuGraphRemoveDependencies), ID(cuGraphMemcpyNodeSetParams),
    ID(cuGraphKernelNodeSetParams), ID(cuGraphDestroyNode), ID(cuGraphClone),
    ID(cuGraphNodeFindInClone), ID(cuGraphAddChildGraphNode),
    ID(cuGraphAddEmptyNode), ID(cuGraphChildGraphNodeGetGraph),
    ID(cuGraphAddHostNode), ID(cuGraphHostNodeGetParams),
    ID(cuGraphHostNodeSetParams), ID(cuGraphGetNodes), ID(cuGraphGetEdges),
    ID(cuGraphExecKernelNodeSetParams), ID(cuGraphExecUpdate),
    ID(cuGraphExecMemcpyNodeSetParams), ID(cuGraphExecMemsetNodeSetParams),
    ID(cuGraphExecHostNodeSetParams), ID(cuGraphKernelNodeCopyAttributes),
    ID(cuGraphKernelNodeGetAttribute), ID(cuGraphKernelNodeSetAttribute),
    ID(cuGraphExecChildGraphNodeSetParams), ID(cuGraphAddEventRecordNode),
    ID(cuGraphAddEventWaitNode), ID(cuGraphEventRecordNodeGetEvent),
    ID(cuGraphEventWaitNodeGetEvent), ID(cuGraphEventRecordNodeSetEvent),
    ID(cuGraphEventWaitNodeSetEvent), ID(cuGraphExecEventRecordNodeSetEvent),
    ID(cuGraphExecEventWaitNodeSetEvent),
    ID(cuGraphAddExternalSemaphoresSignalNode),
    ID(cuGraphExternalSemaphoresSignalNodeGetParams),
    ID(cuGraphExternalSemaphoresSignalNodeSetParams),
    ID(cuGraphAddExternalSemaphoresWaitNode),
    ID(cuGraphExternalSemaphoresWaitNodeGetParams),
    ID(cuGraphExternalSemaphoresWaitNodeSetParams),
    ID(cuGraphExecExternalSemaphoresSignalNodeSetParams),
    ID(cuGraphExecExternalSemaphoresWaitNodeSetParams),
    ID(cuGraphDebugDotPrint), ID(cuUserObjectCreate), ID(cuUserObjectRetain),
    ID(cuUserObjectRelease), ID(cuGraphRetainUserObject),
    ID(cuGraphReleaseUserObject), ID(cuGraphAddMemAllocNode),
    ID(cuGraphAddMemFreeNode), ID(cuGraphMemAllocNodeGetParams),
    ID(cuGraphMemFreeNodeGetParams), ID(cuGraphNodeSetEnabled),
    ID(cuGraphNodeGetEnabled), ID(cuGraphExecGetFlags),
    ID(cuGraphAddBatchMemOpNode), ID(cuGraphBatchMemOpNodeGetParams),
    ID(cuGraphBatchMemOpNodeSetParams), ID(cuGraphExecBatchMemOpNodeSetParams),
    ID(cuGraphAddKernelNode_v2), ID(cuGraphKernelNodeGetParams_v2),
    ID(cuGraphKernelNodeSetParams_v2), ID(cuGraphExecKernelNodeSetParams_v2),
    ID(cuGraphExecUpdate_v2), ID(cuGraphAddNode), ID(cuGraphNodeSetParams),
    ID(cuGraphExecNodeSetParams), ID(cuGraphConditionalHandleCreate),
    ID(cuGraphAddNode_v2), ID(cuGraphGetEdges_v2),
    ID(cuGraphNodeGetDependencies_v2), ID(cuGraphNodeGetDependentNodes_v2),
    ID(cuGraphAddDependencies_v2), ID(cuGraphRemoveDependencies_v2)});
}

// Functions, modules and what they are launched with.
constexpr void AddCode(Table& table) {
  Add(table, Use::kIgnored, nullptr, {
    ID(cuModuleLoad), ID(cuModuleLoadData), ID(cuModuleLoadDataEx),
    ID(cuModuleLoadFatBinary), ID(cuModuleGetFunction), ID(cuModuleGetGlobal),
    ID(cuModuleGetTexRef), ID(cuFuncSetBlockShape), ID(cuFuncSetSharedSize),
    ID(cuFuncGetAttribute), ID(cuFuncSetCacheConfig), ID(cuTexRefCreate),
    ID(cuTexRefDestroy), ID(cuTexRefSetFormat), ID(cuTexRefSetAddressMode),
    ID(cuTexRefSetFilterMode), ID(cuTexRefSetFlags), ID(cuTexRefGetAddress),
    ID(cuTexRefGetArray), ID(cuTexRefGetAddressMode),
    ID(cuTexRefGetFilterMode), ID(cuTexRefGetFormat), ID(cuTexRefGetFlags),
    ID(cuParamSetSize), ID(cuParamSeti), ID(cuParamSetf), ID(cuParamSetv),
    ID(cuParamSetTexRef), ID(cuGetExportTable), ID(cuModuleGetSurfRef),
    ID(cuModuleGetGlobal_v2), ID(cuTexRefGetAddress_v2),
    ID(cuFuncSetSharedMemConfig), ID(cuTexObjectDestroy),
    ID(cuTexObjectGetResourceDesc), ID(cuTexObjectGetTextureDesc),
    ID(cuSurfObjectDestroy), ID(cuSurfObjectGetResourceDesc),
    ID(cuTexRefSetMipmapFilterMode), ID(cuTexRefSetMipmapLevelBias),
    ID(cuTexRefSetMipmapLevelClamp), ID(cuTexRefSetMaxAnisotropy),
    ID(cuTexRefGetMipmappedArray), ID(cuTexRefGetMipmapFilterMode),
    ID(cuTexRefGetMipmapLevelBias), ID(cuTexRefGetMipmapLevelClamp),
    ID(cuTexRefGetMaxAnisotropy), ID(cuTexObjectGetResourceViewDesc),
    ID(cuLinkCreate), ID(cuLinkAddData), ID(cuLinkAddFile), ID(cuLinkComplete),
    ID(cuLinkDestroy), ID(cuOccupancyMaxActiveBlocksPerMultiprocessor),
    ID(cuLinkCreate_v2), ID(cuLinkAddData_v2), ID(cuLinkAddFile_v2),
    ID(cuOccupancyMaxPotentialBlockSize),
    ID(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags),
    ID(cuOccupancyMaxPotentialBlockSizeWithFlags), ID(cuTexRefSetBorderColor),
    ID(cuTexRefGetBorderColor), ID(cuFuncSetAttribute),
    ID(cuOccupancyAvailableDynamicSMemPerBlock), ID(cuFuncGetModule),
    ID(cuGetProcAddress), ID(cuModuleGetLoadingMode),
    ID(cuOccupancyMaxPotentialClusterSize), ID(cuOccupancyMaxActiveClusters),
    ID(cuGetProcAddress_v2), ID(cuLibraryLoadData), ID(cuLibraryLoadFromFile),
    ID(cuLibraryGetKernel), ID(cuLibraryGetModule), ID(cuKernelGetFunction),
    ID(cuLibraryGetGlobal), ID(cuLibraryGetManaged), ID(cuKernelGetAttribute),
    ID(cuKernelSetAttribute), ID(cuKernelSetCacheConfig),
    ID(cuTensorMapEncodeTiled), ID(cuTensorMapEncodeIm2col),
    ID(cuTensorMapReplaceAddress), ID(cuLibraryGetUnifiedFunction),
    ID(cuFuncGetName), ID(cuKernelGetName), ID(cuFuncGetParamInfo),
    ID(cuKernelGetParamInfo), ID(cuModuleGetFunctionCount),
    ID(cuModuleEnumerateFunctions), ID(cuLibraryGetKernelCount),
    ID(cuLibraryEnumerateKernels), ID(cuFuncIsLoaded), ID(cuFuncLoad),
    ID(cuKernelGetLibrary), ID(cuTensorMapEncodeIm2colWide)});
  Add(table, Use::kUnloads, nullptr, {
    ID(cuModuleUnload), ID(cuLibraryUnload)});
}

// Devices, contexts, streams and events; questions to them.
constexpr void AddState(Table& table) {
  Add(table, Use::kIgnored, nullptr, {
    ID(cuInit), ID(cuDriverGetVersion), ID(cuDeviceGet), ID(cuDeviceGetCount),
    ID(cuDeviceGetName), ID(cuDeviceComputeCapability), ID(cuDeviceTotalMem),
    ID(cuDeviceGetProperties), ID(cuDeviceGetAttribute), ID(cuCtxCreate),
    ID(cuCtxDestroy), ID(cuCtxAttach), ID(cuCtxDetach), ID(cuCtxPushCurrent),
    ID(cuCtxPopCurrent), ID(cuCtxGetDevice), ID(cuEventCreate),
    ID(cuEventQuery), ID(cuEventDestroy), ID(cuEventElapsedTime),
    ID(cuStreamCreate), ID(cuStreamQuery), ID(cuStreamDestroy),
    ID(cuCtxSetLimit), ID(cuCtxGetLimit), ID(cuCtxCreate_v2),
    ID(cuDeviceTotalMem_v2), ID(cuCtxGetApiVersion), ID(cuCtxGetCacheConfig),
    ID(cuCtxSetCacheConfig), ID(cuCtxSetCurrent), ID(cuCtxGetCurrent),
    ID(cuProfilerStart), ID(cuProfilerStop), ID(cuProfilerInitialize),
    ID(cuDeviceCanAccessPeer), ID(cuCtxEnablePeerAccess),
    ID(cuCtxDisablePeerAccess), ID(cuCtxDestroy_v2), ID(cuCtxPushCurrent_v2),
    ID(cuCtxPopCurrent_v2), ID(cuEventDestroy_v2), ID(cuStreamDestroy_v2),
    ID(cuDeviceGetByPCIBusId), ID(cuDeviceGetPCIBusId),
    ID(cuCtxSetSharedMemConfig), ID(cuCtxGetSharedMemConfig),
    ID(cuStreamCreateWithPriority), ID(cuStreamGetPriority),
    ID(cuStreamGetFlags), ID(cuCtxGetStreamPriorityRange),
    ID(cuGetErrorString), ID(cuGetErrorName), ID(cuDevicePrimaryCtxRetain),
    ID(cuDevicePrimaryCtxRelease), ID(cuDevicePrimaryCtxSetFlags),
    ID(cuDevicePrimaryCtxReset), ID(cuCtxGetFlags),
    ID(cuDevicePrimaryCtxGetState), ID(cuStreamGetPriority_ptsz),
    ID(cuStreamGetFlags_ptsz), ID(cuStreamQuery_ptsz),
    ID(cuDeviceGetP2PAttribute), ID(cuDeviceGetUuid), ID(cuStreamGetCtx),
    ID(cuStreamGetCtx_ptsz), ID(cuStreamIsCapturing),
    ID(cuStreamIsCapturing_ptsz), ID(cuDeviceGetLuid),
    ID(cuStreamGetCaptureInfo), ID(cuStreamGetCaptureInfo_ptsz),
    ID(cuThreadExchangeStreamCaptureMode), ID(cuDeviceGetNvSciSyncAttributes),
    ID(cuDevicePrimaryCtxRelease_v2), ID(cuDevicePrimaryCtxReset_v2),
    ID(cuDevicePrimaryCtxSetFlags_v2), ID(cuCtxResetPersistingL2Cache),
    ID(cuStreamCopyAttributes), ID(cuStreamCopyAttributes_ptsz),
    ID(cuStreamGetAttribute), ID(cuStreamGetAttribute_ptsz),
    ID(cuStreamSetAttribute), ID(cuStreamSetAttribute_ptsz),
    ID(cuDeviceGetTexture1DLinearMaxWidth), ID(cuDeviceGetDefaultMemPool),
    ID(cuDeviceSetMemPool), ID(cuDeviceGetMemPool),
    ID(cuStreamGetCaptureInfo_v2), ID(cuStreamGetCaptureInfo_v2_ptsz),
    ID(cuDeviceGraphMemTrim), ID(cuDeviceGetGraphMemAttribute),
    ID(cuDeviceSetGraphMemAttribute), ID(cuDeviceGetExecAffinitySupport),
    ID(cuCtxCreate_v3), ID(cuCtxGetExecAffinity), ID(cuDeviceGetUuid_v2),
    ID(cuStreamGetId), ID(cuStreamGetId_ptsz), ID(cuCtxGetId),
    ID(cuCoredumpGetAttribute), ID(cuCoredumpGetAttributeGlobal),
    ID(cuCoredumpSetAttribute), ID(cuCoredumpSetAttributeGlobal),
    ID(cuCtxSetFlags), ID(cuStreamGetCaptureInfo_v3),
    ID(cuStreamGetCaptureInfo_v3_ptsz), ID(cuDeviceRegisterAsyncNotification),
    ID(cuDeviceUnregisterAsyncNotification), ID(cuGreenCtxCreate),
    ID(cuGreenCtxDestroy), ID(cuDeviceGetDevResource), ID(cuCtxGetDevResource),
    ID(cuGreenCtxGetDevResource), ID(cuDevResourceGenerateDesc),
    ID(cuDevSmResourceSplitByCount), ID(cuStreamGetGreenCtx),
    ID(cuCtxFromGreenCtx), ID(cuCtxCreate_v4), ID(cuGreenCtxStreamCreate),
    ID(cuStreamGetCtx_v2), ID(cuStreamGetCtx_v2_ptsz),
    ID(cuLogsRegisterCallback), ID(cuLogsUnregisterCallback),
    ID(cuLogsCurrent), ID(cuLogsDumpToFile), ID(cuLogsDumpToMemory),
    ID(cuStreamGetDevice), ID(cuStreamGetDevice_ptsz),
    ID(cuEventElapsedTime_v2), ID(cuGreenCtxGetId), ID(cuCtxGetDevice_v2),
    ID(cuDeviceGetP2PAtomicCapabilities),
    ID(cuDeviceGetHostAtomicCapabilities)});
}

// clang-format on

#undef ID
#undef ONE
#undef BOTH

constexpr Table MakeTable() {
  Table table{};
  AddLaunches(table);
  AddCopies(table);
  AddOrder(table);
  AddOpOnly(table);
  AddMemory(table);
  AddGraphs(table);
  AddCode(table);
  AddState(table);
  return table;
}

constexpr Table kTable = MakeTable();
constexpr DriverCall kUnknown{};

}  // namespace

const DriverCall& ClassifyDriverCall(CUpti_CallbackId id) {
  return id < kTable.size() ? kTable[id] : kUnknown;
}

}  // namespace reprise::device
