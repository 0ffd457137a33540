#include "engine/device/launch_decoder.h"

#include <algorithm>
#include <cstring>

#include "engine/device/kernel_params.h"
#include "engine/device/launch_attribute.h"

namespace reprise::device {
namespace {

template <typename Params>
const Params& As(const void* params) {
  return *static_cast<const Params*>(params);
}

DecodedCall Refuse(const char* reason) { return {std::nullopt, reason}; }

DecodedCall MakeMemset(CUdeviceptr to, uint32_t value, uint32_t element_bytes,
                       size_t width, size_t height = 1,
                       size_t pitch_bytes = 0) {
  if (width == 0 || height == 0) return {};
  if (height > 1 && pitch_bytes == width * element_bytes) {
    width *= height;
    height = 1;
  }
  Launch launch;
  launch.kind = Launch::Kind::kMemset;
  launch.image.resize(sizeof to);
  launch.SetWord(0, to);
  launch.value = value;
  launch.element_bytes = element_bytes;
  launch.width = width;
  launch.height = height;
  launch.pitch_bytes = height == 1 ? 0 : pitch_bytes;
  return {std::move(launch), nullptr};
}

// None if the call is no memset.
std::optional<DecodedCall> DecodeMemset(CUpti_CallbackId id,
                                        const void* params) {
  switch (id) {
    case CUPTI_DRIVER_TRACE_CBID_cuMemsetD8Async:
    case CUPTI_DRIVER_TRACE_CBID_cuMemsetD8Async_ptsz: {
      const auto& p = As<cuMemsetD8Async_params>(params);
      return MakeMemset(p.dstDevice, p.uc, 1, p.N);
    }
    case CUPTI_DRIVER_TRACE_CBID_cuMemsetD16Async:
    case CUPTI_DRIVER_TRACE_CBID_cuMemsetD16Async_ptsz: {
      const auto& p = As<cuMemsetD16Async_params>(params);
      return MakeMemset(p.dstDevice, p.us, 2, p.N);
    }
    case CUPTI_DRIVER_TRACE_CBID_cuMemsetD32Async:
    case CUPTI_DRIVER_TRACE_CBID_cuMemsetD32Async_ptsz: {
      const auto& p = As<cuMemsetD32Async_params>(params);
      return MakeMemset(p.dstDevice, p.ui, 4, p.N);
    }
    case CUPTI_DRIVER_TRACE_CBID_cuMemsetD2D8Async:
    case CUPTI_DRIVER_TRACE_CBID_cuMemsetD2D8Async_ptsz: {
      const auto& p = As<cuMemsetD2D8Async_params>(params);
      return MakeMemset(p.dstDevice, p.uc, 1, p.Width, p.Height, p.dstPitch);
    }
    case CUPTI_DRIVER_TRACE_CBID_cuMemsetD2D16Async:
    case CUPTI_DRIVER_TRACE_CBID_cuMemsetD2D16Async_ptsz: {
      const auto& p = As<cuMemsetD2D16Async_params>(params);
      return MakeMemset(p.dstDevice, p.us, 2, p.Width, p.Height, p.dstPitch);
    }
    case CUPTI_DRIVER_TRACE_CBID_cuMemsetD2D32Async:
    case CUPTI_DRIVER_TRACE_CBID_cuMemsetD2D32Async_ptsz: {
      const auto& p = As<cuMemsetD2D32Async_params>(params);
      return MakeMemset(p.dstDevice, p.ui, 4, p.Width, p.Height, p.dstPitch);
    }
    default:
      return std::nullopt;
  }
}

// The buffer that a caller passed through `extra`, of `*size_bytes`.
const void* PackedBuffer(void* const* extra, size_t* size_bytes) {
  const void* buffer = nullptr;
  *size_bytes = 0;
  for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
    if (extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER) buffer = extra[1];
    if (extra[0] == CU_LAUNCH_PARAM_BUFFER_SIZE) {
      *size_bytes = *static_cast<const size_t*>(extra[1]);
    }
  }
  return buffer;
}

}  // namespace

struct LaunchDecoder::KernelCall {
  CUfunction function = nullptr;
  Dim3 grid;
  Dim3 block;
  unsigned shared_bytes = 0;
  void* const* params = nullptr;
  void* const* extra = nullptr;
  const CUlaunchAttribute* attributes = nullptr;
  unsigned attribute_count = 0;

  static KernelCall Of(const cuLaunchKernel_params& p) {
    KernelCall call = Plain(p);
    call.extra = p.extra;
    return call;
  }
  // That it is cooperative is an attribute, which the caller adds.
  static KernelCall Of(const cuLaunchCooperativeKernel_params& p) {
    return Plain(p);
  }
  static KernelCall Of(const cuLaunchKernelEx_params& p) {
    const CUlaunchConfig& config = *p.config;
    KernelCall call;
    call.function = p.f;
    call.grid = {config.gridDimX, config.gridDimY, config.gridDimZ};
    call.block = {config.blockDimX, config.blockDimY, config.blockDimZ};
    call.shared_bytes = config.sharedMemBytes;
    call.params = p.kernelParams;
    call.extra = p.extra;
    call.attributes = config.attrs;
    call.attribute_count = config.numAttrs;
    return call;
  }

 private:
  template <typename Params>
  static KernelCall Plain(const Params& p) {
    KernelCall call;
    call.function = p.f;
    call.grid = {p.gridDimX, p.gridDimY, p.gridDimZ};
    call.block = {p.blockDimX, p.blockDimY, p.blockDimZ};
    call.shared_bytes = p.sharedMemBytes;
    call.params = p.kernelParams;
    return call;
  }
};

