// Calls of a tape that give views.

#ifndef REPRISE_BINDINGS_TORCH_REGION_TAPE_VIEWS_H_
#define REPRISE_BINDINGS_TORCH_REGION_TAPE_VIEWS_H_

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>

#include <span>

#include "bindings/torch/base/tensor_form.h"
#include "bindings/torch/region/tape_record.h"

namespace reprise::bindings {

// A new tensor of that form over memory that there is.
at::Tensor MakeOver(const c10::Storage& storage, const TensorForm& form);

// Finds the calls that give the same views each time (TapeCall::views), those
// among them that need not be made (TapeCall::only_views), and registers in
// memory that others can see (TapeRegister::outside). Once, of a record below
// autograd whose last call is written down. `storages`: by register, its
// storage when it came.
void NoteViews(TapeRecord& record,
               std::span<const c10::StorageImpl* const> storages);

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_REGION_TAPE_VIEWS_H_
