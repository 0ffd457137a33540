// Sees the calls of a callable while it runs.

#ifndef REPRISE_BINDINGS_TORCH_REGION_TAPE_RECORDER_H_
#define REPRISE_BINDINGS_TORCH_REGION_TAPE_RECORDER_H_

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <ATen/record_function.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bindings/torch/region/tape_record.h"
#include "bindings/torch/region/tape_writer.h"

namespace reprise::bindings {

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
  using Parts = TapeWriter::Parts;
  // The callable's thread.
  static std::unique_ptr<TapeRecorder> Begin(Parts parts);
  // As End, without an outcome.
  ~TapeRecorder();
  TapeRecorder(const TapeRecorder&) = delete;
  TapeRecorder& operator=(const TapeRecorder&) = delete;

  using Outcome = TapeWriter::Outcome;
  // On the thread of Begin, with what the callable returned, and behind that,
  // from `saved_from` on, what autograd has saved of a forward pass.
  // `computed`: see TapeMatcher::EndDiffers. Empty: the callable was given
  // ordinary floats, which do not tell, and what is expected says it.
  Outcome End(std::span<const at::Tensor> outputs,
              const std::vector<bool>& computed, size_t saved_from = SIZE_MAX);

  // Before End, on its thread: what Python computed from the numbers of the
  // call and from those that it read, by floats that note it. `values`: of the
  // nodes.
  void NoteArithmetic(std::vector<NumberNode> nodes,
                      std::vector<double> values);
  // On the thread of Begin: which read of a tensor of the host the last call
  // was, by whose number Python may compute. Negative: it was none. Each is to
  // be taken before the next call, else the recording is refused.
  static int64_t TakeRead();

  // Calls by this thread would be written down now, were there any: it is not
  // inside of one.
  static bool RecordsHere();
  // The program does what no call of an operator tells (it takes an address,
  // records an event, launches by itself). Nothing unless RecordsHere.
  static void NoteOutside(const char* what);
  // Python asks a tensor for what its form does not tell, which is another
  // thing in another call if the tensor comes from outside. As NoteOutside.
  using Asked = TapeWriter::Asked;
  static void NoteAsked(const c10::TensorImpl& tensor, Asked what);
  // Python has taken the state of a random generator, or has set it. As
  // NoteOutside.
  static void NoteStateTaken(const at::Generator& generator,
                             const at::Tensor& state);
  static void NoteStateSet(const at::Generator& generator,
                           const at::Tensor& state);
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
  // there. Without a lock. And reprise::leaves_fork is asked whether
  // torch.random.fork_rng sets a generator now.
  static void TellPythonOfEffects();
  // The host waits for a device, on any thread.
  static void NoteWait();
  // Autograd's engine is about to run a function, on any thread.
  static void NoteFunction();

  // The dispatcher's, of any operator.
  static void Record(TapeLevel level, const c10::OperatorHandle& op,
                     c10::DispatchKeySet keys, torch::jit::Stack* stack);

 private:
  explicit TapeRecorder(Parts parts) : writer_(std::move(parts)) {}
  // Nothing is seen any more.
  void Leave();
  // A call above the level of what is written down. What it calls below is
  // seen there, but for what is noted here.
  void NoteAbove(const c10::OperatorHandle& op,
                 std::span<const c10::IValue> arguments);
  // Writes the call down round it.
  void WriteDown(const c10::OperatorHandle& op, c10::DispatchKeySet below,
                 torch::jit::Stack* stack);

  at::CallbackHandle functions_ = at::INVALID_CALLBACK_HANDLE;
  TapeWriter writer_;  // under one lock of the process
  bool ended_ = false;
};

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_REGION_TAPE_RECORDER_H_
