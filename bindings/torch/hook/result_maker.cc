#include "bindings/torch/hook/result_maker.h"

#include <c10/core/CPUAllocator.h>
#include <c10/cuda/CUDACachingAllocator.h>

#include "bindings/torch/base/plain_tensor.h"
#include "bindings/torch/runtime/switches.h"
#include "bindings/torch/runtime/torch_frontend.h"
#include "engine/replay/ledger.h"

namespace reprise::bindings {
namespace {

at::Tensor TensorOf(c10::TensorImpl* impl) {
  return at::Tensor(
      c10::intrusive_ptr<c10::TensorImpl>::unsafe_reclaim_from_nonowning(impl));
}

c10::DispatchKey BackendOf(scheduler::DeviceKind kind) {
  return kind == scheduler::DeviceKind::kCuda ? c10::DispatchKey::CUDA
                                              : c10::DispatchKey::CPU;
}

int64_t InElements(uint64_t offset_bytes, const engine::ResultSpec& spec) {
  if (spec.element_bytes == 0) return 0;
  return static_cast<int64_t>(offset_bytes) / spec.element_bytes;
}

}  // namespace

c10::Storage TakeStorage(scheduler::Session& session,
                         const engine::ResultSpec& spec,
                         scheduler::DeviceKind kind, int device) {
  const engine::Block::Parts block = session.TakeBlock(spec.value).Detach();
  const bool cuda = kind == scheduler::DeviceKind::kCuda;
  const c10::Device place =
      cuda ? c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(device))
           : c10::Device(c10::kCPU);
  c10::Allocator* allocator =
      cuda
          ? static_cast<c10::Allocator*>(c10::cuda::CUDACachingAllocator::get())
          : c10::GetCPUAllocator();
  c10::Storage storage(c10::Storage::use_byte_size_t(), spec.storage_bytes,
                       c10::DataPtr(reinterpret_cast<void*>(block.address),
                                    block.context, block.release, place),
                       allocator, /*resizable=*/true);
  if (!engine::Ledger::IsLease(block.release)) [[unlikely]] {
    session.Own(spec.value, TokenOf(*storage.unsafeGetStorageImpl()));
  }
  return storage;
}

at::Tensor MakeResult(const engine::ResultSpec& spec, c10::Storage storage,
                      scheduler::DeviceKind kind) {
  TensorLayout layout;
  layout.keys = c10::DispatchKeySet(c10::DispatchKeySet::RAW, spec.key_set);
  layout.dtype = static_cast<at::ScalarType>(spec.dtype);
  layout.storage_offset = InElements(spec.offset_bytes, spec);
  layout.sizes = spec.sizes;
  layout.strides = spec.strides;
  at::Tensor result = MakeTensor(std::move(storage), BackendOf(kind), layout);
  if (spec.version != 0 && CountsWrites()) [[unlikely]] {
    result.unsafeGetTensorImpl()->set_version_counter(
        c10::VariableVersion(spec.version));
  }
  return result;
}

const engine::ResultSpec& ResultMaker::Next() {
  TORCH_INTERNAL_ASSERT(next_ < op_.results.size(),
                        "reprise: ", call_.info().name, " was recorded with ",
                        op_.results.size(), " results");
  return op_.results[next_++];
}

at::Tensor ResultMaker::TakeTensor() {
  const engine::ResultSpec& spec = Next();
  ++tensors_;
  switch (spec.kind) {
    case engine::ResultSpec::Kind::kUndefined:
      return at::Tensor();
    case engine::ResultSpec::Kind::kOperand:
      AddLate({.tensor = tensors_ - 1,
               .operand = spec.operand,
               .view = false,
               .storage_offset = 0,
               .keys = {},
               .dtype = {},
               .sizes = {},
               .strides = {}});
      return at::Tensor();
    case engine::ResultSpec::Kind::kValue:
      return OverValue(spec);
    case engine::ResultSpec::Kind::kHost:
      return OfHost(spec);
  }
  return at::Tensor();
}

std::vector<at::Tensor> ResultMaker::TakeTensors(size_t count) {
  std::vector<at::Tensor> tensors;
  tensors.reserve(count);
  for (size_t i = 0; i < count; ++i) tensors.push_back(TakeTensor());
  return tensors;
}

const c10::IValue& ResultMaker::TakeHost() {
  return *static_cast<const c10::IValue*>(Next().host.get());
}

at::Tensor ResultMaker::OfHost(const engine::ResultSpec& spec) {
  at::Tensor tensor =
      CopyHostTensor(*static_cast<const c10::IValue*>(spec.host.get())
                          ->toTensor()
                          .unsafeGetTensorImpl());
  if (spec.tells != engine::ResultSpec::Tells::kNothing) {
    *tensor.mutable_data_ptr<int64_t>() =
        static_cast<int64_t>(spec.Told(session_.drawn()));
  }
  return tensor;
}

at::Tensor ResultMaker::OverValue(const engine::ResultSpec& spec) {
  c10::Storage storage;
  for (const Made& made : made_.span()) {
    if (made.value != spec.value) continue;
    storage = c10::Storage(
        c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(made.storage));
  }
  if (!storage) {
    // A view of an operand, made by an op that does more than that.
    for (size_t i = 0; i < op_.operands.size(); ++i) {
      if (op_.operands[i].value != spec.value) continue;
      AddLate(
          {.tensor = tensors_ - 1,
           .operand = static_cast<uint32_t>(i),
           .view = true,
           .storage_offset =
               InElements(spec.offset_bytes + call_.operands()[i].offset_bytes -
                              op_.operands[i].offset_bytes,
                          spec),
           .keys = c10::DispatchKeySet(c10::DispatchKeySet::RAW, spec.key_set),
           .dtype = static_cast<at::ScalarType>(spec.dtype),
           .sizes = spec.sizes,
           .strides = spec.strides});
      return at::Tensor();
    }
    storage = TakeStorage(session_, spec, call_.kind(), call_.device().index());
    if (op_.results.size() > 1) {
      made_.Push({spec.value, storage.unsafeGetStorageImpl()});
    }
  }
  return MakeResult(spec, std::move(storage), call_.kind());
}

[[gnu::noinline]] void ResultMaker::AddLate(Late late) {
  if (late_ == nullptr) late_ = std::make_unique<std::vector<Late>>();
  late_->push_back(std::move(late));
}

void ResultMaker::CompleteTensor(at::Tensor& tensor) {
  const size_t index = completed_++;
  if (complete()) return;
  for (const Late& late : *late_) {
    if (late.tensor != index) continue;
    c10::TensorImpl* operand = call_.tensor(late.operand);
    if (!late.view) {
      tensor = TensorOf(operand);
      return;
    }
    TensorLayout layout;
    layout.keys = late.keys;
    layout.dtype = late.dtype;
    layout.storage_offset = late.storage_offset;
    layout.sizes = late.sizes;
    layout.strides = late.strides;
    tensor =
        MakeTensor(operand->unsafe_storage(), BackendOf(call_.kind()), layout);
    return;
  }
}

}  // namespace reprise::bindings
