// Calls of operators, written down once and made again without Python.

#ifndef REPRISE_BINDINGS_TORCH_REGION_TAPE_H_
#define REPRISE_BINDINGS_TORCH_REGION_TAPE_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <c10/core/Device.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/TensorImpl.h>
#include <c10/core/UndefinedTensorImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <unordered_set>
#include <utility>
#include <vector>

#include "bindings/torch/base/autocast_state.h"
#include "bindings/torch/base/tensor_form.h"

namespace reprise::bindings {

// At which layer of the dispatcher calls are written down, and made again.
enum class TapeLevel : uint8_t {
  // What autograd and autocast have made of the program's calls, those of
  // backward passes included. Made again, they track no gradients.
  kBelowAutograd,
  // As the program makes them: autograd and autocast do their work each time.
  kAboveAutograd,
};

// What of a callable's work is written down.
enum class TapePass : uint8_t {
  kWhole,
  // A forward pass whose history is not the tape's business: somebody else will
  // give its outputs one, from what autograd has saved.
  kForward,
  // What autograd's engine does for such a one, from what was saved.
  kBackward,
};

// A new tensor of that form over memory that there is.
at::Tensor MakeOver(const c10::Storage& storage, const TensorForm& form);

// A tensor is named by its register. Each has one origin:
struct TapeRegister {
  enum class Origin : uint8_t {
    kInput,     // given at each call; `index` is which, the first of several
    kForeign,   // from outside, the same object at each call: a parameter
    kGradient,  // what the register `index` has as its gradient
    kConstant,  // of the host, new at each call, with the same content
    kResult,    // a call's
  };
  Origin origin = Origin::kResult;
  // kResult: the first call whose result it is.
  uint32_t index = 0;
  // Its memory is given, from outside, or handed out.
  bool outside = false;
  bool has_gradient = false;          // before the first call
  TensorForm form;                    // when it came
  std::optional<WeakTensor> foreign;  // kForeign
  at::Tensor content;  // kConstant; also of foreign ones that may become it
};

// A call's argument.
struct TapeArgument {
  enum class Kind : uint8_t {
    kValue,
    kNumber,  // one of those that are given at each call; `index` is which
    kTensor,
    kTensors,
    kOptionalTensors,
  };
  static constexpr int32_t kUndefined = -1;
  static constexpr int32_t kNone = -2;

  Kind kind = Kind::kValue;
  // kValue, kNumber: it is a tensor that stands for a number of Python's.
  bool wrapped = false;
  bool negated = false;  // kNumber
  uint32_t index = 0;
  c10::IValue value;
  std::vector<int32_t> registers;  // or kUndefined, kNone
};

struct TapeCall {
  c10::OperatorHandle op;
  std::vector<TapeArgument> arguments = {};
  // Of its results that are tensors, in order, lists flattened: the register;
  // kUndefined: nobody uses it.
  std::vector<int32_t> results = {};
  std::vector<int32_t> last_uses = {};  // registers that no later call uses
  bool grad_mode = false;
  // Its own kernel may call functions of autocast, which was on so. Calls below
  // autograd have it off otherwise, as autocast's kernels do.
  std::optional<AutocastState> autocast = {};
  // What it calls itself is none of the program's: it counts no writes and
  // gives no views that are known as such.
  bool below_views = false;
  // What Python read of it, and went on by; None: nothing.
  c10::IValue read = {};
  // Its results are views of the register that is its first argument, at the
  // same place in that memory in each call.
  bool views = false;
  // And nobody writes or hands them out, or views of them: they are made from
  // their forms.
  bool only_views = false;
  // It is reprise::call_python: a function of the program's that runs each
  // time, as it would without a tape.
  bool calls_python = false;
};

// What a tensor of the host has to hold: an operator went by it.
struct TapeContent {
  int32_t reg = 0;
  at::Tensor content;  // contiguous
};

// What becomes of the gradient of a register's tensor.
struct TapeGradient {
  uint32_t of = 0;
  // kUndefined: none; kNone: it stays what it was.
  int32_t after = TapeArgument::kNone;

  bool operator==(const TapeGradient&) const = default;
};

// Modes and switches of torch under which a callable may make other calls:
// gradients, inference, autocast, what operators read (switches.h). About 200
// ns.
uint64_t ModesWord();

// Where a tape is made again: tensors and numbers of a call, and the modes of
// its thread, which are read once for all tapes that are asked.
struct TapeInputs {
  std::span<const at::Tensor> tensors;
  std::span<const double> numbers;
  uint64_t modes = ModesWord();
};

class TapeStretches;
class TapeValues;
enum class TapeRan : uint8_t;

// A recorded call of a Python callable, as the calls of operators that it made.
// Made by TapeRecorder, and immutable then.
//
// RunTape (tape_run.h) makes the same calls through the dispatcher, on tensors
// that stand where the recorded ones stood: what views, aliases, writes, random
// numbers and errors are is what it is in eager. Values are dropped at their
// last use. Any number of threads.
class Tape {
 public:
  TapeLevel level() const { return level_; }
  size_t calls() const { return calls_.size(); }
  // Some are of operators that are not torch's own: their kernels may be
  // Python's, which reads what it likes.
  bool calls_others() const;
  // A formula of its arguments alone. By no weight is known where it begins, so
  // its runs tell sessions.
  bool tells_passes() const { return tells_passes_; }

