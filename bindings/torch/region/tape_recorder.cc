#include "bindings/torch/region/tape_recorder.h"

#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <atomic>
#include <mutex>
#include <utility>

#include "bindings/torch/region/generator_states.h"
#include "bindings/torch/region/refusals.h"
#include "bindings/torch/region/result_words.h"
#include "bindings/torch/region/tape_ops.h"
#include "bindings/torch/runtime/op_policy.h"

namespace reprise::bindings {
namespace {

using c10::DispatchKey;

// Nobody else uses these two: one stands right below autograd and what it has
// made of views, the other one above all that torch does.
constexpr DispatchKey kBelow = DispatchKey::Fake;
constexpr DispatchKey kAbove = DispatchKey::TESTING_ONLY_GenericMode;

constexpr DispatchKey KeyOf(TapeLevel level) {
  return level == TapeLevel::kBelowAutograd ? kBelow : kAbove;
}

// Of this thread. The upper one sees what goes round the lower one, too.
void Include(TapeLevel level, bool included) {
  c10::impl::tls_set_dispatch_key_included(kAbove, included);
  if (level == TapeLevel::kBelowAutograd) {
    c10::impl::tls_set_dispatch_key_included(kBelow, included);
  }
}

// One records at a time; the other threads of autograd's find it here. They are
// at work only while its own thread waits for them.
std::atomic<TapeRecorder*> g_recorder{nullptr};
std::mutex g_recording;  // of calls that different threads make

// Set once, by Python.
std::atomic<bool> g_tells_of_effects{false};
// Of the host, for a device, on any thread.
std::atomic<uint64_t> g_waits{0};

// An operator is called that changes something, or stands behind one that did.
// Takes Python's lock, so no other may be held.
void TellOfEffects(const c10::OperatorHandle& called) {
  if (!g_tells_of_effects.load(std::memory_order_relaxed)) return;
  static const c10::OperatorHandle op =
      c10::Dispatcher::singleton().findSchemaOrThrow("reprise::behind_effects",
                                                     "");
  torch::jit::Stack stack{FullName(called.operator_name())};
  op.callBoxed(stack);
}

// Torch's fork_rng sets a generator, behind what was done in it. Nothing:
// nobody can tell. As TellOfEffects.
std::optional<bool> LeavesFork() {
  if (!g_tells_of_effects.load(std::memory_order_relaxed)) return std::nullopt;
  static const c10::OperatorHandle op =
      c10::Dispatcher::singleton().findSchemaOrThrow("reprise::leaves_fork",
                                                     "");
  torch::jit::Stack stack;
  op.callBoxed(stack);
  return stack[0].toBool();
}

std::unique_ptr<at::ObserverContext> OnFunction(const at::RecordFunction&) {
  TapeRecorder::NoteFunction();
  return nullptr;
}

template <TapeLevel kLevel>
void RecordAt(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
              torch::jit::Stack* stack) {
  TapeRecorder::Record(kLevel, op, keys, stack);
}

}  // namespace

std::unique_ptr<TapeRecorder> TapeRecorder::Begin(Parts parts) {
  std::unique_ptr<TapeRecorder> recorder(new TapeRecorder(std::move(parts)));
  TapeRecorder* nobody = nullptr;
  if (!g_recorder.compare_exchange_strong(nobody, recorder.get(),
                                          std::memory_order_acq_rel)) {
    recorder->ended_ = true;
    return nullptr;
  }
  recorder->functions_ =
      at::addGlobalCallback(at::RecordFunctionCallback(&OnFunction)
                                .scopes({at::RecordScope::BACKWARD_FUNCTION}));
  Include(recorder->writer_.level(), true);
  return recorder;
}

TapeRecorder::~TapeRecorder() {
  if (!ended_) Leave();
}

void TapeRecorder::Leave() {
  Include(writer_.level(), false);
  at::removeCallback(functions_);
  g_recorder.store(nullptr, std::memory_order_release);
  ended_ = true;
}

TapeRecorder::Outcome TapeRecorder::End(std::span<const at::Tensor> outputs,
                                        const std::vector<bool>& computed,
                                        size_t saved_from) {
  Leave();
  return writer_.End(outputs, computed, saved_from);
}

void TapeRecorder::NoteArithmetic(std::vector<NumberNode> nodes,
                                  std::vector<double> values) {
  const std::lock_guard lock(g_recording);
  writer_.numbers().NoteComputed(std::move(nodes), std::move(values));
}

int64_t TapeRecorder::TakeRead() {
  if (!RecordsHere()) return -1;
  const std::lock_guard lock(g_recording);
  return g_recorder.load(std::memory_order_acquire)
      ->writer_.numbers()
      .TakeRead();
}

void TapeRecorder::Record(TapeLevel level, const c10::OperatorHandle& op,
                          c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const DispatchKey key = KeyOf(level);
  const c10::DispatchKeySet below =
      keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, key);
  TapeRecorder* const recorder = g_recorder.load(std::memory_order_acquire);
  if (recorder == nullptr || IsOfTools(op)) {
    op.redispatchBoxed(below, stack);
    return;
  }
  if (recorder->writer_.level() != level) {
    recorder->NoteAbove(op,
                        std::span(*stack).last(op.schema().arguments().size()));
    op.redispatchBoxed(below, stack);
    return;
  }
  // What a composite operator calls is written down, not the operator: it may
  // be another layer's business.
  if (level == TapeLevel::kBelowAutograd &&
      (!HasKernel(op) || DoesNothing(op))) {
    op.redispatchBoxed(below, stack);
    return;
  }
  recorder->WriteDown(op, below, stack);
}

