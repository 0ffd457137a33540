// Writes a tape while the program runs.

#ifndef REPRISE_BINDINGS_TORCH_REGION_TAPE_RECORDER_H_
#define REPRISE_BINDINGS_TORCH_REGION_TAPE_RECORDER_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "bindings/torch/base/torch_versions.h"
#include "bindings/torch/region/tape.h"
#include "bindings/torch/region/tape_matcher.h"
#include "bindings/torch/region/tape_surroundings.h"

namespace reprise::bindings {

// The program has set hooks on that node of autograd's.
bool HasHooks(torch::autograd::Node& node);

// From Begin to End, calls of operators by this thread, and by threads of
// autograd's that work for it, are written down behind a key of the dispatcher:
//
//   auto recorder = TapeRecorder::Begin(...);   null: somebody else records
//   the callable runs
//   TapeRecorder::Outcome outcome = recorder->End(outputs);
//
// One at a time in a process. What cannot be written down is noted once, with
// the program's line, and the callable goes on as if nobody looked.
class TapeRecorder {
 public:
  struct Parts {
    TapeLevel level = TapeLevel::kBelowAutograd;
    TapePass pass = TapePass::kWhole;  // others are written below autograd
    std::vector<at::Tensor> inputs = {};
    std::vector<double> numbers = {};
    // Tensors from outside that the callable may look at, and whose gradients
    // it may read or drop, beside those that its calls use.
    std::vector<at::Tensor> watched = {};
    // What is expected to be written, one of these, which differ in what Python
    // reads; empty: nobody knows.
    std::vector<std::shared_ptr<const Tape>> expected = {};
  };
  // The callable's thread.
  static std::unique_ptr<TapeRecorder> Begin(Parts parts);
  // As End, without an outcome.
  ~TapeRecorder();
  TapeRecorder(const TapeRecorder&) = delete;
  TapeRecorder& operator=(const TapeRecorder&) = delete;

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
    // What the callable writes beside its results: from outside, no argument.
    std::vector<at::Tensor> written = {};
    // Of each tensor that was saved: which of the tape's outputs behind the
    // callable's own it is.
    std::vector<size_t> saved = {};
    // Why no forward pass can be written down of the like; empty: nothing is
    // known that speaks against it.
    std::string no_forward_pass;
  };
  // On the thread of Begin, with what the callable returned, and behind that,
  // from `saved_from` on, what autograd has saved of a forward pass.
  // `computed`: see TapeMatcher::EndDiffers. Empty: the callable was given
  // ordinary floats, which do not tell, and what is expected says it.
  Outcome End(std::span<const at::Tensor> outputs,
              const std::vector<bool>& computed, size_t saved_from = SIZE_MAX);

  // Calls by this thread would be written down now, were there any: it is not
  // inside of one.
  static bool RecordsHere();
  // The program does what no call of an operator tells (it takes an address,
  // records an event, launches by itself). Nothing unless RecordsHere.
  static void NoteOutside(const char* what);
  // Python asks a tensor for what its form does not tell, which is another
  // thing in another call if the tensor comes from outside. As NoteOutside.
  enum class Asked : uint8_t {
    kOffset,   // where in its storage it begins
    kMemory,   // whose view it is, how often its memory was written
    kHistory,  // which function of autograd's has made it
  };
  static void NoteAsked(const c10::TensorImpl& tensor, Asked what);
  // It is about to disable hooks of saved tensors, which is an error where some
  // are set, as those are by which a forward pass is written down: these go
  // before. Under Python's lock.
  static void NoteHooksDisabled();

  // Round a function of the program's that is to run in each call, on the
  // thread of Begin: what it calls is not written down. Why it cannot be run in
  // each call from here ("": it can); nothing: nobody records here.
  static std::optional<std::string> Pause();
  // The call, reprise::call_python's, and what it gives: new tensors. `reason`:
  // why it cannot be one; empty: it can.
  static void Resume(std::span<const c10::IValue> arguments,
                     std::span<const c10::IValue> results,
                     const std::string& reason);

  // From now on, reprise::behind_effects is called with the name of each
  // operator that is written down, may not be made again or stands behind one,
  // and may raise an error (MayRaise): Python may look at the frames that led
  // there. Without a lock.
  static void TellPythonOfEffects();
  // The host waits for a device, on any thread.
  static void NoteWait();

  // The dispatcher's, of any operator.
  static void Record(TapeLevel level, const c10::OperatorHandle& op,
                     c10::DispatchKeySet keys, torch::jit::Stack* stack);

 private:
  using Node = torch::autograd::Node;

  explicit TapeRecorder(Parts parts);

