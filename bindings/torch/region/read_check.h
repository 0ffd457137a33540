// Values that Python reads while calls are written down.

#ifndef REPRISE_BINDINGS_TORCH_REGION_READ_CHECK_H_
#define REPRISE_BINDINGS_TORCH_REGION_READ_CHECK_H_

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "bindings/torch/region/number_writer.h"
#include "bindings/torch/region/refusals.h"
#include "bindings/torch/region/result_words.h"
#include "bindings/torch/region/tape_effects.h"
#include "bindings/torch/region/tape_fault.h"
#include "bindings/torch/region/tape_record.h"

namespace reprise::bindings {

// Of one recording: which calls may hand data to the host. A run of the tape
// reads the value, too, and goes back to the callable where it is another one:
// so it may be read while all that was called can be called once more. Behind
// that only numbers may be read that are known before the first call
// (NumberWriter). Borrows all that it is made of. One thread at a time.
class ReadCheck {
 public:
  ReadCheck(TapeRecord& record, TapeFault& fault, const TapeEffects& effects,
            NumberWriter& numbers)
      : record_(record), fault_(fault), effects_(effects), numbers_(numbers) {}

  // A call that hands data out is about to be made. Refuses what cannot be.
  void Before(const c10::OperatorHandle& op,
              std::span<const c10::IValue> arguments);
  // Any other call is about to be made. What it gives may depend on data: in
  // its sizes, if torch says so; if it is another library's, unless it gives
  // what it `declared` without any (DeclaredWords).
  void NoteDeclared(std::optional<c10::IValue> words) {
    declared_ = std::move(words);
  }
  // False: sizes depend on data, and no run may go back from here: whether they
  // are `known` all the same is to be said. Refuses the call where they are
  // not.
  bool BeforeOther(const c10::OperatorHandle& op,
                   std::span<const c10::IValue> arguments);
  void SettleSizes(const c10::OperatorHandle& op, bool known);
  // The call was made.
  void After(size_t call, std::span<const c10::IValue> results);

  // The first call behind all reads.
  size_t end() const { return end_; }
  // Why no forward pass of one node can stand for the calls; empty: nothing
  // speaks against it.
  std::string WhyNoForwardPass() const;

 private:
  // Why no run may go back from here; nothing: it may.
  std::optional<Refusal> WhyNoRead() const;
  std::string ReasonOf(const c10::OperatorHandle& op, Refusal what, Refusal why,
                       bool of_counter = false) const;

  TapeRecord& record_;
  TapeFault& fault_;
  const TapeEffects& effects_;
  NumberWriter& numbers_;
  size_t end_ = 0;
  // Of the call that is about to be made.
  enum class Results : uint8_t { kNone, kSizes, kOthers };
  Results results_ = Results::kNone;
  PlacesOfData given_;                   // its arguments'
  std::optional<Refusal> why_no_read_;   // before it
  std::optional<c10::IValue> declared_;  // of kOthers
  std::string behind_draws_;  // which operator has read there; empty: none
};

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_REGION_READ_CHECK_H_