  // It was recorded from such tensors and numbers, and all that it names is
  // there and has the form that it had. About 10 ns a tensor. What tensors of
  // the host hold is compared where operators go by it: see reads_contents().
  bool Fits(const TapeInputs& inputs) const {
    return FitsNumbers(inputs) && FitsTensors(inputs, Gone::kMissed) &&
           FitsContents(inputs);
  }
  // Who records such a call is to find the same calls, as far as is known:
  // numbers apart, and what came from outside and may come anew each time.
  bool Resembles(const TapeInputs& inputs) const {
    return inputs.numbers.size() == numbers_.size() &&
           FitsTensors(inputs, Gone::kMayBeConstant) && FitsContents(inputs);
  }
  // Fits looks at memory of the host: what has run ahead there is to be taken
  // back before.
  bool reads_contents() const { return !contents_.empty(); }
  bool FitsNumbers(const TapeInputs& inputs) const;

  // It was recorded with ordinary floats and with ones that note what Python
  // does with them, and both made these calls; or it takes none.
  bool has_both_floats() const {
    return numbers_.empty() || (with_noting_floats_ && with_plain_floats_);
  }

  // What came from outside and is no input: parameters, say.
  std::span<const WeakTensor> foreign() const { return given_.tensors; }

 private:
  friend class TapeRecorder;
  friend class TapeMatcher;
  friend class TapeStretches;
  friend class TapeValues;
  friend TapeRan RunTape(const Tape& tape, const TapeInputs& inputs,
                         std::vector<at::Tensor>& outputs, TapeStretches* known,
                         bool held);

  // Of operators that are no views; a shorter formula is a part of what is
  // round it, rather.
  static constexpr ptrdiff_t kFewestCallsToTell = 64;

  // When all registers, and calls, are what they are.
  void NoteGiven();
  // Once, behind the last call.
  void NoteUses();
  // Once for each recording. Empty: its floats were ordinary ones.
  void NoteComputed(const std::vector<bool>& computed);
  // The same, below autograd. By register: its storage when it came.
  void NoteViews(std::span<const c10::StorageImpl* const> storages);

  bool GivesSameViews(
      const TapeCall& call, size_t index,
      std::span<const c10::StorageImpl* const> storages,
      const std::unordered_set<const c10::StorageImpl*>& given) const;

  // What of a tensor from outside that is gone, and whose content is known.
  enum class Gone : uint8_t { kMissed, kMayBeConstant };
  bool FitsTensors(const TapeInputs& inputs, Gone gone) const;
  // Behind FitsTensors. What is gone is not looked at.
  bool FitsContents(const TapeInputs& inputs) const;
  // An input, or one from outside that is there.
  const c10::TensorImpl& Given(size_t reg, const TapeInputs& inputs) const;
  // The same tensors, and tensors with the same memory, are given in the same
  // places.
  bool GivenAlike(std::span<const at::Tensor> tensors) const;
  // Those in one memory lie in it as far from each other, if that matters.
  bool GivenAsFarApart(std::span<const at::Tensor> tensors) const;
  // Null: it is no result.
  const TapeCall* MakerOf(int32_t reg) const;
  // What calls of [first, end) make and somebody uses behind them, and what
  // that is a view of: results; and the calls that give the views.
  struct Used {
    std::unordered_set<int32_t> results;
    std::vector<size_t> views;  // ascending
  };
  Used UsedBehind(size_t first, size_t end) const;

  TapeLevel level_ = TapeLevel::kBelowAutograd;
  uint64_t modes_ = 0;  // ModesWord()
  // kForward: a node has to do with the arguments' gradients.
  TapePass pass_ = TapePass::kWhole;
  // Where in its storage an argument begins is a call's number, or was asked.
  bool fixed_offsets_ = false;
  // Arguments of one storage lie to each other as they did.
  bool fixed_distances_ = false;
  // Pairs of inputs that begin in one place of one storage.
  std::set<std::pair<uint32_t, uint32_t>> in_one_place_;
  std::vector<TapeRegister> registers_;
  // Registers that are no results, by origin.
  struct GivenRegisters {
    std::vector<uint32_t> inputs;
    std::vector<uint32_t> foreign;
    std::vector<WeakTensor> tensors;  // these
    std::vector<uint32_t> gradients;
    std::vector<uint32_t> constants;
  };
  GivenRegisters given_;
  WatchedTensors foreign_;         // of them
  std::vector<int32_t> inputs_;    // registers
  std::vector<uint32_t> sharing_;  // by input: the first one with its storage
  std::vector<double> numbers_;
  std::vector<bool> varies_;  // by number
  // By number, of recordings with floats that note it: Python did something
  // with it but to hand it on.
  std::vector<bool> computed_;
  // By number, in all recordings: an operator that is made of others was given
  // it, which may decide by it what it calls.
  std::vector<bool> decides_;
  bool with_noting_floats_ = false;
  bool with_plain_floats_ = false;
  std::vector<TapeCall> calls_;
  std::vector<TapeContent> contents_;  // before the first call
  bool tells_passes_ = false;
  // The first call that writes something from outside or draws random numbers.
  size_t first_effect_ = SIZE_MAX;
  // Before which call the program drops gradients that it replaces.
  size_t drops_gradients_at_ = 0;
  std::vector<TapeGradient> gradients_;
  WatchedTensors watched_;        // that are no registers
  std::vector<int32_t> outputs_;  // registers
  // Of these, the first one that autograd is to save: nobody else sees it.
  size_t saved_from_ = SIZE_MAX;
};

// Nothing on this thread or about these tensors keeps calls from being written
// down, or made, by the dispatcher alone: no mode of Python's that is enabled,
// no transform of functorch's, no wrapped tensor.
bool IsOrdinary(std::span<const at::Tensor> tensors);

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_REGION_TAPE_H_