  // Which call it is.
  size_t Before(const c10::OperatorHandle& op,
                std::span<const c10::IValue> arguments);
  void After(size_t call, std::span<const c10::IValue> results);
  TapeArgument Argument(const c10::IValue& value);
  // The register that stands for that tensor now.
  int32_t RegisterOf(const at::Tensor& tensor);
  int32_t Add(const at::Tensor& tensor, TapeRegister::Origin origin,
              uint32_t index);
  int32_t AddResult(const at::Tensor& tensor, size_t call);
  int32_t AddForeign(const at::Tensor& tensor);
  // Registers in whose place the tensor lies, in their form; ascending.
  std::vector<int32_t> FindAliases(const at::Tensor& tensor) const;
  // It has the memory and the layout that operators have given it.
  bool IsWhereItWas(int32_t reg, const at::Tensor& tensor) const;
  // A tensor is an alias of one of these: of which one is known only while
  // arguments lie to each other as they do.
  void NoteOneOf(std::span<const int32_t> aliases);
  // What Python asks it for is the same in each call of this form.
  bool IsOfThisCall(const c10::TensorImpl& tensor, Asked what) const;
  // Above autograd: Python has given it no other history than calls did.
  void NoteHistory(int32_t reg, const at::Tensor& tensor);
  bool HasItsHistory(int32_t reg, const at::Tensor& tensor) const;
  bool HasHooks() const;
  void CheckSurroundings(const c10::OperatorHandle& op,
                         std::span<const c10::IValue> arguments);
  // Python reads a value: what was called before has changed nothing, so that
  // it may be called once more where the value is another one.
  bool MayRead() const { return pure_ && !in_backward_; }
  // What was called, or is about to be, changes something that stays.
  bool HasEffects() const {
    return refused_.empty() && (!pure_ || drops_gradients_at_.has_value());
  }
  // A float among that call's arguments, a number that torch has made a tensor
  // of included, may be one that is given at each call: it may be another one
  // then, by which the operator raises. As TapeMatcher takes floats for them.
  bool MayVary(size_t call) const;
  // Of an operator that is made of others, which are what is written down.
  void NoteNumbers(std::span<const c10::IValue> arguments);
  void NoteEffects(const c10::OperatorHandle& op, size_t call,
                   std::span<const c10::IValue> arguments);
  // Of an operator that decides by them: as if Python read them.
  void NoteValues(const c10::OperatorHandle& op,
                  std::span<const c10::IValue> arguments);
  // The calls so far have them follow from the content of what there was before
  // the first one, which is noted.
  void NoteContentsBehind(const at::Tensor& tensor, const std::string& reader);
  // By a call that tracks gradients.
  void CheckHooks(std::span<const c10::IValue> arguments);
  void NotePython(std::span<const c10::IValue> arguments,
                  std::span<const c10::IValue> results);
  void NoteOutput(const at::Tensor& output, Outcome& outcome);
  // Of a forward pass.
  void NoteWritten(Outcome& outcome);
  void NoteSaved(const at::Tensor& saved, size_t saved_from, Outcome& outcome);
  void Refuse(std::string reason);
  // For what was at that place.
  void RefuseAt(uint64_t question, std::string reason);
  void Differ(std::string how);
  // Its gradient is looked at, before and behind the callable.
  void AddHolder(const at::Tensor& leaf);
  void NoteDroppedGradients();
  void NoteGradients();
  bool ReadsGradients() const;
  // What no call takes; and nothing else than a call has changed it.
  void NoteWatched();
  // What came from outside is what it was, in all that the calls do not tell.
  void CheckOutside(Outcome& outcome);
  void CheckBackwardReads();
  void CheckAliases(std::span<const at::Tensor> outputs);
  // `saved` are by the history of its outputs, and do not stay by themselves.
  void CheckConstants(std::span<const at::Tensor> saved);
  // A backward pass inside has used its history up.
  bool UsedUp(const NodePtr& history, int depth) const;

  Parts parts_;
  TapeRecord record_;
  TapeMatcher matcher_;
  bool ended_ = false;
  bool pure_ = true;  // no call has changed anything
  bool draws_ = false;
  bool calls_python_ = false;
  std::unordered_set<const c10::StorageImpl*> written_outside_;
  std::string refused_;
  std::string differs_;
  uint64_t question_ = 0;     // of the first of these two
  bool in_backward_ = false;  // a call came from autograd's engine
  c10::Device device_{c10::kCPU};
  std::optional<c10::Stream> stream_;
  uint64_t seed_ = 0;
  TapeSurroundings surroundings_;
  uint64_t hooks_inside_ = 0;  // the question where some begin; 0: none do
  bool hooks_disabled_ = false;

  // By a tensor that is known; weak references keep addresses from being used
  // again.
  std::unordered_map<const c10::TensorImpl*, int32_t> known_;
  std::vector<WeakTensor> kept_;
  std::unordered_multimap<const c10::StorageImpl*, int32_t> by_storage_;
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> kept_storages_;
  std::vector<const c10::StorageImpl*> storages_;        // by register
  std::vector<TensorForm> forms_;                        // the same, as of now
  std::unordered_set<const c10::StorageImpl*> outside_;  // not of results
  std::vector<const Node*> histories_;                   // by register
  std::vector<NodePtr> nodes_;                           // of results
  // By call: what its schema says that it writes.
  std::vector<std::vector<std::pair<int32_t, WeakTensor>>> written_;
  struct Holder {
    at::Tensor leaf;
    const c10::TensorImpl* before = nullptr;  // its gradient
  };
  std::vector<Holder> holders_;
  std::unordered_set<const c10::TensorImpl*> held_;  // leaves of these
  // What is watched, as it was at the beginning.
  std::unordered_map<const c10::TensorImpl*, WatchedTensor> watched_;
  std::unordered_map<const c10::TensorImpl*, size_t> gradients_;  // holders
  // Of these, how many begin there in a storage.
  std::map<std::pair<const void*, int64_t>, int> gradient_places_;
  std::vector<WeakTensor> aliases_;  // over memory from outside
  // What the host alone may have written.
  std::unordered_set<const c10::StorageImpl*> unwritten_;
  // Of small tensors of the host that came from outside.
  struct Content {
    int32_t reg = 0;
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;
  };
  std::vector<Content> contents_;
  // By backward passes. Kept, for another node may be made where one has been.
  std::unordered_set<NodePtr> executed_;
  std::optional<size_t> drops_gradients_at_;
  size_t behind_reads_ = 0;  // the first call behind all reads
};

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_REGION_TAPE_RECORDER_H_