DecodedCall LaunchDecoder::Decode(CUpti_CallbackId id, const void* params,
                                  const char* symbol_name) {
  switch (id) {
    case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel:
    case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz:
      return DecodeKernel(KernelCall::Of(As<cuLaunchKernel_params>(params)),
                          symbol_name);
    case CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel:
    case CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel_ptsz: {
      KernelCall call =
          KernelCall::Of(As<cuLaunchCooperativeKernel_params>(params));
      CUlaunchAttribute cooperative{};
      cooperative.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
      cooperative.value.cooperative = 1;
      call.attributes = &cooperative;
      call.attribute_count = 1;
      return DecodeKernel(call, symbol_name);
    }
    case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx:
    case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz:
      return DecodeKernel(KernelCall::Of(As<cuLaunchKernelEx_params>(params)),
                          symbol_name);
    case CUPTI_DRIVER_TRACE_CBID_cuMemcpyAsync:
    case CUPTI_DRIVER_TRACE_CBID_cuMemcpyAsync_ptsz: {
      const auto& p = As<cuMemcpyAsync_params>(params);
      return DecodeCopy(p.dst, p.src, p.ByteCount);
    }
    case CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoDAsync_v2:
    case CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoDAsync_v2_ptsz: {
      const auto& p = As<cuMemcpyDtoDAsync_v2_params>(params);
      return DecodeCopy(p.dstDevice, p.srcDevice, p.ByteCount);
    }
    default:
      return DecodeMemset(id, params)
          .value_or(Refuse("a launch of a kind that Reprise does not know"));
  }
}

DecodedCall LaunchDecoder::DecodeKernel(const KernelCall& call,
                                        const char* symbol_name) {
  Launch launch;
  launch.kind = Launch::Kind::kKernel;
  launch.function = call.function;
  launch.grid = call.grid;
  launch.block = call.block;
  launch.shared_bytes = call.shared_bytes;
  for (unsigned i = 0; i < call.attribute_count; ++i) {
    const CUlaunchAttribute& attribute = call.attributes[i];
    if (attribute.id == CU_LAUNCH_ATTRIBUTE_IGNORE) continue;
    if (UseOf(attribute.id) == AttributeUse::kForbidden) {
      return Refuse("a launch attribute that records an event or is unknown");
    }
    launch.attributes.push_back(Canonical(attribute));
  }
  const Function function = FunctionOf(call.function, symbol_name);
  launch.name = function.name;
  if (call.params == nullptr && call.extra != nullptr) {
    size_t size_bytes = 0;
    const void* buffer = PackedBuffer(call.extra, &size_bytes);
    launch.packed = true;
    launch.image.resize(size_bytes);
    if (buffer == nullptr && size_bytes != 0) {
      return Refuse("a kernel without its parameters");
    }
    if (size_bytes != 0) std::memcpy(launch.image.data(), buffer, size_bytes);
    return {std::move(launch), nullptr};
  }
  if (!function.known) return Refuse("a kernel of unknown parameters");
  if (call.params == nullptr && !function.params->empty()) {
    return Refuse("a kernel without its parameters");
  }
  launch.params = function.params;
  launch.image.resize(function.image_bytes);
  for (size_t i = 0; i < function.params->size(); ++i) {
    const ParamSpan& span = (*function.params)[i];
    std::memcpy(launch.image.data() + span.offset_bytes, call.params[i],
                span.size_bytes);
  }
  return {std::move(launch), nullptr};
}

DecodedCall LaunchDecoder::DecodeCopy(CUdeviceptr to, CUdeviceptr from,
                                      size_t size_bytes) {
  if (size_bytes == 0) return {};
  int devices[2] = {-1, -2};
  const CUdeviceptr pointers[2] = {to, from};
  for (int i = 0; i < 2; ++i) {
    unsigned memory_type = 0;
    if (driver_.cuPointerGetAttribute(&memory_type,
                                      CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                      pointers[i]) != CUDA_SUCCESS ||
        memory_type != CU_MEMORYTYPE_DEVICE) {
      return Refuse("a copy between host and device");
    }
    driver_.cuPointerGetAttribute(
        &devices[i], CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, pointers[i]);
  }
  if (devices[0] != devices[1]) return Refuse("a copy between devices");
  Launch launch;
  launch.kind = Launch::Kind::kMemcpy;
  launch.image.resize(2 * sizeof to);
  launch.SetWord(0, to);
  launch.SetWord(8, from);
  launch.width = size_bytes;
  return {std::move(launch), nullptr};
}

LaunchDecoder::Function LaunchDecoder::FunctionOf(CUfunction handle,
                                                  const char* symbol_name) {
  const auto found = functions_.find(handle);
  if (found != functions_.end()) return found->second;
  Function function = Ask(handle, symbol_name);
  if (function.known) functions_.emplace(handle, function);
  return function;
}

LaunchDecoder::Function LaunchDecoder::Ask(CUfunction handle,
                                           const char* symbol_name) {
  Function function;
  std::vector<ParamSpan> params;
  if (auto told = ParamsOf(driver_, handle)) {
    function.known = true;
    params = *std::move(told);
  }
  for (const ParamSpan& param : params) {
    const size_t end = size_t{param.offset_bytes} + param.size_bytes;
    function.image_bytes = std::max(function.image_bytes, end);
  }
  function.params =
      std::make_shared<const std::vector<ParamSpan>>(std::move(params));
  if (symbol_name == nullptr &&
      driver_.cuFuncGetName(&symbol_name, handle) != CUDA_SUCCESS &&
      driver_.cuKernelGetName(
          &symbol_name, reinterpret_cast<CUkernel>(handle)) != CUDA_SUCCESS) {
    symbol_name = nullptr;
  }
  if (symbol_name != nullptr) {
    function.name = std::make_shared<const std::string>(symbol_name);
  }
  return function;
}

}  // namespace reprise::device
