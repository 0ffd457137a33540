// Tensor.record_stream for tensors whose memory is a plan's.
//
// Torch keeps what a tensor leaves behind from being used again before another
// stream has done with it. Its allocator does so by the pointer, which a place
// in an arena is not: the arena's ledger does it in its place.

#include <ATen/ops/record_stream_ops.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "bindings/torch/hook.h"
#include "engine/ledger.h"

namespace reprise::bindings {
namespace {

void LendMemory(const at::Tensor& tensor, c10::Stream stream) {
  if (!tensor.has_storage()) return;
  const c10::StorageImpl& storage = *tensor.storage().unsafeGetStorageImpl();
  const c10::DataPtr& data =
      const_cast<c10::StorageImpl&>(storage)._mutable_data_ptr_no_checks();
  engine::Ledger::Lend(data.get_context(), data.get_deleter(),
                       c10::cuda::CUDAStream(stream).stream());
}

void RecordStream(c10::DispatchKeySet keys, at::Tensor& tensor,
                  c10::Stream stream) {
  if (stream.device_type() == c10::kCUDA) LendMemory(tensor, stream);
  at::_ops::record_stream::redispatch(keys & kBelowHook, tensor, stream);
}

}  // namespace
}  // namespace reprise::bindings

TORCH_LIBRARY_IMPL(aten, BackendSelect, library) {
  library.impl("record_stream", TORCH_FN(reprise::bindings::RecordStream));
}
