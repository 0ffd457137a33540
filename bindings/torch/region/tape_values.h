// What there is while a tape is run.

#ifndef REPRISE_BINDINGS_TORCH_REGION_TAPE_VALUES_H_
#define REPRISE_BINDINGS_TORCH_REGION_TAPE_VALUES_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>
#include <c10/core/TensorImpl.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "bindings/torch/region/tape.h"

namespace reprise::bindings {

// The tensors of one run of a tape, by register. Borrows the tape.
//
// Torch takes Python's lock for the first reference to a tensor that only
// Python holds, and again when it is given up. Where somebody else holds those
// from outside (parameters), this looks at them, and takes one when a call is
// given it.
class TapeValues {
 public:
  // `held`: the caller keeps what comes from outside from going.
  TapeValues(const Tape& tape, bool held);

  // All that is given is there. False: some of it has gone.
  bool Begin(const TapeInputs& inputs);

  // Behind Begin: what `other` has of the first registers, which are the same
  // ones there.
  void GoOnFrom(TapeValues& other, size_t registers);

  // What a call has made, or is to make.
  at::Tensor& operator[](int32_t reg) {
    return made_[static_cast<size_t>(reg)];
  }
  // What a call is given. Undefined: nothing is there, or `reg` is negative.
  const at::Tensor& Take(int32_t reg);
  // All that comes from outside, and is not taken yet. False: some has gone.
  bool TakeAll();
  // What is there, not held; null: nothing.
  c10::TensorImpl* Look(int32_t reg) const;

  // Makes the call, and keeps its results. False: it has read another value.
  // `stack` is anything; its memory is used again.
  bool Make(const TapeCall& call, const TapeInputs& inputs,
            torch::jit::Stack& stack);
  // The other value.
  const c10::IValue& read() const { return read_; }
  // Makes the results of a call that only gives views, from their forms.
  void MakeViews(const TapeCall& call);
  // What no call behind this one uses.
  void DropBehind(const TapeCall& call);
  // Those that the tape replaces.
  void DropGradients() const;

 private:
  c10::IValue ValueOf(const TapeArgument& argument, const TapeInputs& inputs);

  const Tape::Given& given_;
  const TapeRecord& record_;
  const bool held_;
  // The thread's keys of the dispatcher when this was made.
  const c10::impl::LocalDispatchKeySet surroundings_;
  std::vector<at::Tensor> made_;
  c10::IValue read_;
};

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_REGION_TAPE_VALUES_H_
