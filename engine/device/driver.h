// The CUDA driver behind a table, loaded at run time, so that Reprise starts on
// a machine without one and tests can put a simulated driver in its place.

#ifndef REPRISE_ENGINE_DEVICE_DRIVER_H_
#define REPRISE_ENGINE_DEVICE_DRIVER_H_

#include <cuda.h>

#include <string>

#include "engine/base/status.h"

namespace reprise::device {

// Every driver entry that Reprise calls, by name and type of cuda.h.
// X(member) expands to `decltype(&::member) member`; versioned symbols (cuda.h
// macros such as cuMemcpyDtoHAsync_v2) resolve to the version of the header.
#define REPRISE_DRIVER_ENTRIES(X)                \
  X(cuInit)                                      \
  X(cuDriverGetVersion)                          \
  X(cuGetErrorName)                              \
  X(cuGetErrorString)                            \
  X(cuDeviceGet)                                 \
  X(cuDeviceGetCount)                            \
  X(cuDeviceGetAttribute)                        \
  X(cuDeviceGetName)                             \
  X(cuDeviceTotalMem)                            \
  X(cuDevicePrimaryCtxGetState)                  \
  X(cuDevicePrimaryCtxRetain)                    \
  X(cuDevicePrimaryCtxRelease)                   \
  X(cuCtxGetCurrent)                             \
  X(cuCtxSetCurrent)                             \
  X(cuCtxSynchronize)                            \
  X(cuFuncGetParamInfo)                          \
  X(cuFuncLoad)                                  \
  X(cuKernelGetParamInfo)                        \
  X(cuFuncGetName)                               \
  X(cuKernelGetName)                             \
  X(cuLaunchKernelEx)                            \
  X(cuMemsetD8Async)                             \
  X(cuMemsetD16Async)                            \
  X(cuMemsetD32Async)                            \
  X(cuMemsetD2D8Async)                           \
  X(cuMemsetD2D16Async)                          \
  X(cuMemsetD2D32Async)                          \
  X(cuMemcpyAsync)                               \
  X(cuMemcpyDtoDAsync)                           \
  X(cuMemcpyDtoHAsync)                           \
  X(cuMemcpyHtoDAsync)                           \
  X(cuMemAlloc)                                  \
  X(cuMemFree)                                   \
  X(cuMemGetInfo)                                \
  X(cuMemHostAlloc)                              \
  X(cuMemFreeHost)                               \
  X(cuPointerGetAttribute)                       \
  X(cuStreamCreate)                              \
  X(cuStreamCreateWithPriority)                  \
  X(cuStreamDestroy)                             \
  X(cuStreamSynchronize)                         \
  X(cuStreamIsCapturing)                         \
  X(cuStreamQuery)                               \
  X(cuThreadExchangeStreamCaptureMode)           \
  X(cuEventCreate)                               \
  X(cuEventDestroy)                              \
  X(cuEventRecord)                               \
  X(cuEventQuery)                                \
  X(cuEventSynchronize)                          \
  X(cuEventElapsedTime)                          \
  X(cuStreamWaitEvent)                           \
  X(cuGraphCreate)                               \
  X(cuGraphDestroy)                              \
  X(cuGraphAddKernelNode)                        \
  X(cuGraphAddMemsetNode)                        \
  X(cuGraphAddMemcpyNode)                        \
  X(cuGraphKernelNodeSetAttribute)               \
  X(cuGraphInstantiateWithParams)                \
  X(cuGraphExecDestroy)                          \
  X(cuGraphExecKernelNodeSetParams)              \
  X(cuGraphExecMemsetNodeSetParams)              \
  X(cuGraphExecMemcpyNodeSetParams)              \
  X(cuGraphUpload)                               \
  X(cuGraphLaunch)                               \
  X(cuModuleGetFunction)                         \
  X(cuLibraryLoadData)                           \
  X(cuLibraryUnload)                             \
  X(cuLibraryEnumerateKernels)                   \
  X(cuLibraryGetKernel)                          \
  X(cuLibraryGetKernelCount)                     \
  X(cuLibraryGetGlobal)                          \
  X(cuKernelGetFunction)                         \
  X(cuFuncGetAttribute)                          \
  X(cuFuncSetAttribute)                          \
  X(cuOccupancyMaxActiveBlocksPerMultiprocessor) \
  X(cuOccupancyMaxActiveClusters)                \
  X(cuCtxGetStreamPriorityRange)                 \
  X(cuGraphAddDependencies)                      \
  X(cuGraphAddEventWaitNode)                     \
  X(cuGraphAddEventRecordNode)                   \
  X(cuGraphExecEventWaitNodeSetEvent)            \
  X(cuGraphExecEventRecordNodeSetEvent)          \
  X(cuStreamBeginCapture)                        \
  X(cuStreamEndCapture)                          \
  X(cuGraphAddChildGraphNode)                    \
  X(cuMemPoolCreate)                             \
  X(cuMemPoolDestroy)                            \
  X(cuMemPoolSetAttribute)                       \
  X(cuMemPoolTrimTo)                             \
  X(cuMemAllocFromPoolAsync)                     \
  X(cuMemFreeAsync)                              \
  X(cuCtxGetDevice)                              \
  X(cuStreamGetCtx)                              \
  X(cuGraphKernelNodeSetParams)                  \
  X(cuGraphMemsetNodeSetParams)                  \
  X(cuGraphMemcpyNodeSetParams)                  \
  X(cuGraphExecUpdate)                           \
  X(cuGraphNodeSetEnabled)

// A table of entry points. Immutable once made; thread-safe to call.
struct Driver {
#define REPRISE_DRIVER_MEMBER(name) decltype(&::name) name = nullptr;
  REPRISE_DRIVER_ENTRIES(REPRISE_DRIVER_MEMBER)
#undef REPRISE_DRIVER_MEMBER

  // Loads libcuda.so.1 once for the process and initialises it. kUnavailable,
  // in one sentence, where there is no driver or no device, or where an entry
  // is missing. The table lives for ever (it owns nothing that needs an end).
  static base::Result<const Driver*> Load();

  // Why there is nothing to work with, and what to do: kUnavailable, of a first
  // call that gave `result`.
  base::Error WhyUnusable(CUresult result, const char* call) const;

  // An error that names the call, the CUresult and its meaning.
  base::Error Explain(CUresult result, const char* call) const;
};

// Turns a CUresult into a Status that names the call.
base::Status Check(const Driver& driver, CUresult result, const char* call);

// Calls a driver entry and leaves the enclosing function if it fails:
// REPRISE_CU(driver, cuGraphLaunch(exec, stream)).
#define REPRISE_CU(driver, call) \
  REPRISE_RETURN_IF_ERROR(       \
      ::reprise::device::Check((driver), (driver).call, #call))

}  // namespace reprise::device

#endif  // REPRISE_ENGINE_DEVICE_DRIVER_H_
