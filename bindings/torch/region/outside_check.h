// What came from outside, when a callable has ended.

#ifndef REPRISE_BINDINGS_TORCH_REGION_OUTSIDE_CHECK_H_
#define REPRISE_BINDINGS_TORCH_REGION_OUTSIDE_CHECK_H_

#include <ATen/core/Tensor.h>

#include <span>

#include "bindings/torch/region/backward_inside.h"
#include "bindings/torch/region/leaf_gradients.h"
#include "bindings/torch/region/tape_fault.h"
#include "bindings/torch/region/tape_names.h"
#include "bindings/torch/region/tape_record.h"

namespace reprise::bindings {

// Whether the callable has left tensors from outside as they were, in all that
// calls do not tell: refuses what another call would not do to them. Borrows
// all that it is made of. Once, when all outputs have their registers.
class OutsideCheck {
 public:
  // `inputs`: the callable's arguments.
  OutsideCheck(TapeRecord& record, TapeFault& fault, const TapeNames& names,
               const LeafGradients& gradients,
               std::span<const at::Tensor> inputs)
      : record_(record),
        fault_(fault),
        names_(names),
        gradients_(gradients),
        inputs_(inputs) {}

  // Of arguments, of what calls use, and of gradients among these that were
  // there before. True: one was given a history, which
  // the record's level does not track.
  bool CheckRegisters(const BackwardInside& backward);
  // Of what the callable may look at. What no call uses is watched from now on
  // (TapeRecord::watched).
  void CheckWatched(std::span<const at::Tensor> watched, WatchedBefore before);
  // Of a backward pass: it is given all that autograd saved in the forward
  // pass. What else it reads would be the recorded call's in each replay. (A
  // formula of torch's may make a number of the host without an operator.)
  void CheckBackwardReads();

 private:
  TapeRecord& record_;
  TapeFault& fault_;
  const TapeNames& names_;
  const LeafGradients& gradients_;
  const std::span<const at::Tensor> inputs_;
};

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_REGION_OUTSIDE_CHECK_H_
