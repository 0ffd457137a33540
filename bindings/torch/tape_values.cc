#include "bindings/torch/tape_values.h"

#include <c10/util/Exception.h>

#include <utility>

#include "bindings/torch/plain_tensor.h"

namespace reprise::bindings {
namespace {

using Origin = TapeRegister::Origin;

}  // namespace

TapeValues::TapeValues(const Tape& tape, bool held)
    : tape_(tape),
      held_(held),
      surroundings_(c10::impl::tls_local_dispatch_key_set()),
      made_(tape.registers_.size()) {}

bool TapeValues::Begin(const TapeInputs& inputs) {
  const Tape::GivenRegisters& given = tape_.given_;
  for (const uint32_t i : given.inputs) {
    made_[i] = inputs.tensors[tape_.registers_[i].index];
  }
  if (!held_ && !TakeAll()) return false;
  for (const uint32_t i : given.gradients) {
    const auto of = static_cast<int32_t>(tape_.registers_[i].index);
    made_[i] = Look(of)->grad();
    if (!made_[i].defined()) return false;
  }
  for (const uint32_t i : given.constants) {
    // Calls may write it, or hand it out.
    made_[i] =
        CopyHostTensor(*tape_.registers_[i].content.unsafeGetTensorImpl());
  }
  return true;
}

const at::Tensor& TapeValues::Take(int32_t reg) {
  static const at::Tensor undefined;
  if (reg < 0) return undefined;
  at::Tensor& made = (*this)[reg];
  const TapeRegister& of = tape_.registers_[static_cast<size_t>(reg)];
  if (made.defined() || of.origin != Origin::kForeign) return made;
  made = at::Tensor(of.foreign->lock());
  TORCH_INTERNAL_ASSERT(made.defined());
  return made;
}

bool TapeValues::TakeAll() {
  const Tape::GivenRegisters& given = tape_.given_;
  for (size_t k = 0; k < given.foreign.size(); ++k) {
    if (made_[given.foreign[k]].defined()) continue;
    auto tensor = given.tensors[k].lock();
    if (!tensor) return false;
    made_[given.foreign[k]] = at::Tensor(std::move(tensor));
  }
  return true;
}

c10::TensorImpl* TapeValues::Look(int32_t reg) const {
  if (reg < 0) return nullptr;
  const auto index = static_cast<size_t>(reg);
  if (made_[index].defined()) return made_[index].unsafeGetTensorImpl();
  const TapeRegister& of = tape_.registers_[index];
  return of.origin == Origin::kForeign ? of.foreign->_unsafe_get_target()
                                       : nullptr;
}

}  // namespace reprise::bindings
