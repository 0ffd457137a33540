// Ops of torch that ask a tensor's memory who owns it, where that is Reprise.

#include <ATen/ops/_lazy_clone_native.h>
#include <ATen/ops/record_stream_ops.h>
#include <c10/core/StorageImpl.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <mutex>
#include <unordered_map>
#include <utility>

#include "bindings/torch/hook/hook.h"
#include "bindings/torch/runtime/torch_frontend.h"
#include "engine/replay/ledger.h"

namespace reprise::bindings {
namespace {

using Parts = engine::Block::Parts;

// Blocks whose data pointers name them by their address alone (ShareByAddress).
struct BlocksByAddress {
  std::mutex mutex;
  std::unordered_map<void*, Parts> blocks;  // guarded by mutex
};

BlocksByAddress& Shared() {
  // Tensors may outlive whatever ends.
  static auto* const shared = new BlocksByAddress;
  return *shared;
}

void ReleaseByAddress(void* address) {
  BlocksByAddress& shared = Shared();
  std::unique_lock lock(shared.mutex);
  const Parts parts = shared.blocks.extract(address).mapped();
  lock.unlock();
  parts.release(parts.context);
}

c10::DataPtr& DataOf(const c10::StorageImpl& storage) {
  return const_cast<c10::StorageImpl&>(storage)._mutable_data_ptr_no_checks();
}

// Torch shares memory between storages, to be copied by whoever writes first,
// if its data pointer's context is its address. That of what a replay made is
// another one.
void ShareByAddress(c10::StorageImpl& storage) {
  c10::DataPtr& data = DataOf(storage);
  if (!IsLent(data.get_deleter())) return;
  void* const address = data.mutable_get();
  BlocksByAddress& shared = Shared();
  {
    const std::lock_guard lock(shared.mutex);
    shared.blocks[address] = {reinterpret_cast<uint64_t>(address),
                              data.get_context(), data.get_deleter()};
  }
  data.release_context();
  data = c10::DataPtr(address, address, &ReleaseByAddress, data.device());
}

at::Tensor LazyClone(const at::Tensor& tensor) {
  if (tensor.has_storage()) {
    ShareByAddress(*tensor.storage().unsafeGetStorageImpl());
  }
  return at::native::_lazy_clone(tensor);
}

// Torch keeps what a tensor leaves behind from being used again before another
// stream has done with it. Its allocator does so by the pointer, which a place
// in an arena is not: the arena's ledger does it in its place.
void LendMemory(const at::Tensor& tensor, c10::Stream stream) {
  if (!tensor.has_storage()) return;
  const c10::DataPtr& data = DataOf(*tensor.storage().unsafeGetStorageImpl());
  Parts parts{0, data.get_context(), data.get_deleter()};
  if (parts.release == &ReleaseByAddress) {
    BlocksByAddress& shared = Shared();
    const std::lock_guard lock(shared.mutex);
    parts = shared.blocks.at(parts.context);
  }
  engine::Ledger::Lend(parts.context, parts.release,
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
// In place of torch's for all backends.
TORCH_LIBRARY_IMPL(aten, CPU, library) {
  library.impl("_lazy_clone", TORCH_FN(reprise::bindings::LazyClone));
}
TORCH_LIBRARY_IMPL(aten, CUDA, library) {
  library.impl("_lazy_clone", TORCH_FN(reprise::bindings::LazyClone));
}
