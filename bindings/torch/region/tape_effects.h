// What calls change that stays.

#ifndef REPRISE_BINDINGS_TORCH_REGION_TAPE_EFFECTS_H_
#define REPRISE_BINDINGS_TORCH_REGION_TAPE_EFFECTS_H_

#include <ATen/core/ivalue.h>
#include <c10/core/StorageImpl.h>

#include <cstddef>
#include <span>
#include <unordered_set>

#include "bindings/torch/region/tape_names.h"
#include "bindings/torch/region/tape_record.h"

namespace reprise::bindings {

// Of the calls of a recording so far: which memory from outside they write,
// whether they draw random numbers. Notes the first call that has an effect
// which stays (TapeRecord::first_effect). Random generators of torch's are put
// back where a run begins again (KeptGenerator), so that what they have drawn
// does not stay. Borrows all that it is made of. One thread at a time.
class TapeEffects {
 public:
  TapeEffects(TapeRecord& record, const TapeNames& names)
      : record_(record), names_(names) {}

  // The call is about to be made; its arguments have their registers.
  void Note(size_t call, std::span<const c10::IValue> arguments);
  // It is a function of the program's: what it does besides cannot be done
  // twice, nor looked at.
  void NotePython(size_t call);

  // The program's hooks of saved tensors may be called within it.
  void NoteHooks(size_t call);

  // No call has changed anything that stays.
  bool none() const { return pure_; }
  bool draws() const { return draws_; }
  bool calls_python() const { return calls_python_; }
  // Memory from outside.
  bool WritesTo(const c10::StorageImpl* storage) const {
    return written_outside_.contains(storage);
  }
  bool writes_outside() const { return !written_outside_.empty(); }

 private:
  // The call changes something that stays.
  void NoteChange(size_t call);

  TapeRecord& record_;
  const TapeNames& names_;
  bool pure_ = true;
  bool draws_ = false;
  bool calls_python_ = false;
  std::unordered_set<const c10::StorageImpl*> written_outside_;
};

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_REGION_TAPE_EFFECTS_H_
