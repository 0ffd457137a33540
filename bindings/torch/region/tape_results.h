// What a callable leaves.

#ifndef REPRISE_BINDINGS_TORCH_REGION_TAPE_RESULTS_H_
#define REPRISE_BINDINGS_TORCH_REGION_TAPE_RESULTS_H_

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "bindings/torch/region/backward_inside.h"
#include "bindings/torch/region/leaf_gradients.h"
#include "bindings/torch/region/tape_effects.h"
#include "bindings/torch/region/tape_fault.h"
#include "bindings/torch/region/tape_names.h"
#include "bindings/torch/region/tape_record.h"

namespace reprise::bindings {

// Names gradients, outputs and what autograd saves in a recording whose last
// call is written down, in this order. Refuses those that the calls alone do
// not give. Borrows all that it is made of. One thread at a time.
class TapeResults {
 public:
  // `inputs`: the callable's arguments.
  TapeResults(TapeRecord& record, TapeFault& fault, TapeNames& names,
              LeafGradients& gradients, std::span<const at::Tensor> inputs)
      : record_(record),
        fault_(fault),
        names_(names),
        gradients_(gradients),
        inputs_(inputs) {}

  // `behind_reads`: the first call behind all that Python has read. True: one
  // has a history, which the record's level does not track.
  bool NoteGradients(size_t behind_reads, const BackwardInside& backward);
  // All that are the callable's, once, behind the gradients. True: one has a
  // history, which the record's level does not track.
  bool NoteOutputs(std::span<const at::Tensor> outputs,
                   const BackwardInside& backward);
  bool NoteOutput(const at::Tensor& output, const BackwardInside& backward);
  // Of a forward pass, behind all outputs of its own: which output behind these
  // it is. Nothing: it is refused.
  std::optional<size_t> NoteSaved(const at::Tensor& saved);
  // Of a forward pass: what it writes from outside, which is no argument.
  std::vector<at::Tensor> FindWritten(const TapeEffects& effects);

 private:
  TapeRecord& record_;
  TapeFault& fault_;
  TapeNames& names_;
  LeafGradients& gradients_;
  const std::span<const at::Tensor> inputs_;
};

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_REGION_TAPE_RESULTS_H_