void TapeRecorder::NoteAbove(const c10::OperatorHandle& op,
                             std::span<const c10::IValue> arguments) {
  if (c10::impl::tls_is_dispatch_key_excluded(kBelow)) {
    if (HandsDataOut(op)) {
      const std::lock_guard lock(g_recording);
      writer_.fault().Refuse(Refusal::kReadsTensorsOfTensors);
    }
    return;
  }
  // Composite operators are not seen below.
  if (MayDecideByNumbers(op)) {
    const std::lock_guard lock(g_recording);
    writer_.NoteNumbers(arguments);
  }
  if (!HasKernel(op) && SizesByData(op, arguments)) {
    const std::lock_guard lock(g_recording);
    writer_.fault().Refuse(Refusal::kSizeDependsOnData, op);
  }
  if (DecidesByValues(op)) {
    const std::lock_guard lock(g_recording);
    writer_.NoteValues(op, arguments);
  }
}

void TapeRecorder::WriteDown(const c10::OperatorHandle& op,
                             c10::DispatchKeySet below,
                             torch::jit::Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard inside(
      c10::DispatchKeySet({kBelow, kAbove}));
  const size_t others = stack->size() - op.schema().arguments().size();
  size_t call = 0;
  bool behind_effects = false;
  bool may_raise = false;
  const uint64_t waits = g_waits.load(std::memory_order_relaxed);
  {
    const std::span<const c10::IValue> arguments =
        std::span(*stack).subspan(others);
    std::optional<c10::IValue> declared;  // maybe by Python: without the lock
    if (IsOfOthers(op)) declared = DeclaredWords(op, arguments);
    const std::lock_guard lock(g_recording);
    writer_.NoteDeclared(std::move(declared));
    call = writer_.Before(op, arguments);
    behind_effects = writer_.HasEffects();
    may_raise = behind_effects && call != TapeWriter::kNoCall &&
                (MayRaise(op, arguments) || writer_.MayVary(call));
  }
  if (may_raise) TellOfEffects(op);
  try {
    op.redispatchBoxed(below, stack);
  } catch (...) {
    const std::lock_guard lock(g_recording);
    writer_.fault().Refuse(Refusal::kRaised, op);
    throw;
  }
  // It may have seen what tensors hold.
  if (behind_effects && !may_raise && !OnlyCopies(op) &&
      g_waits.load(std::memory_order_relaxed) != waits) {
    TellOfEffects(op);
  }
  const std::lock_guard lock(g_recording);
  writer_.After(call, std::span(*stack).subspan(others));
}

void TapeRecorder::TellPythonOfEffects() {
  g_tells_of_effects.store(true, std::memory_order_relaxed);
}

