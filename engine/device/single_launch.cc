#include "engine/device/single_launch.h"

#include <string>
#include <vector>

#include "engine/device/launch_attribute.h"
#include "engine/device/launch_recorder.h"
#include "engine/device/node_params.h"
#include "engine/device/shared_memory.h"

namespace reprise::device {
namespace {

using base::Code;
using base::Fail;
using base::Status;

Status EnqueueKernel(const Driver& driver, const Launch& launch,
                     CUstream stream) {
  std::vector<CUlaunchAttribute> attributes;
  for (const CUlaunchAttribute& attribute : launch.attributes) {
    switch (UseOf(attribute.id)) {
      case AttributeUse::kRequired:
      case AttributeUse::kHint:
        attributes.push_back(attribute);
        break;
      case AttributeUse::kOmitted:
        break;
      case AttributeUse::kForbidden:
        return Fail(Code::kInvalidArgument, "a launch with attribute " +
                                                std::to_string(attribute.id) +
                                                " cannot be repeated");
    }
  }
  if (launch.programmatic) {
    CUlaunchAttribute& attribute = attributes.emplace_back();
    attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    attribute.value.programmaticStreamSerializationAllowed = 1;
  }
  CUlaunchConfig config{};
  config.gridDimX = launch.grid.x;
  config.gridDimY = launch.grid.y;
  config.gridDimZ = launch.grid.z;
  config.blockDimX = launch.block.x;
  config.blockDimY = launch.block.y;
  config.blockDimZ = launch.block.z;
  config.sharedMemBytes = launch.shared_bytes;
  config.hStream = stream;
  config.attrs = attributes.data();
  config.numAttrs = static_cast<unsigned>(attributes.size());
  KernelArguments arguments(launch);
  const auto enqueue = [&] {
    return driver.cuLaunchKernelEx(&config, launch.function, arguments.params(),
                                   arguments.extra());
  };
  return Check(driver, WithSharedMemory(driver, launch, enqueue),
               "cuLaunchKernelEx");
}

Status EnqueueMemset(const Driver& driver, const Launch& launch,
                     CUstream stream) {
  const CUdeviceptr to = launch.Word(0);
  const size_t pitch = launch.pitch_bytes;
  const size_t width = launch.width;
  const size_t height = launch.height;
  const bool flat = height == 1;
  CUresult result = CUDA_ERROR_INVALID_VALUE;
  switch (launch.element_bytes) {
    case 1: {
      const auto value = static_cast<unsigned char>(launch.value);
      result = flat ? driver.cuMemsetD8Async(to, value, width, stream)
                    : driver.cuMemsetD2D8Async(to, pitch, value, width, height,
                                               stream);
      break;
    }
    case 2: {
      const auto value = static_cast<unsigned short>(launch.value);
      result = flat ? driver.cuMemsetD16Async(to, value, width, stream)
                    : driver.cuMemsetD2D16Async(to, pitch, value, width, height,
                                                stream);
      break;
    }
    case 4:
      result = flat ? driver.cuMemsetD32Async(to, launch.value, width, stream)
                    : driver.cuMemsetD2D32Async(to, pitch, launch.value, width,
                                                height, stream);
      break;
  }
  return Check(driver, result, "memset");
}

}  // namespace

Status Enqueue(const Driver& driver, const Launch& launch, CUstream stream) {
  const LaunchRecorder::Hidden hidden;
  switch (launch.kind) {
    case Launch::Kind::kKernel:
      return EnqueueKernel(driver, launch, stream);
    case Launch::Kind::kMemset:
      return EnqueueMemset(driver, launch, stream);
    case Launch::Kind::kMemcpy:
      return Check(driver,
                   driver.cuMemcpyDtoDAsync(launch.Word(0), launch.Word(8),
                                            launch.width, stream),
                   "cuMemcpyDtoDAsync");
    case Launch::Kind::kWaitEvent:
      return Check(driver, driver.cuStreamWaitEvent(stream, EventOf(launch), 0),
                   "cuStreamWaitEvent");
    case Launch::Kind::kRecordEvent:
      return Check(driver, driver.cuEventRecord(EventOf(launch), stream),
                   "cuEventRecord");
    case Launch::Kind::kGraph:
      return Fail(Code::kInvalidArgument,
                  "captured work is launched as part of a graph only");
  }
  return Fail(Code::kInvalidArgument, "a launch of no kind");
}

}  // namespace reprise::device
