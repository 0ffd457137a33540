// Values of the host that decide which calls are made.

#ifndef REPRISE_BINDINGS_TORCH_REGION_DECIDING_VALUES_H_
#define REPRISE_BINDINGS_TORCH_REGION_DECIDING_VALUES_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <c10/core/StorageImpl.h>

#include <cstddef>
#include <span>
#include <string>
#include <unordered_set>

#include "bindings/torch/region/tape_effects.h"
#include "bindings/torch/region/tape_fault.h"
#include "bindings/torch/region/tape_names.h"
#include "bindings/torch/region/tape_record.h"

namespace reprise::bindings {

// Notes in a recording what has to be the same again for its calls to be made
// again: the numbers (TapeNumbers::decides) and the contents of tensors of the
// host (TapeRecord::contents) by which operators decide. Borrows all that it is
// made of. One thread at a time.
class DecidingValues {
 public:
  // `inputs`: the callable's arguments.
  DecidingValues(TapeRecord& record, TapeFault& fault, TapeNames& names,
                 const TapeEffects& effects, std::span<const at::Tensor> inputs)
      : record_(record),
        fault_(fault),
        names_(names),
        effects_(effects),
        inputs_(inputs) {}

  // Of an operator that is made of others, which are what is written down.
  void NoteNumbers(std::span<const c10::IValue> arguments);
  // Of an operator that decides by them: as if Python read them.
  void NoteTensors(const c10::OperatorHandle& op,
                   std::span<const c10::IValue> arguments);

  // Of an operator whose results are as large as data tells (SizesByData): that
  // follows from tensors of the host alone that are no arguments of the
  // callable, whose contents are noted. False: the recording is to be refused.
  bool KnowsSizes(const c10::OperatorHandle& op,
                  std::span<const c10::IValue> arguments);

  // A float among that call's arguments, a number that torch has made a tensor
  // of included, may be one that is given at each call: it may be another one
  // then, by which the operator raises. As TapeMatcher takes floats for them.
  bool MayVary(size_t call) const;

 private:
  using StorageSet = std::unordered_set<const c10::StorageImpl*>;

  // The calls so far have its content follow from that of what there was before
  // the first one, which is noted.
  void NoteContentsBehind(const at::Tensor& tensor, const std::string& reader);
  // What the calls so far have a content follow from.
  struct Origins {
    StorageSet storages;
    bool drawn = false;      // random numbers, or by the program's code
    bool unwritten = false;  // or memory that no call may have written
  };
  // Numbers that these calls were given decide, too.
  Origins FindOrigins(const c10::StorageImpl* storage);
  // The tensor that stands for a register before the first call, if that is one
  // of the host, not large, and no call has written it. Of one that has gone
  // (`1` of `mask[:3] = 1`), what it held. Null: it is none.
  const c10::TensorImpl* LookBefore(size_t reg) const;
  // False: some of that memory was not there before the first call, or is an
  // argument's, where these do not count.
  bool NoteContentsOf(const StorageSet& from, bool inputs_too);

  TapeRecord& record_;
  TapeFault& fault_;
  TapeNames& names_;
  const TapeEffects& effects_;
  const std::span<const at::Tensor> inputs_;
};

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_REGION_DECIDING_VALUES_H_
