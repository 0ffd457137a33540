#include "bindings/torch/result_maker.h"

#include <c10/core/CPUAllocator.h>
#include <c10/cuda/CUDACachingAllocator.h>

#include "bindings/torch/plain_tensor.h"
#include "bindings/torch/torch_frontend.h"
#include "engine/ledger.h"

namespace reprise::bindings {
namespace {

at::Tensor TensorOf(c10::TensorImpl* impl) {
  return at::Tensor(
      c10::intrusive_ptr<c10::TensorImpl>::unsafe_reclaim_from_nonowning(impl));
}

}  // namespace

const engine::ResultSpec& ResultMaker::Next() {
  TORCH_INTERNAL_ASSERT(next_ < op_.results.size(),
                        "reprise: ", call_.info().name, " was recorded with ",
                        op_.results.size(), " results");
  return op_.results[next_++];
}

at::Tensor ResultMaker::TakeTensor() {
  const engine::ResultSpec& spec = Next();
  switch (spec.kind) {
    case engine::ResultSpec::Kind::kUndefined:
      return at::Tensor();
    case engine::ResultSpec::Kind::kOperand:
      return TensorOf(call_.tensor(spec.operand));
    case engine::ResultSpec::Kind::kValue:
      return OverValue(spec);
    case engine::ResultSpec::Kind::kHost:
      return CopyHostTensor(*static_cast<const c10::IValue*>(spec.host.get())
                                 ->toTensor()
                                 .unsafeGetTensorImpl());
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

at::Tensor ResultMaker::OverValue(const engine::ResultSpec& spec) {
  const bool cuda = call_.kind() == scheduler::DeviceKind::kCuda;
  const auto backend = cuda ? c10::DispatchKey::CUDA : c10::DispatchKey::CPU;
  uint64_t offset_bytes = spec.offset_bytes;
  c10::Storage storage;
  for (const Made& made : made_) {
    if (made.value == spec.value) storage = made.storage;
  }
  if (!storage) {
    // A view of an operand, made by an op that does more than that.
    for (size_t i = 0; i < op_.operands.size(); ++i) {
      if (op_.operands[i].value != spec.value) continue;
      storage = call_.tensor(i)->unsafe_storage();
      offset_bytes +=
          call_.operands()[i].offset_bytes - op_.operands[i].offset_bytes;
      break;
    }
  }
  if (!storage) {
    const engine::Block::Parts block = session_.TakeBlock(spec.value).Detach();
    const c10::Device device =
        cuda ? c10::Device(c10::kCUDA,
                           static_cast<c10::DeviceIndex>(call_.device()))
             : c10::Device(c10::kCPU);
    c10::Allocator* allocator =
        cuda ? static_cast<c10::Allocator*>(
                   c10::cuda::CUDACachingAllocator::get())
             : c10::GetCPUAllocator();
    storage = c10::Storage(c10::Storage::use_byte_size_t(), spec.storage_bytes,
                           c10::DataPtr(reinterpret_cast<void*>(block.address),
                                        block.context, block.release, device),
                           allocator, /*resizable=*/true);
    if (!engine::Ledger::IsLease(block.release)) [[unlikely]] {
      session_.Own(spec.value, TokenOf(*storage.unsafeGetStorageImpl()));
    }
    if (op_.results.size() > 1) made_.push_back(Made{spec.value, storage});
  }
  TensorLayout layout;
  layout.keys = c10::DispatchKeySet(c10::DispatchKeySet::RAW, spec.key_set);
  layout.dtype = static_cast<at::ScalarType>(spec.dtype);
  layout.storage_offset =
      spec.element_bytes == 0
          ? 0
          : static_cast<int64_t>(offset_bytes) / spec.element_bytes;
  layout.sizes = spec.sizes;
  layout.strides = spec.strides;
  return MakeTensor(std::move(storage), backend, layout);
}

}  // namespace reprise::bindings