void TapeRecorder::NoteWait() {
  g_waits.fetch_add(1, std::memory_order_relaxed);
}

void TapeRecorder::NoteFunction() {
  if (!RecordsHere()) return;
  const std::lock_guard lock(g_recording);
  g_recorder.load(std::memory_order_acquire)->writer_.NoteFunction();
}

bool TapeRecorder::RecordsHere() {
  const TapeRecorder* const recorder =
      g_recorder.load(std::memory_order_acquire);
  if (recorder == nullptr) [[likely]]
    return false;
  const DispatchKey key = KeyOf(recorder->writer_.level());
  return c10::impl::tls_is_dispatch_key_included(key) &&
         !c10::impl::tls_is_dispatch_key_excluded(key);
}

std::optional<std::string> TapeRecorder::Pause() {
  if (!RecordsHere()) return std::nullopt;
  const std::lock_guard lock(g_recording);
  std::string reason =
      g_recorder.load(std::memory_order_acquire)->writer_.WhyNoFunction();
  for (const DispatchKey key : {kBelow, kAbove}) {
    c10::impl::tls_set_dispatch_key_excluded(key, true);
  }
  return reason;
}

void TapeRecorder::Resume(std::span<const c10::IValue> arguments,
                          std::span<const c10::IValue> results,
                          const std::string& reason) {
  for (const DispatchKey key : {kBelow, kAbove}) {
    c10::impl::tls_set_dispatch_key_excluded(key, false);
  }
  TapeRecorder* const recorder = g_recorder.load(std::memory_order_acquire);
  if (recorder == nullptr) return;
  const std::lock_guard lock(g_recording);
  if (reason.empty()) {
    recorder->writer_.NotePython(arguments, results);
  } else {
    recorder->writer_.fault().Refuse(reason);
  }
}

void TapeRecorder::NoteOutside(const char* what) {
  if (!RecordsHere()) return;
  const std::lock_guard lock(g_recording);
  g_recorder.load(std::memory_order_acquire)->writer_.fault().Refuse(what);
}

void TapeRecorder::NoteAsked(const c10::TensorImpl& tensor, Asked what) {
  if (!RecordsHere()) return;
  const std::lock_guard lock(g_recording);
  g_recorder.load(std::memory_order_acquire)->writer_.NoteAsked(tensor, what);
}

void TapeRecorder::NoteStateTaken(const at::Generator& generator,
                                  const at::Tensor& state) {
  if (!RecordsHere()) return;
  const c10::IValue arguments[] = {generator};
  const c10::IValue results[] = {state};
  const std::lock_guard lock(g_recording);
  g_recorder.load(std::memory_order_acquire)
      ->writer_.NoteState(GeneratorStates::Take(), arguments, results);
}

void TapeRecorder::NoteStateSet(const at::Generator& generator,
                                const at::Tensor& state) {
  if (!RecordsHere()) return;
  const std::optional<bool> leaves = LeavesFork();
  const std::lock_guard lock(g_recording);
  TapeWriter& writer = g_recorder.load(std::memory_order_acquire)->writer_;
  if (!leaves.has_value()) return writer.fault().Refuse(Refusal::kSeeded);
  const c10::IValue arguments[] = {generator, state, *leaves};
  writer.NoteState(GeneratorStates::Set(), arguments, {});
}

void TapeRecorder::NoteHooksDisabled() {
  if (!RecordsHere()) return;
  const std::lock_guard lock(g_recording);
  g_recorder.load(std::memory_order_acquire)->writer_.NoteHooksDisabled();
}

}  // namespace reprise::bindings

TORCH_LIBRARY_IMPL(_, Fake, library) {
  namespace b = reprise::bindings;
  library.fallback(torch::CppFunction::makeFromBoxedFunction<
                   &b::RecordAt<b::TapeLevel::kBelowAutograd>>());
}
TORCH_LIBRARY_IMPL(_, TESTING_ONLY_GenericMode, library) {
  namespace b = reprise::bindings;
  library.fallback(torch::CppFunction::makeFromBoxedFunction<
                   &b::RecordAt<b::TapeLevel::kAboveAutograd>>());
}
