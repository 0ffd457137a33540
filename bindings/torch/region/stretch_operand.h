// Where an operand of a call is, as sessions compare it.

#ifndef REPRISE_BINDINGS_TORCH_REGION_STRETCH_OPERAND_H_
#define REPRISE_BINDINGS_TORCH_REGION_STRETCH_OPERAND_H_

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>

#include <cstdint>
#include <optional>

#include "bindings/torch/hook/op_call.h"
#include "bindings/torch/runtime/thread_state.h"
#include "bindings/torch/runtime/torch_frontend.h"
#include "scheduler/session.h"

namespace reprise::bindings {

// Without an offset, where the tensor begins in its storage.
inline scheduler::Session::Operand Placed(
    const c10::TensorImpl& tensor, const engine::ValueRef& ref,
    std::optional<uint64_t> offset_bytes = {}) {
  const c10::StorageImpl& storage = *tensor.storage().unsafeGetStorageImpl();
  scheduler::Session::Operand placed{.ref = ref, .at = {}};
  placed.at.storage = TokenOf(storage);
  placed.at.base = BaseOf(storage);
  placed.at.offset_bytes = offset_bytes.value_or(
      static_cast<uint64_t>(tensor.storage_offset()) * tensor.itemsize());
  placed.at.storage_bytes = storage.nbytes();
  return placed;
}

inline uint64_t AlignmentOf(const scheduler::Session::Operand& operand) {
  return AlignmentClass(operand.at.address(), t_thread_state.kind);
}

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_REGION_STRETCH_OPERAND_H_
