// Writes down a callable's calls.

#ifndef REPRISE_BINDINGS_TORCH_REGION_TAPE_WRITER_H_
#define REPRISE_BINDINGS_TORCH_REGION_TAPE_WRITER_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <c10/core/TensorImpl.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bindings/torch/base/tensor_form.h"
#include "bindings/torch/region/backward_inside.h"
#include "bindings/torch/region/deciding_values.h"
#include "bindings/torch/region/formal_tensors.h"
#include "bindings/torch/region/leaf_gradients.h"
#include "bindings/torch/region/number_places.h"
#include "bindings/torch/region/number_writer.h"
#include "bindings/torch/region/read_check.h"
#include "bindings/torch/region/tape.h"
#include "bindings/torch/region/tape_effects.h"
#include "bindings/torch/region/tape_fault.h"
#include "bindings/torch/region/tape_matcher.h"
#include "bindings/torch/region/tape_names.h"
#include "bindings/torch/region/tape_record.h"
#include "bindings/torch/region/tape_surroundings.h"

namespace reprise::bindings {

// One recording: it is told of each call before and behind it, and of what the
// program does besides, and gives a tape at the end, or says why there is none.
// What cannot be written down is noted once, with the program's line; from then
// on nothing is looked at. One thread at a time (TapeRecorder sees to that).
class TapeWriter {
 public:
  struct Parts {
    TapeLevel level = TapeLevel::kBelowAutograd;
    TapePass pass = TapePass::kWhole;  // others are written below autograd
    std::vector<at::Tensor> inputs = {};
    std::vector<double> numbers = {};
    size_t seen = SIZE_MAX;  // see TapeNumbers::seen
    // Tensors from outside that the callable may look at, and whose gradients
    // it may read or drop, beside those that its calls use.
    std::vector<at::Tensor> watched = {};
    // What is expected to be written, one of these, which differ in what Python
    // reads; empty: nobody knows.
    std::vector<std::shared_ptr<const Tape>> expected = {};
  };
  explicit TapeWriter(Parts parts);
  TapeWriter(const TapeWriter&) = delete;
  TapeWriter& operator=(const TapeWriter&) = delete;

  TapeLevel level() const { return parts_.level; }

  // What another library's operator says of its results, which is about to be
  // called.
  void NoteDeclared(std::optional<c10::IValue> words) {
    reads_.NoteDeclared(std::move(words));
  }
  // An operator is about to be called: which call it is. kNoCall: it is one
  // that need not be made again.
  size_t Before(const c10::OperatorHandle& op,
                std::span<const c10::IValue> arguments);
  static constexpr size_t kNoCall = SIZE_MAX;
  void After(size_t call, std::span<const c10::IValue> results);
  // What was called, or is about to be, changes something that stays.
  bool HasEffects() const {
    return !fault_.refused() &&
           (!effects_.none() || gradients_.dropped_at().has_value());
  }
  bool MayVary(size_t call) const { return deciding_.MayVary(call); }

  // Of an operator that is made of others, which are what is written down.
  void NoteNumbers(std::span<const c10::IValue> arguments) {
    deciding_.NoteNumbers(arguments);
  }
  // Of an operator that decides by them: as if Python read them.
  void NoteValues(const c10::OperatorHandle& op,
                  std::span<const c10::IValue> arguments) {
    deciding_.NoteTensors(op, arguments);
  }
  // See TapeRecorder::NoteAsked.
  enum class Asked : uint8_t {
    kOffset,   // where in its storage it begins
    kMemory,   // whose view it is, how often its memory was written
    kHistory,  // which function of autograd's has made it
  };
  void NoteAsked(const c10::TensorImpl& tensor, Asked what);
  // See TapeRecorder::NoteHooksDisabled.
  void NoteHooksDisabled();
  // See TapeRecorder::NoteFunction.
  void NoteFunction() { backward_.NoteRun(); }
  // Of a function of the program's that is to run in each call: why it cannot
  // be run from here; empty: it can. And its call (TapeRecorder::Resume).
  std::string WhyNoFunction() const;
  void NotePython(std::span<const c10::IValue> arguments,
                  std::span<const c10::IValue> results);
  // The program has taken a random generator's state, or set it: as a call of
  // one of GeneratorStates' operators, which is not made.
  void NoteState(const c10::OperatorHandle& op,
                 std::span<const c10::IValue> arguments,
                 std::span<const c10::IValue> results);
  // What Python reads and computes.
  NumberWriter& numbers() { return numbers_; }
  // What happens beside calls, and cannot be written down.
  TapeFault& fault() { return fault_; }

  struct Outcome {
    // Null: see `reason`.
    std::shared_ptr<const Tape> tape;
    // What was expected was written: `tape` is both. Numbers in which the two
    // differed, and which were given, vary in it, and so on.
    bool as_expected = false;
    size_t expected = 0;  // which of them
    // It is not, because Python read another value.
    bool read_another = false;
    // Why nothing was written, or in what it differs from what was expected;
    // and the line of the program's where that was.
    std::string reason;
    std::string place;
    // The outputs have gradients to be tracked, which this level does not.
    bool tracks_gradients = false;
    bool draws = false;  // random numbers
    // Memory from outside, or gradients of tensors from outside.
    bool writes_outside = false;
    // What the callable writes beside its results: from outside, no argument.
    std::vector<at::Tensor> written = {};
    // Of each tensor that was saved: which of the tape's outputs behind the
    // callable's own it is.
    std::vector<size_t> saved = {};
    // Why no forward pass can be written down of the like; empty: nothing is
    // known that speaks against it.
    std::string no_forward_pass;
  };
  // Once, on the callable's thread; see TapeRecorder::End.
  Outcome End(std::span<const at::Tensor> outputs,
              const std::vector<bool>& computed, size_t saved_from);

 private:
  // Behind CheckSurroundings.
  size_t Write(const c10::OperatorHandle& op,
               std::span<const c10::IValue> arguments);
  // What Python asks it for is the same in each call of this form.
  bool IsOfThisCall(const c10::TensorImpl& tensor, Asked what) const;
  void CheckSurroundings(const c10::OperatorHandle& op,
                         std::span<const c10::IValue> arguments);
  // By a call that tracks gradients.
  void CheckHooks(std::span<const c10::IValue> arguments);
  // When the callable has ended, in this order.
  void NoteResults(std::span<const at::Tensor> outputs, size_t saved_from,
                   Outcome& outcome);
  void CheckEnd(std::span<const at::Tensor> outputs, Outcome& outcome);

  Parts parts_;
  TapeSurroundings surroundings_;
  TapeRecord record_;
  TapeFault fault_;
  TapeMatcher matcher_;
  LeafGradients gradients_;
  WatchedBefore watched_;
  TapeNames names_;
  TapeEffects effects_;
  DecidingValues deciding_;
  NumberWriter numbers_;
  ReadCheck reads_;
  BackwardInside backward_;
  FormalTensors formal_;
  uint64_t hooks_inside_ = 0;  // the question where some begin; 0: none do
  bool hooks_disabled_ = false;
  bool sets_states_ = false;  // of random generators
  // By call: what its schema says that it writes.
  std::vector<std::vector<std::pair<int32_t, WeakTensor>>> written_;
  NumberPlaces other_numbers_;
};

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_REGION_TAPE_WRITER_H_
