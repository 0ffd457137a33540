// What is written down of a callable's call.

#ifndef REPRISE_BINDINGS_TORCH_REGION_TAPE_RECORD_H_
#define REPRISE_BINDINGS_TORCH_REGION_TAPE_RECORD_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <unordered_set>
#include <utility>
#include <vector>

#include "bindings/torch/base/autocast_state.h"
#include "bindings/torch/base/tensor_form.h"
#include "bindings/torch/region/gradient_mode.h"
#include "bindings/torch/region/tape_arithmetic.h"
#include "bindings/torch/region/used_up_outputs.h"

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
  // Calls have looked at the form of this memory of the host, and at nothing
  // that it holds: it may hold anything.
  bool unread = false;
};

// A call's argument.
struct TapeArgument {
  enum class Kind : uint8_t {
    kValue,
    // Given at each call, by `index`; behind these what Python computed.
    kNumber,
    kNumbers,  // a list, in which `numbers` are such ones
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
  // Some tensor was named by where it lies, as one of TapePlacement::aliases.
  bool by_place = false;
  uint32_t index = 0;
  c10::IValue value;
  std::vector<int32_t> registers;  // or kUndefined, kNone
  // kNumbers: in place of which element, and which number.
  std::vector<std::pair<uint32_t, uint32_t>> numbers;

  // It is another one in each call.
  bool Varies() const {
    return kind == Kind::kNumber || kind == Kind::kNumbers;
  }
};

struct TapeCall {
  c10::OperatorHandle op;
  std::vector<TapeArgument> arguments = {};
  // Of its results that are tensors, in order, lists flattened: the register;
  // kUndefined: nobody uses it.
  std::vector<int32_t> results = {};
  std::vector<int32_t> last_uses = {};  // registers that no later call uses
  GradientMode grad_mode = GradientMode::kOff;
  // So it was on for the kernel. Other calls below autograd have it off.
  std::optional<AutocastState> autocast = {};
  // What it calls itself is none of the program's: it counts no writes and
  // gives no views that are known as such.
  bool below_views = false;
  // It writes tensors from outside by their `.data`: theirs are not counted.
  bool writes_data = false;
  // What Python read of it, and went on by; None: nothing.
  c10::IValue read = {};
  // That is what all its results are (WordsOf), which may depend on data.
  bool reads_results = false;
  // It reads a number that is known before the first call (TapeArithmetic).
  bool read_ahead = false;
  // It is made, too: an operator of another library may have written that.
  bool read_again = false;
  // Its results are views of the register that is its first argument, at the
  // same place in that memory in each call.
  bool views = false;
  // And nobody writes or hands them out, or views of them, but for detached
  // ones that are handed out: they are made from their forms.
  bool only_views = false;
  // It is aten::detach.
  bool detaches = false;
  // It is reprise::call_python: a function of the program's that runs each
  // time, as it would without a tape.
  bool calls_python = false;
};

// What a tensor of the host has to hold: an operator went by it.
struct TapeContent {
  int32_t reg = 0;
  at::Tensor content;  // contiguous
};

// Tensors of the host are compared by content up to this size.
inline constexpr int64_t kMostContentBytes = int64_t{64} << 10;

// What becomes of the gradient of a register's tensor.
struct TapeGradient {
  uint32_t of = 0;
  // kUndefined: none; kNone: it stays what it was.
  int32_t after = TapeArgument::kNone;

  bool operator==(const TapeGradient&) const = default;
};

// Where in memory the inputs lie: what a recording went by.
struct TapePlacement {
  // By input: the first with its storage.
  std::vector<uint32_t> sharing = {};
  // Where in its storage an argument begins is a call's number, or was asked.
  bool fixed_offsets = false;
  // Arguments of one storage lie to each other as they did.
  bool fixed_distances = false;
  // Pairs of inputs that begin in one place of one storage.
  std::set<std::pair<uint32_t, uint32_t>> in_one_place = {};
  // Of this recording, by registers: tensors were named as the first of two in
  // one place, and may have been the second. For these the two before hold.
  std::set<std::pair<int32_t, int32_t>> aliases = {};
};

// The numbers that are given at each call: what they were, and what is known of
// each.
struct TapeNumbers {
  static TapeNumbers Of(std::vector<double> values, size_t seen);

  // Once for each recording. Empty: its floats were ordinary ones.
  void NoteComputed(const std::vector<bool>& noted);
  // Another recording of the same calls has shown what it shows, too.
  void Join(const TapeNumbers& other);

  std::vector<double> values = {};
  // So many of them, the first ones, may be anywhere in the program's code.
  // Behind these come those that only torch's optimizers look at.
  size_t seen = 0;
  std::vector<bool> varies = {};
  // Of recordings with floats that note it: Python did something with it but to
  // hand it on.
  std::vector<bool> computed = {};
  // In all recordings: an operator that is made of others was given it, which
  // may decide by it what it calls.
  std::vector<bool> decides = {};
  bool with_noting_floats = false;
  bool with_plain_floats = false;
};

// A recorded call of a Python callable, as the calls of operators that it made.
// TapeWriter fills one in, TapeMatcher compares two, and a Tape keeps one as
// it is then. A value: copies share tensors of the host that are never written.
struct TapeRecord {
  // Null: it is no result.
  const TapeCall* MakerOf(int32_t reg) const;
  // What calls of [first, end) make and somebody uses behind them, and what
  // that is a view of: results; and the calls that give the views.
  struct Used {
    std::unordered_set<int32_t> results;
    std::vector<size_t> views;  // ascending
  };
  Used UsedBehind(size_t first, size_t end) const;
  // Some call is given a gradient that there was before.
  bool ReadsGradients() const;

  // About so many bytes of memory, with what a tape knows of its stretches.
  size_t Bytes() const;

  // Once, behind the last call.
  void NoteUses();
  // Another recording of the same calls has shown what it shows, too. Behind
  // TapeMatcher.
  void Join(TapeRecord&& other);
  // A tensor is named as the first of these, and may be the second: arguments
  // lie to each other as they do.
  void NoteAlias(int32_t first, int32_t second);
  // These begin in two places of one memory.
  bool LieApart(int32_t first, int32_t second) const;

  TapeLevel level = TapeLevel::kBelowAutograd;
  uint64_t modes = 0;  // ModesWord()
  // kForward: a node has to do with the arguments' gradients.
  TapePass pass = TapePass::kWhole;
  std::vector<TapeRegister> registers = {};
  std::vector<int32_t> inputs = {};  // registers
  TapePlacement placement = {};
  TapeNumbers numbers = {};
  std::vector<TapeCall> calls = {};
  std::vector<TapeContent> contents = {};  // before the first call
  TapeArithmetic arithmetic = {};
  // The first call that writes something from outside, or changes something
  // else that cannot be put back.
  size_t first_effect = SIZE_MAX;
  // Before which call the program drops gradients that it replaces.
  size_t drops_gradients_at = 0;
  std::vector<TapeGradient> gradients = {};
  WatchedTensors watched = {};        // that are no registers
  std::vector<int32_t> outputs = {};  // registers
  // Of these, the first one that autograd is to save: nobody else sees it.
  size_t saved_from = SIZE_MAX;
  UsedUpOutputs used_up = {};
};

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_REGION_TAPE_RECORD_H_
