#include "bindings/native/runtime.h"

#include <string>
#include <utility>
#include <vector>

#include "bindings/native/device_query.h"
#include "bindings/native/kernel_request.h"
#include "bindings/native/noted_timeline.h"
#include "bindings/native/runtime_core.h"
#include "bindings/native/stream_core.h"
#include "engine/batch/elements.h"
#include "engine/batch/kernel_code.h"
#include "kernels/kernel_source.h"

namespace reprise {
namespace native {

Result<void*> Allocate(RuntimeCore& runtime, size_t count,
                       size_t element_bytes) {
  size_t bytes = 0;
  if (__builtin_mul_overflow(count, element_bytes, &bytes)) {
    return base::Fail(Code::kInvalidArgument,
                      "cannot allocate " +
                          engine::ElementsOf(count, element_bytes) +
                          ": they have more bytes than a size can say");
  }
  return runtime.device().Allocate(bytes);
}

void Free(RuntimeCore& runtime, void* memory) { runtime.device().Free(memory); }

}  // namespace native

namespace {

std::vector<device::ParamSpan> SpansOf(const std::vector<uint32_t>& offsets,
                                       const std::vector<uint32_t>& sizes) {
  std::vector<device::ParamSpan> spans;
  for (size_t i = 0; i < sizes.size(); ++i) {
    spans.push_back({offsets[i], sizes[i]});
  }
  return spans;
}

Error InKernel(const engine::KernelCode& kernel, const Error& error) {
  return error.In("kernel '" + kernel.name() + "'");
}

// Until it is ready; kInvalidArgument if it is none of the device's.
Status WaitFor(engine::KernelCode& kernel, const native::Device& device) {
  REPRISE_RETURN_IF_ERROR(kernel.Wait());
  if (kernel.context() == device.context().context) return {};
  return base::Fail(
      Code::kInvalidArgument,
      "kernel '" + kernel.name() + "' is of another runtime: ask that one");
}

}  // namespace

Result<Runtime> Runtime::Create(const RuntimeOptions& options) {
  std::unique_ptr<native::Device> device;
  if (options.device == RuntimeOptions::kHost) {
    device = native::MakeHostDevice();
  } else {
    REPRISE_ASSIGN_OR_RETURN(device, native::OpenCudaDevice(options));
  }
  return Runtime(
      std::make_shared<native::RuntimeCore>(std::move(device), options));
}

Result<std::vector<DeviceInfo>> Runtime::Devices() {
  return native::CudaDevices();
}

Result<DeviceInfo> Runtime::device() const { return core_->device().Info(); }

PriorityRange Runtime::priorities() const {
  return core_->device().priorities();
}

Result<Stream> Runtime::CreateStream(int32_t priority) const {
  REPRISE_ASSIGN_OR_RETURN(CUstream stream,
                           core_->device().MakeStream(priority));
  return Stream(std::make_shared<native::StreamCore>(
      core_, stream, /*owned=*/!core_->device().on_host()));
}

Result<Stream> Runtime::AdoptStream(void* handle) const {
  const auto stream = static_cast<CUstream>(handle);
  REPRISE_RETURN_IF_ERROR(core_->device().AdoptStream(stream));
  return Stream(
      std::make_shared<native::StreamCore>(core_, stream, /*owned=*/false));
}

Runtime::SharedCode Runtime::Compile(const KernelSource& source,
                                     const Shape& shape) const {
  // A host runtime refuses it, and looks for no headers before.
  kernels::KernelSource request;
  if (!core_->device().on_host()) request = native::RequestOf(source);
  return core_->compile_service().Compile(std::move(request), source.name,
                                          SpansOf(shape.offsets, shape.sizes),
                                          shape.types);
}

Runtime::SharedCode Runtime::Adopt(void* handle, std::string name,
                                   const Shape& shape) const {
  if (handle == nullptr) {
    return base::Fail(Code::kInvalidArgument,
                      "the handle of kernel '" + name + "' is null");
  }
  auto code = std::make_shared<engine::KernelCode>(
      std::move(name), SpansOf(shape.offsets, shape.sizes), shape.types);
  core_->device().Adopt(static_cast<CUfunction>(handle), *code);
  REPRISE_RETURN_IF_ERROR(code->Wait());
  return code;
}

Result<AnyKernel> Runtime::AdoptKernel(void* handle, std::string name) const {
  if (handle == nullptr) {
    return base::Fail(Code::kInvalidArgument,
                      "the handle of kernel '" + name + "' is null");
  }
  auto params = core_->device().ParamsOf(static_cast<CUfunction>(handle));
  if (!params) {
    return tl::unexpected(params.error().In("kernel '" + name + "'"));
  }
  Shape shape;
  for (const device::ParamSpan& span : *params) {
    shape.offsets.push_back(span.offset_bytes);
    shape.sizes.push_back(span.size_bytes);
  }
  REPRISE_ASSIGN_OR_RETURN(auto code, Adopt(handle, std::move(name), shape));
  return AnyKernel(std::move(code));
}

Result<AnyKernel> Runtime::HostKernel(std::string name,
                                      std::span<const size_t> sizes,
                                      AnyHostFunction function) const {
  constexpr uint32_t kAlignment = 16;  // enough for every type
  Shape shape;
  uint32_t end = 0;
  for (size_t size : sizes) {
    shape.offsets.push_back(end);
    shape.sizes.push_back(static_cast<uint32_t>(size));
    end += (shape.sizes.back() + kAlignment - 1) / kAlignment * kAlignment;
  }
  REPRISE_ASSIGN_OR_RETURN(
      auto code, FromHost(
                     [shape, function = std::move(function)](
                         const LaunchConfig& config, const std::byte* image) {
                       std::vector<Argument> arguments;
                       for (size_t i = 0; i < shape.sizes.size(); ++i) {
                         arguments.emplace_back(image + shape.offsets[i],
                                                shape.sizes[i]);
                       }
                       function(config, arguments);
                     },
                     std::move(name), shape));
  return AnyKernel(std::move(code));
}

Runtime::SharedCode Runtime::FromHost(engine::HostFunction function,
                                      std::string name,
                                      const Shape& shape) const {
  if (!core_->device().on_host()) {
    return base::Fail(Code::kInvalidArgument,
                      "host kernel '" + name +
                          "' needs a runtime of the host (RuntimeOptions::"
                          "kHost)");
  }
  auto code = std::make_shared<engine::KernelCode>(
      std::move(name), SpansOf(shape.offsets, shape.sizes), shape.types);
  code->FinishHost(core_->device().context().context, std::move(function));
  return code;
}

Result<uint32_t> Runtime::MostBlocks(engine::KernelCode& kernel,
                                     const LaunchConfig& config) const {
  REPRISE_RETURN_IF_ERROR(WaitFor(kernel, core_->device()));
  engine::BatchRecord record;
  record.AddKernel(&kernel, config, 0);
  record.EndLaunch();
  if (record.mistake().has_value()) {
    return base::Fail(Code::kInvalidArgument, *record.mistake());
  }
  engine::Node node = record.nodes().front();
  node.grid = node.cluster;  // the grid does not matter
  node.cooperative = 0;
  auto blocks = core_->device().MostBlocks(node);
  if (!blocks) return tl::unexpected(InKernel(kernel, blocks.error()));
  return static_cast<uint32_t>(*blocks);
}

Result<SuggestedBlock> Runtime::BestBlock(engine::KernelCode& kernel,
                                          uint32_t shared_bytes) const {
  REPRISE_RETURN_IF_ERROR(WaitFor(kernel, core_->device()));
  auto block = core_->device().SuggestBlock(kernel, shared_bytes);
  if (!block) return tl::unexpected(InKernel(kernel, block.error()));
  return block;
}

Timeline Runtime::StartTimeline() const {
  return Timeline(std::make_unique<native::NotedTimeline>(core_));
}

RuntimeStats Runtime::stats() const { return core_->compile_service().stats(); }

}  // namespace reprise
