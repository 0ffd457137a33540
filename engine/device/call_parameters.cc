#include "engine/device/call_parameters.h"

#include <cstring>

namespace reprise::device {

CUstream Normalized(CUstream stream) {
  return stream == CU_STREAM_LEGACY ? nullptr : stream;
}

CUstream StreamOf(const DriverCall& call, const void* params) {
  CUstream stream;
  if (call.stream_offset == DriverCall::kInConfig) {
    stream =
        static_cast<const cuLaunchKernelEx_params*>(params)->config->hStream;
  } else {
    std::memcpy(&stream, static_cast<const char*>(params) + call.stream_offset,
                sizeof(CUstream));
  }
  if (stream == nullptr && call.per_thread_default) return CU_STREAM_PER_THREAD;
  return Normalized(stream);
}

std::optional<EventCall> EventCallOf(CUpti_CallbackId id, const void* params) {
  switch (id) {
    case CUPTI_DRIVER_TRACE_CBID_cuEventRecord:
    case CUPTI_DRIVER_TRACE_CBID_cuEventRecord_ptsz:
      return EventCall{static_cast<const cuEventRecord_params*>(params)->hEvent,
                       false};
    case CUPTI_DRIVER_TRACE_CBID_cuEventRecordWithFlags:
    case CUPTI_DRIVER_TRACE_CBID_cuEventRecordWithFlags_ptsz: {
      const auto* given =
          static_cast<const cuEventRecordWithFlags_params*>(params);
      if (given->flags != CU_EVENT_RECORD_DEFAULT) return std::nullopt;
      return EventCall{given->hEvent, false};
    }
    case CUPTI_DRIVER_TRACE_CBID_cuStreamWaitEvent:
    case CUPTI_DRIVER_TRACE_CBID_cuStreamWaitEvent_ptsz: {
      const auto* given = static_cast<const cuStreamWaitEvent_params*>(params);
      if (given->Flags != CU_EVENT_WAIT_DEFAULT) return std::nullopt;
      return EventCall{given->hEvent, true};
    }
    default:
      return std::nullopt;
  }
}

bool TouchesStream(const DriverCall& call, const void* params,
                   CUstream stream) {
  return call.stream_offset == DriverCall::kNoStream ||
         StreamOf(call, params) == Normalized(stream);
}

}  // namespace reprise::device
