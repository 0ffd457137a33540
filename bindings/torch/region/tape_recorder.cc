#include "bindings/torch/region/tape_recorder.h"

#include <ATen/Context.h>
#include <ATen/SavedTensorHooks.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/library.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <map>
#include <mutex>
#include <utility>

#include "bindings/torch/base/ivalues.h"
#include "bindings/torch/base/plain_tensor.h"
#include "bindings/torch/region/tape_ops.h"
#include "bindings/torch/region/tape_views.h"
#include "bindings/torch/runtime/op_policy.h"
#include "bindings/torch/runtime/program_place.h"
#include "bindings/torch/runtime/session_source.h"
#include "bindings/torch/runtime/thread_state.h"
#include "engine/trace/frontend.h"

namespace reprise::bindings {
namespace {

using c10::DispatchKey;
using Kind = TapeArgument::Kind;
using Origin = TapeRegister::Origin;

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

constexpr const char* kHooksInside =
    "hooks of saved tensors (saved_tensors_hooks, save_on_cpu, checkpoint) "
    "begin "
    "or end inside, which no replay would call: put them around the region, or "
    "make a region of what lies between";
constexpr const char* kDisablesHooks =
    "hooks of saved tensors are disabled inside (torch.func)";

// Tensors of the host that are new at each call are compared up to this size.
constexpr size_t kMostContentBytes = size_t{64} << 10;

// One records at a time; the other threads of autograd's find it here. They are
// at work only while its own thread waits for them.
std::atomic<TapeRecorder*> g_recorder{nullptr};
std::mutex g_recording;  // of calls that different threads make

// Where the program was, by question.
class Places final : public engine::PlaceAsker {
 public:
  uint64_t Ask() {
    const uint64_t question = next_.fetch_add(1, std::memory_order_relaxed);
    AskProgramPlace(this, question);
    return question;
  }
  std::string Take(uint64_t question) {
    const std::lock_guard lock(mutex_);
    const auto found = places_.find(question);
    if (found == places_.end()) return {};
    std::string place = std::move(found->second);
    places_.clear();
    return place;
  }
  void Tell(uint64_t question, const std::string& place) override {
    const std::lock_guard lock(mutex_);
    places_[question] = place;
  }

 private:
  std::atomic<uint64_t> next_{1};
  std::mutex mutex_;
  std::map<uint64_t, std::string> places_;  // guarded by mutex_
};

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

Places& ProgramPlaces() {
  static auto* const places = new Places;  // asked for as long as Python runs
  return *places;
}

const torch::autograd::Node* HistoryOf(const at::Tensor& tensor) {
  const auto* meta = torch::autograd::impl::get_autograd_meta(tensor);
  return meta != nullptr ? meta->grad_fn_.get() : nullptr;
}

uint64_t SeedOf(c10::Device device) {
  return at::globalContext().defaultGenerator(device).current_seed();
}

std::pair<const void*, int64_t> PlaceOf(const at::Tensor& tensor) {
  if (!tensor.has_storage() || tensor.numel() == 0) {
    return {tensor.unsafeGetTensorImpl(), 0};
  }
  return {tensor.storage().unsafeGetStorageImpl(), tensor.storage_offset()};
}

bool IsSmallOfHost(const at::Tensor& tensor) {
  return tensor.device().is_cpu() &&
         IsPlainTensor(*tensor.unsafeGetTensorImpl()) &&
         tensor.is_contiguous() && tensor.nbytes() <= kMostContentBytes;
}

// What a call of the engine's, of a backward pass, came from.
bool InBackward() { return torch::autograd::get_current_graph_task_id() != -1; }

template <TapeLevel kLevel>
void RecordAt(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
              torch::jit::Stack* stack) {
  TapeRecorder::Record(kLevel, op, keys, stack);
}

// Autocast as the operator's own kernel finds it, if that may ask for it.
std::optional<AutocastState> AutocastOf(const c10::OperatorHandle& op) {
  const AutocastState now = AutocastState::Now();
  const bool may_ask =
      now.any() && (SwitchesOf(op.operator_name().name) & kMatmulSwitches) != 0;
  return may_ask ? std::optional(now) : std::nullopt;
}

}  // namespace

bool HasHooks(torch::autograd::Node& node) {
  return !node.pre_hooks().empty() || !node.post_hooks().empty() ||
         !node.tensor_pre_hooks().empty() || !node.retains_grad_hooks().empty();
}

std::unique_ptr<TapeRecorder> TapeRecorder::Begin(Parts parts) {
  std::unique_ptr<TapeRecorder> recorder(new TapeRecorder(std::move(parts)));
  TapeRecorder* nobody = nullptr;
  if (!g_recorder.compare_exchange_strong(nobody, recorder.get(),
                                          std::memory_order_acq_rel)) {
    recorder->ended_ = true;
    return nullptr;
  }
  Include(recorder->parts_.level, true);
  return recorder;
}

TapeRecorder::TapeRecorder(Parts parts)
    : parts_(std::move(parts)),
      matcher_(parts_.expected, &record_),
      surroundings_(parts_.level, parts_.pass) {
  record_.level = parts_.level;
  record_.modes = surroundings_.modes();
  record_.pass = parts_.pass;
  record_.numbers = parts_.numbers;
  record_.varies.assign(parts_.numbers.size(), false);
  record_.decides.assign(parts_.numbers.size(), false);
  for (const at::Tensor& tensor : parts_.watched) {
    watched_.emplace(tensor.unsafeGetTensorImpl(), WatchedTensor::Of(tensor));
    if (tensor.is_leaf()) AddHolder(tensor);
  }
  for (uint32_t i = 0; i < parts_.inputs.size(); ++i) {
    const at::Tensor& input = parts_.inputs[i];
    const auto known = known_.find(input.unsafeGetTensorImpl());
    record_.inputs.push_back(
        known != known_.end() ? known->second : Add(input, Origin::kInput, i));
    const auto same =
        std::ranges::find_if(parts_.inputs, [&input](const at::Tensor& other) {
          return other.storage().is_alias_of(input.storage());
        });
    record_.sharing.push_back(
        static_cast<uint32_t>(same - parts_.inputs.begin()));
  }
  if (at::hasCUDA() && c10::impl::hasDeviceGuardImpl(at::kCUDA)) {
    const c10::impl::VirtualGuardImpl guard(at::kCUDA);
    device_ = guard.getDevice();
    stream_ = guard.getStream(device_);
  }
  seed_ = SeedOf(device_);
}

TapeRecorder::~TapeRecorder() {
  if (ended_) return;
  Include(parts_.level, false);
  g_recorder.store(nullptr, std::memory_order_release);
}

void TapeRecorder::Record(TapeLevel level, const c10::OperatorHandle& op,
                          c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const DispatchKey key = KeyOf(level);
  const c10::DispatchKeySet below =
      keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, key);
  TapeRecorder* const recorder = g_recorder.load(std::memory_order_acquire);
  if (recorder != nullptr && recorder->parts_.level != level) {
    if (HandsDataOut(op) && c10::impl::tls_is_dispatch_key_excluded(kBelow)) {
      const std::lock_guard lock(g_recording);
      recorder->Refuse("data is read by torch.tensor of tensors");
    }
    // Composite operators are not seen below.
    if (!c10::impl::tls_is_dispatch_key_excluded(kBelow) &&
        MayDecideByNumbers(op)) {
      const std::lock_guard lock(g_recording);
      recorder->NoteNumbers(
          std::span(*stack).last(op.schema().arguments().size()));
    }
    if (!c10::impl::tls_is_dispatch_key_excluded(kBelow) &&
        SizesByData(op,
                    std::span(*stack).last(op.schema().arguments().size()))) {
      const std::lock_guard lock(g_recording);
      recorder->Refuse(FullName(op.operator_name()) +
                       ": the size of its result depends on data");
    }
    if (!c10::impl::tls_is_dispatch_key_excluded(kBelow) &&
        DecidesByValues(op)) {
      const std::lock_guard lock(g_recording);
      recorder->NoteValues(
          op, std::span(*stack).last(op.schema().arguments().size()));
    }
    op.redispatchBoxed(below, stack);
    return;
  }
  // What a composite operator calls is written down, not the operator: it may
  // be another layer's business.
  if (recorder == nullptr || IsOfTools(op) ||
      (level == TapeLevel::kBelowAutograd && !HasKernel(op))) {
    op.redispatchBoxed(below, stack);
    return;
  }
  const c10::impl::ExcludeDispatchKeyGuard inside(
      c10::DispatchKeySet({kBelow, kAbove}));
  const size_t arguments = op.schema().arguments().size();
  size_t call = 0;
  bool behind_effects = false;
  bool may_raise = false;
  const uint64_t waits = g_waits.load(std::memory_order_relaxed);
  {
    const std::lock_guard lock(g_recording);
    call = recorder->Before(op, std::span(*stack).last(arguments));
    behind_effects = recorder->HasEffects();
    may_raise =
        behind_effects && (MayRaise(op, std::span(*stack).last(arguments)) ||
                           recorder->MayVary(call));
  }
  if (may_raise) TellOfEffects(op);
  const size_t others = stack->size() - arguments;
  try {
    op.redispatchBoxed(below, stack);
  } catch (...) {
    const std::lock_guard lock(g_recording);
    recorder->Refuse(FullName(op.operator_name()) + " raised an error");
    throw;
  }
  // It may have seen what tensors hold.
  if (behind_effects && !may_raise && !OnlyCopies(op) &&
      g_waits.load(std::memory_order_relaxed) != waits) {
    TellOfEffects(op);
  }
  const std::lock_guard lock(g_recording);
  recorder->After(call, std::span(*stack).subspan(others));
}

void TapeRecorder::TellPythonOfEffects() {
  g_tells_of_effects.store(true, std::memory_order_relaxed);
}

void TapeRecorder::NoteWait() {
  g_waits.fetch_add(1, std::memory_order_relaxed);
}

bool TapeRecorder::RecordsHere() {
  const TapeRecorder* const recorder =
      g_recorder.load(std::memory_order_acquire);
  if (recorder == nullptr) [[likely]]
    return false;
  const DispatchKey key = KeyOf(recorder->parts_.level);
  return c10::impl::tls_is_dispatch_key_included(key) &&
         !c10::impl::tls_is_dispatch_key_excluded(key);
}

std::optional<std::string> TapeRecorder::Pause() {
  if (!RecordsHere()) return std::nullopt;
  const std::lock_guard lock(g_recording);
  const TapeRecorder& recorder = *g_recorder.load(std::memory_order_acquire);
  std::string reason;
  if (at::GradMode::is_enabled()) {
    reason = "gradients are tracked";
  } else if (recorder.parts_.pass != TapePass::kWhole || InBackward()) {
    reason = "it is called in a pass that is differentiated";
  } else if (!recorder.surroundings_.ModesAreKept()) {
    reason = "modes of torch's are other ones than at the region's beginning";
  }
  for (const DispatchKey key : {kBelow, kAbove}) {
    c10::impl::tls_set_dispatch_key_excluded(key, true);
  }
  return reason;
}

void TapeRecorder::NotePython(std::span<const c10::IValue> arguments,
                              std::span<const c10::IValue> results) {
  static const c10::OperatorHandle op =
      c10::Dispatcher::singleton().findSchemaOrThrow("reprise::call_python",
                                                     "");
  if (at::GradMode::is_enabled() || !surroundings_.ModesAreKept()) {
    Refuse("a function that runs in each call changes modes of torch's");
  }
  ForTensors(results, [this](const at::Tensor& tensor) {
    if (known_.contains(tensor.unsafeGetTensorImpl()) ||
        !FindAliases(tensor).empty()) {
      Refuse("a function that runs in each call returns what there was before");
    }
  });
  const size_t call = Before(op, arguments);
  if (!refused_.empty()) return;
  record_.calls[call].calls_python = true;
  // What it does besides cannot be done twice, nor looked at.
  calls_python_ = true;
  draws_ = true;
  pure_ = false;
  record_.first_effect = std::min(record_.first_effect, call);
  After(call, results);
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
    recorder->NotePython(arguments, results);
  } else {
    recorder->Refuse(reason);
  }
}

void TapeRecorder::NoteOutside(const char* what) {
  if (!RecordsHere()) return;
  const std::lock_guard lock(g_recording);
  g_recorder.load(std::memory_order_acquire)->Refuse(what);
}

void TapeRecorder::NoteAsked(const c10::TensorImpl& tensor, Asked what) {
  if (!RecordsHere()) return;
  const std::lock_guard lock(g_recording);
  TapeRecorder& recorder = *g_recorder.load(std::memory_order_acquire);
  if (recorder.IsOfThisCall(tensor, what)) return;
  switch (what) {
    case Asked::kOffset:
      recorder.record_.fixed_offsets = true;
      break;
    case Asked::kMemory:
      recorder.Refuse(
          "Python asks a tensor that the call is given whose view it is, or "
          "how "
          "often it was written (_base, _is_view(), _version)");
      break;
    case Asked::kHistory:
      recorder.Refuse(
          "Python asks a tensor that the call is given by which function it "
          "was "
          "computed (grad_fn, output_nr)");
      break;
  }
}

bool TapeRecorder::IsOfThisCall(const c10::TensorImpl& tensor,
                                Asked what) const {
  if (what == Asked::kHistory) {
    // A part of each tensor's form is whether it has one.
    const auto* const meta = static_cast<const torch::autograd::AutogradMeta*>(
        tensor.autograd_meta());
    if (meta == nullptr || meta->grad_fn_ == nullptr) return true;
    // One leads to those that it was made from.
    const bool leads_outside =
        std::ranges::any_of(record_.registers, [](const TapeRegister& reg) {
          return reg.origin != Origin::kResult && !reg.form.leaf;
        });
    if (leads_outside) return false;
  }
  if (!tensor.has_storage()) return false;
  const auto* const storage = tensor.unsafe_storage().unsafeGetStorageImpl();
  return by_storage_.contains(storage) && !outside_.contains(storage);
}

void TapeRecorder::NoteHooksDisabled() {
  if (!RecordsHere()) return;
  const std::lock_guard lock(g_recording);
  TapeRecorder& recorder = *g_recorder.load(std::memory_order_acquire);
  recorder.hooks_disabled_ = true;
  if (recorder.parts_.pass != TapePass::kForward) return;
  recorder.Refuse(kDisablesHooks);
  if (recorder.surroundings_.OwnHooks()) {
    at::SavedTensorDefaultHooks::pop_hooks();
  }
}

void TapeRecorder::Refuse(std::string reason) {
  if (!refused_.empty()) return;
  RefuseAt(differs_.empty() ? ProgramPlaces().Ask() : question_,
           std::move(reason));
}

void TapeRecorder::RefuseAt(uint64_t question, std::string reason) {
  if (!refused_.empty()) return;
  question_ = question;
  refused_ = std::move(reason);
}

void TapeRecorder::Differ(std::string how) {
  if (!differs_.empty()) return;
  if (refused_.empty()) question_ = ProgramPlaces().Ask();
  differs_ = std::move(how);
}

int32_t TapeRecorder::Add(const at::Tensor& tensor, Origin origin,
                          uint32_t index) {
  const auto reg = static_cast<int32_t>(record_.registers.size());
  TapeRegister& made = record_.registers.emplace_back();
  made.origin = origin;
  made.index = index;
  made.form = TensorForm::Of(tensor);
  const auto watched = watched_.find(tensor.unsafeGetTensorImpl());
  made.has_gradient =
      watched != watched_.end()
          ? watched->second.has_gradient
          : GradientOf(*tensor.unsafeGetTensorImpl()) != nullptr;
  known_[tensor.unsafeGetTensorImpl()] = reg;
  kept_.emplace_back(tensor.getIntrusivePtr());
  if (tensor.has_storage()) {
    const c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
    by_storage_.emplace(storage, reg);
    kept_storages_.emplace_back(tensor.storage().getWeakStorageImpl());
  }
  forms_.push_back(made.form);
  storages_.push_back(
      tensor.has_storage() ? tensor.storage().unsafeGetStorageImpl() : nullptr);
  if (origin != Origin::kResult) outside_.insert(storages_.back());
  const bool may_hold = origin == Origin::kInput || tensor.requires_grad();
  if (origin != Origin::kResult && may_hold && tensor.is_leaf()) {
    AddHolder(tensor);
  }
  histories_.resize(record_.registers.size(), nullptr);
  NoteHistory(reg, tensor);
  return reg;
}

int32_t TapeRecorder::AddResult(const at::Tensor& tensor, size_t call) {
  if (!tensor.defined()) return TapeArgument::kUndefined;
  const auto known = known_.find(tensor.unsafeGetTensorImpl());
  if (known != known_.end()) {
    NoteHistory(known->second, tensor);
    // An op may give it another one (transpose_).
    forms_[static_cast<size_t>(known->second)] = TensorForm::Of(tensor);
    return known->second;
  }
  if (!IsPlainTensor(*tensor.unsafeGetTensorImpl())) {
    Refuse(
        "a tensor is made that is no ordinary one (sparse, quantized, "
        "nested, of another device)");
    return TapeArgument::kUndefined;
  }
  return Add(tensor, Origin::kResult, static_cast<uint32_t>(call));
}

// Below autograd a tensor is its storage and its form: `x.data` and what
// autograd hands out in place of a result are the tensor that was made.
std::vector<int32_t> TapeRecorder::FindAliases(const at::Tensor& tensor) const {
  std::vector<int32_t> aliases;
  if (parts_.level != TapeLevel::kBelowAutograd || !tensor.has_storage()) {
    return aliases;
  }
  const auto [begin, end] =
      by_storage_.equal_range(tensor.storage().unsafeGetStorageImpl());
  const TensorForm form = TensorForm::Of(tensor);
  for (auto it = begin; it != end; ++it) {
    TensorForm other = record_.registers[static_cast<size_t>(it->second)].form;
    other.requires_grad = form.requires_grad;
    other.leaf = form.leaf;
    if (other == form) aliases.push_back(it->second);
  }
  std::ranges::sort(aliases);
  return aliases;
}

bool TapeRecorder::IsWhereItWas(int32_t reg, const at::Tensor& tensor) const {
  if (!tensor.has_storage()) return true;
  const auto at = static_cast<size_t>(reg);
  const TensorForm now = TensorForm::Of(tensor);
  const TensorForm& was = forms_[at];
  return tensor.storage().unsafeGetStorageImpl() == storages_[at] &&
         now.dtype == was.dtype && now.storage_offset == was.storage_offset &&
         now.sizes == was.sizes && now.strides == was.strides;
}

void TapeRecorder::NoteOneOf(std::span<const int32_t> aliases) {
  if (aliases.size() < 2) return;
  const auto at = [this](int32_t reg) -> const TapeRegister& {
    return record_.registers[static_cast<size_t>(reg)];
  };
  const bool are_inputs = std::ranges::all_of(
      aliases, [&](int32_t reg) { return at(reg).origin == Origin::kInput; });
  if (!are_inputs) {  // views of arguments, say
    record_.fixed_distances = true;
    return;
  }
  for (const int32_t reg : aliases.subspan(1)) {
    record_.in_one_place.emplace(at(aliases.front()).index, at(reg).index);
  }
}

int32_t TapeRecorder::RegisterOf(const at::Tensor& tensor) {
  if (!tensor.defined()) return TapeArgument::kUndefined;
  const c10::TensorImpl* const impl = tensor.unsafeGetTensorImpl();
  if (tensor.has_storage() &&
      unwritten_.erase(tensor.storage().unsafeGetStorageImpl()) != 0) {
    const int32_t constant = AddForeign(tensor);  // the host has written it
    contents_.erase(
        std::ranges::remove(contents_, constant, &Content::reg).begin(),
        contents_.end());
    return constant;
  }
  if (const auto known = known_.find(impl); known != known_.end()) {
    if (!HasItsHistory(known->second, tensor)) {
      Refuse(
          "a tensor was given another history than torch's operators give "
          "(a torch.autograd.Function, requires_grad_(), a hook)");
    }
    if (!IsWhereItWas(known->second, tensor)) {
      Refuse("a tensor is given other memory or another form (`.data =`)");
    }
    return known->second;
  }
  if (gradients_.contains(impl) && gradient_places_[PlaceOf(tensor)] > 1) {
    Refuse("two tensors have one gradient, or gradients in one place");
  }
  const std::vector<int32_t> aliases = FindAliases(tensor);
  if (!aliases.empty()) {
    known_[impl] = aliases.front();
    kept_.emplace_back(tensor.getIntrusivePtr());
    if (outside_.contains(tensor.storage().unsafeGetStorageImpl())) {
      NoteOneOf(aliases);
      aliases_.emplace_back(tensor.getIntrusivePtr());
    }
    return aliases.front();
  }
  if (!IsPlainTensor(*impl)) {
    Refuse(
        "a tensor is used that is no ordinary one (sparse, quantized, "
        "nested, of another device)");
    return TapeArgument::kUndefined;
  }
  if (const auto of = gradients_.find(impl); of != gradients_.end()) {
    const int32_t holder = RegisterOf(holders_[of->second].leaf);
    return Add(tensor, Origin::kGradient, static_cast<uint32_t>(holder));
  }
  return AddForeign(tensor);
}

int32_t TapeRecorder::AddForeign(const at::Tensor& tensor) {
  const int32_t reg = Add(tensor, Origin::kForeign, 0);
  TapeRegister& added = record_.registers[static_cast<size_t>(reg)];
  added.foreign.emplace(tensor.getIntrusivePtr());
  if (IsSmallOfHost(tensor)) {
    added.content = CopyHostTensor(*tensor.unsafeGetTensorImpl());
    contents_.push_back({reg, tensor.storage().getWeakStorageImpl()});
  }
  return reg;
}

void TapeRecorder::AddHolder(const at::Tensor& leaf) {
  if (!held_.insert(leaf.unsafeGetTensorImpl()).second) return;
  const at::Tensor gradient = leaf.grad();
  holders_.push_back({leaf, nullptr});
  if (!gradient.defined()) return;
  holders_.back().before = gradient.unsafeGetTensorImpl();
  ++gradient_places_[PlaceOf(gradient)];
  gradients_.emplace(holders_.back().before, holders_.size() - 1);
  kept_.emplace_back(gradient.getIntrusivePtr());
}

void TapeRecorder::NoteHistory(int32_t reg, const at::Tensor& tensor) {
  const Node* const history = HistoryOf(tensor);
  histories_[static_cast<size_t>(reg)] = history;
  if (parts_.level == TapeLevel::kAboveAutograd && history != nullptr &&
      record_.registers[static_cast<size_t>(reg)].origin == Origin::kResult) {
    nodes_.push_back(tensor.grad_fn());
  }
}

bool TapeRecorder::HasItsHistory(int32_t reg, const at::Tensor& tensor) const {
  if (parts_.level == TapeLevel::kBelowAutograd) return true;
  return HistoryOf(tensor) == histories_[static_cast<size_t>(reg)] &&
         tensor.requires_grad() ==
             (histories_[static_cast<size_t>(reg)] != nullptr ||
              record_.registers[static_cast<size_t>(reg)].form.requires_grad);
}

bool TapeRecorder::HasHooks() const {
  return std::ranges::any_of(
      nodes_, [](const NodePtr& node) { return bindings::HasHooks(*node); });
}

TapeArgument TapeRecorder::Argument(const c10::IValue& value) {
  TapeArgument argument;
  if (value.isTensor() && value.toTensor().defined() &&
      value.toTensor().unsafeGetTensorImpl()->is_wrapped_number()) {
    const DepthGuard unseen;  // the program reads nothing
    argument.wrapped = true;
    argument.value =
        CopyHostTensor(*value.toTensor().unsafeGetTensorImpl()).item();
  } else if (value.isTensor()) {
    argument.kind = Kind::kTensor;
    argument.registers.push_back(RegisterOf(value.toTensor()));
  } else if (value.isTensorList()) {
    argument.kind = Kind::kTensors;
    for (const at::Tensor& tensor : value.toTensorVector()) {
      argument.registers.push_back(RegisterOf(tensor));
    }
  } else if (value.isOptionalTensorList()) {
    argument.kind = Kind::kOptionalTensors;
    for (const std::optional<at::Tensor>& tensor :
         value.toOptionalTensorVector()) {
      argument.registers.push_back(tensor.has_value() ? RegisterOf(*tensor)
                                                      : TapeArgument::kNone);
    }
  } else {
    argument.value = value.isList() ? value.deepcopy() : value;
  }
  return argument;
}

void TapeRecorder::CheckSurroundings(const c10::OperatorHandle& op,
                                     std::span<const c10::IValue> arguments) {
  if (const char* const difference = surroundings_.Difference()) {
    Refuse(difference);
  }
  CheckHooks(arguments);
  const std::string name = FullName(op.operator_name());
  if (HandsDataOut(op)) {
    if (!Reads(op) || !MayRead()) Refuse(name + ": hands data to the host");
  } else if (SizesByData(op, arguments)) {
    Refuse(name + ": the size of its result depends on data");
  } else if (name.starts_with("c10d") || name.starts_with("_c10d")) {
    Refuse(name + ": works with other processes");
  }
  if (InBackward()) {
    in_backward_ = true;
    executed_.insert(torch::autograd::get_current_node());
    if (at::GradMode::is_enabled()) {
      Refuse("a backward pass is differentiated again (create_graph)");
    } else if (parts_.pass != TapePass::kBackward &&
               torch::autograd::get_current_graph_task_keep_graph()) {
      Refuse("the graph of a backward pass is kept (retain_graph)");
    } else if (parts_.level == TapeLevel::kAboveAutograd ||
               parts_.pass == TapePass::kForward) {
      Refuse("gradients are asked for, and its results have some, too");
    }
  }
  if (stream_.has_value()) {
    const c10::impl::VirtualGuardImpl guard(at::kCUDA);
    if (guard.getDevice() != device_ || guard.getStream(device_) != *stream_) {
      Refuse("several streams or devices are used");
    }
  }
}

void TapeRecorder::CheckHooks(std::span<const c10::IValue> arguments) {
  if (parts_.pass == TapePass::kBackward || !at::GradMode::is_enabled() ||
      InBackward()) {
    return;
  }
  bool tracks = false;
  ForTensors(arguments, [&tracks](const at::Tensor& tensor) {
    tracks |= tensor.defined() && tensor.requires_grad();
  });
  if (!tracks) return;
  hooks_disabled_ |= TapeSurroundings::HooksAreDisabled();
  if (hooks_inside_ != 0 || !surroundings_.MoreHooks()) return;
  hooks_inside_ = ProgramPlaces().Ask();
  // Else a backward pass inside may unpack what they pack, by calls that are
  // written down: the end tells.
  if (parts_.pass == TapePass::kForward ||
      parts_.level == TapeLevel::kAboveAutograd) {
    RefuseAt(hooks_inside_, kHooksInside);
  }
}

size_t TapeRecorder::Before(const c10::OperatorHandle& op,
                            std::span<const c10::IValue> arguments) {
  if (!refused_.empty()) return 0;
  CheckSurroundings(op, arguments);
  if (DecidesByValues(op)) NoteValues(op, arguments);
  NoteDroppedGradients();
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!Writes(op, i)) continue;
    ForTensors(arguments.subspan(i, 1), [&](const at::Tensor& tensor) {
      if (!tensor.defined() || !tensor.has_storage()) return;
      unwritten_.erase(tensor.storage().unsafeGetStorageImpl());
      if (!known_.contains(tensor.unsafeGetTensorImpl()) &&
          !FindAliases(tensor).empty() &&
          outside_.contains(tensor.storage().unsafeGetStorageImpl())) {
        Refuse("a tensor from outside is written by its .data");
      }
    });
  }
  TapeCall& call = record_.calls.emplace_back(TapeCall{.op = op});
  call.grad_mode = at::GradMode::is_enabled();
  if (parts_.level == TapeLevel::kBelowAutograd) call.autocast = AutocastOf(op);
  // As autograd's kernels call those below; one that counts a write, or gives a
  // view, has a kernel of its own for that.
  call.below_views =
      parts_.level == TapeLevel::kBelowAutograd &&
      c10::impl::tls_is_dispatch_key_excluded(DispatchKey::ADInplaceOrView) &&
      !op.hasKernelForDispatchKey(DispatchKey::ADInplaceOrView);
  call.arguments.reserve(arguments.size());
  for (const c10::IValue& value : arguments) {
    TapeArgument argument = Argument(value);
    call.arguments.push_back(std::move(argument));
  }
  // Without an offset, from where the tensor begins.
  if (op.operator_name().name.starts_with("aten::as_strided") &&
      !arguments.back().isNone()) {
    record_.fixed_offsets = true;
  }
  NoteEffects(op, record_.calls.size() - 1, arguments);
  auto& written = written_.emplace_back();
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!Writes(op, i)) continue;
    auto reg = call.arguments[i].registers.begin();
    ForTensors(arguments.subspan(i, 1), [&](const at::Tensor& tensor) {
      if (*reg >= 0) written.emplace_back(*reg, tensor.getIntrusivePtr());
      ++reg;
    });
  }
  return record_.calls.size() - 1;
}

void TapeRecorder::NoteValues(const c10::OperatorHandle& op,
                              std::span<const c10::IValue> arguments) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!DecidesByValues(op, i) || !arguments[i].isTensor()) continue;
    const at::Tensor& tensor = arguments[i].toTensor();
    if (!tensor.defined()) continue;
    if (!tensor.device().is_cpu()) {  // it is copied to the host
      Refuse(FullName(op.operator_name()) +
             ": the size of its result depends on data");
      return;
    }
    NoteContentsBehind(tensor, FullName(op.operator_name()) + ": '" +
                                   op.schema().arguments()[i].name() + "'");
  }
}

void TapeRecorder::NoteNumbers(std::span<const c10::IValue> arguments) {
  const auto note = [this](double value) {
    for (size_t i = 0; i < parts_.numbers.size(); ++i) {
      if (std::abs(parts_.numbers[i]) == std::abs(value)) {
        record_.decides[i] = true;
      }
    }
  };
  for (const c10::IValue& argument : arguments) {
    if (argument.isDouble()) note(argument.toDouble());
    if (!argument.isList()) continue;
    for (const c10::IValue& element : argument.toListRef()) {
      if (element.isDouble()) note(element.toDouble());
    }
  }
}

void TapeRecorder::NoteContentsBehind(const at::Tensor& tensor,
                                      const std::string& reader) {
  // What has run ahead may write what is looked at.
  InterruptSessions("values of the host are read");
  RegisterOf(tensor);
  if (!tensor.has_storage() || !refused_.empty()) return;
  std::unordered_set<const c10::StorageImpl*> from = {
      tensor.storage().unsafeGetStorageImpl()};
  for (size_t c = record_.calls.size(); c-- > 0;) {
    const TapeCall& call = record_.calls[c];
    const auto is_from = [&](int32_t reg) {
      return reg >= 0 && from.contains(storages_[static_cast<size_t>(reg)]);
    };
    bool makes = std::ranges::any_of(call.results, is_from);
    for (size_t i = 0; i < call.arguments.size(); ++i) {
      makes |= Writes(call.op, i) &&
               std::ranges::any_of(call.arguments[i].registers, is_from);
    }
    if (!makes) continue;
    if (Draws(call.op) || call.calls_python) {
      Refuse(reader +
             " decides what is computed, and is drawn, or made by a "
             "function that runs in each call");
    }
    const bool by_values = DecidesByValues(call.op);
    for (size_t i = 0; i < call.arguments.size(); ++i) {
      if (by_values && !DecidesByValues(call.op, i)) continue;
      for (const int32_t reg : call.arguments[i].registers) {
        if (reg >= 0) from.insert(storages_[static_cast<size_t>(reg)]);
      }
    }
  }
  for (size_t reg = 0; reg < record_.registers.size(); ++reg) {
    const TapeRegister& of = record_.registers[reg];
    if (of.origin == Origin::kResult || !from.contains(storages_[reg]))
      continue;
    const c10::TensorImpl* const given =
        of.origin == Origin::kInput
            ? parts_.inputs[of.index].unsafeGetTensorImpl()
        : of.foreign.has_value() ? of.foreign->_unsafe_get_target()
                                 : nullptr;
    if (given == nullptr || !of.form.device.is_cpu() ||
        written_outside_.contains(storages_[reg]) ||
        given->numel() * given->itemsize() > kMostContentBytes) {
      Refuse(reader +
             " decides what is computed, and is made inside of data that is "
             "large, on another device, or written: make it outside");
      return;
    }
    if (std::ranges::find(record_.contents, static_cast<int32_t>(reg),
                          &TapeContent::reg) == record_.contents.end()) {
      record_.contents.push_back(
          {static_cast<int32_t>(reg), CopyHostTensor(*given)});
    }
  }
}

bool TapeRecorder::MayVary(size_t index) const {
  if (parts_.numbers.empty()) return false;
  const TapeCall& call = record_.calls[index];
  for (size_t i = 0; i < call.arguments.size(); ++i) {
    const c10::IValue& value = call.arguments[i].value;
    if (!value.isDouble() || IsProbability(call.op, i)) continue;
    // By its bits, as the matcher: of nan, too.
    const auto size = std::bit_cast<uint64_t>(std::abs(value.toDouble()));
    if (std::ranges::any_of(parts_.numbers, [size](double number) {
          return std::bit_cast<uint64_t>(std::abs(number)) == size;
        })) {
      return true;
    }
  }
  return false;
}

void TapeRecorder::NoteEffects(const c10::OperatorHandle& op, size_t index,
                               std::span<const c10::IValue> arguments) {
  const bool off = IsOff(op, arguments);
  const bool secretly = WritesSecretly(op) && !off;
  const TapeCall& call = record_.calls[index];
  for (size_t i = 0; i < call.arguments.size(); ++i) {
    if (!secretly && !Writes(op, i)) continue;
    // A result may be a view of what is not.
    for (const int32_t reg : call.arguments[i].registers) {
      if (reg < 0) continue;
      const auto written = static_cast<size_t>(reg);
      const TapeRegister& of = record_.registers[written];
      if (outside_.contains(storages_[written]) &&
          (Writes(op, i) ||
           (of.origin == Origin::kForeign && !of.form.requires_grad))) {
        written_outside_.insert(storages_[written]);
      }
    }
  }
  draws_ |= Draws(op);
  const bool changes = secretly || (Draws(op) && !off);
  pure_ = pure_ && !changes && written_outside_.empty();
  if (!pure_) record_.first_effect = std::min(record_.first_effect, index);
}

void TapeRecorder::After(size_t index, std::span<const c10::IValue> results) {
  if (!refused_.empty()) return;
  bool of_device = false;
  bool to_host = false;
  TapeCall& call = record_.calls[index];
  for (const auto& [reg, weak] : written_[index]) {
    if (auto tensor = weak.lock()) NoteHistory(reg, at::Tensor(tensor));
  }
  for (const TapeArgument& argument : call.arguments) {
    for (const int32_t reg : argument.registers) {
      if (reg < 0) continue;
      of_device |= c10::DispatchKeySet(
                       c10::DispatchKeySet::RAW,
                       record_.registers[static_cast<size_t>(reg)].form.keys)
                       .has_backend(c10::BackendComponent::CUDABit);
    }
  }
  if (Reads(call.op) && results.size() == 1) {
    call.read = results[0];
    behind_reads_ = index + 1;
  }
  ForTensors(results, [&](const at::Tensor& tensor) {
    to_host |= tensor.defined() && tensor.device().is_cpu();
    call.results.push_back(AddResult(tensor, index));
    if (LeavesUnwritten(call.op) && tensor.device().is_cpu() &&
        tensor.has_storage()) {
      unwritten_.insert(tensor.storage().unsafeGetStorageImpl());
    }
  });
  if (of_device && to_host && !TellsHowItDrew(call.op) &&
      !DecidesByValues(call.op)) {
    Refuse(FullName(call.op.operator_name()) + ": copies to the host");
  }
  for (const c10::IValue& value : results) {
    if (value.isObject() || value.isCustomClass() || value.isFuture()) {
      Refuse(FullName(call.op.operator_name()) + ": returns an object");
    }
  }
  if (differs_.empty()) {
    if (const auto difference = matcher_.Differs(index)) Differ(*difference);
  }
}

void TapeRecorder::NoteDroppedGradients() {
  if (drops_gradients_at_.has_value()) return;
  for (const Holder& holder : holders_) {
    if (holder.before == nullptr) continue;
    const at::Tensor& now = holder.leaf.grad();
    if (now.defined() && now.unsafeGetTensorImpl() == holder.before) continue;
    drops_gradients_at_ = record_.calls.size();
    return;
  }
}

bool TapeRecorder::ReadsGradients() const {
  return std::ranges::any_of(record_.registers, [](const TapeRegister& reg) {
    return reg.origin == Origin::kGradient;
  });
}

void TapeRecorder::NoteGradients() {
  NoteDroppedGradients();
  // Where Python would read another value, nothing may have changed.
  record_.drops_gradients_at = std::max(
      drops_gradients_at_.value_or(record_.calls.size()), behind_reads_);
  for (size_t i = 0; i < holders_.size(); ++i) {
    const Holder holder = holders_[i];  // more may come
    const at::Tensor after = holder.leaf.grad();
    const bool same = (after.defined() ? after.unsafeGetTensorImpl()
                                       : nullptr) == holder.before;
    const bool read =
        holder.before != nullptr && known_.contains(holder.before) &&
        record_.registers[static_cast<size_t>(known_[holder.before])].origin ==
            Origin::kGradient;
    if (same && !read) continue;
    TapeGradient& noted = record_.gradients.emplace_back();
    noted.of = static_cast<uint32_t>(RegisterOf(holder.leaf));
    if (same) continue;
    noted.after = RegisterOf(after);
    if (noted.after >= 0 &&
        record_.registers[static_cast<size_t>(noted.after)].origin ==
            Origin::kForeign) {
      Refuse("a gradient comes from outside");
    }
  }
}

void TapeRecorder::NoteWatched() {
  for (const at::Tensor& tensor : parts_.watched) {
    const auto found = watched_.extract(tensor.unsafeGetTensorImpl());
    if (found.empty()) continue;  // given twice
    const auto known = known_.find(found.key());
    const TapeRegister* reg =
        known != known_.end()
            ? &record_.registers[static_cast<size_t>(known->second)]
            : nullptr;
    const bool is_register = reg != nullptr && reg->foreign.has_value() &&
                             reg->foreign->_unsafe_get_target() == found.key();
    if (is_register ? reg->form != found.mapped().form
                    : !found.mapped().Holds()) {
      Refuse("a tensor from outside is given another form, or a gradient");
    }
    if (!is_register) record_.watched.Add(found.mapped());
  }
}

bool TapeRecorder::UsedUp(const NodePtr& history, int depth) const {
  if (executed_.contains(history)) return true;
  // A sum hands its gradient on, and calls nothing.
  return depth > 0 && history->name() == "AddBackward0" &&
         std::ranges::all_of(history->next_edges(), [&](const auto& edge) {
           return edge.function == nullptr || UsedUp(edge.function, depth - 1);
         });
}

void TapeRecorder::CheckAliases(std::span<const at::Tensor> outputs) {
  // What lives on is no `.data` of one, but a tensor of its own.
  const bool lives =
      std::ranges::any_of(aliases_, [&](const WeakTensor& alias) {
        return alias.use_count() > 0 &&
               std::ranges::none_of(outputs,
                                    [&alias](const at::Tensor& output) {
                                      return output.unsafeGetTensorImpl() ==
                                             alias._unsafe_get_target();
                                    });
      });
  if (lives) Refuse("two tensors from outside lie in one place");
}

void TapeRecorder::CheckOutside(Outcome& outcome) {
  const bool below = parts_.level == TapeLevel::kBelowAutograd;
  const auto check = [&](size_t reg, const at::Tensor& tensor) {
    const TapeRegister& came = record_.registers[reg];
    if (HistoryOf(tensor) != histories_[reg]) {
      if (below && parts_.pass == TapePass::kWhole) {
        outcome.tracks_gradients = true;
        return;
      }
      Refuse("a tensor from outside is given another history");
    }
    const TensorForm now = TensorForm::Of(tensor);
    if (now.hooks != came.form.hooks) {
      Refuse("hooks are set on a tensor from outside");
    }
    if (!below && tensor.requires_grad()) return;  // as its history says
    if (tensor.storage().unsafeGetStorageImpl() != storages_[reg] ||
        now != came.form) {
      Refuse("a tensor from outside is given other memory or another form");
    }
    if (in_backward_ && came.form.hooks != 0) {
      Refuse("hooks of a tensor from outside run in a backward pass inside");
    }
    if (in_backward_ && histories_[reg] != nullptr) {
      Refuse("a backward pass inside goes on outside");
    }
  };
  for (size_t reg = 0; reg < record_.registers.size(); ++reg) {
    const TapeRegister& came = record_.registers[reg];
    if (came.origin == Origin::kInput) {
      check(reg, parts_.inputs[came.index]);
    } else if (came.origin == Origin::kForeign) {
      if (auto tensor = came.foreign->lock()) check(reg, at::Tensor(tensor));
      if (std::ranges::any_of(parts_.inputs, [&](const at::Tensor& input) {
            return input.storage().unsafeGetStorageImpl() == storages_[reg];
          })) {
        Refuse("an argument shares memory with what is read from outside");
      }
    }
  }
}

// New at each call is only what went with the call before.
void TapeRecorder::CheckConstants(std::span<const at::Tensor> saved) {
  std::unordered_set<const c10::StorageImpl*> of_history;
  for (const at::Tensor& tensor : saved) {
    if (tensor.has_storage()) {
      of_history.insert(tensor.storage().unsafeGetStorageImpl());
    }
  }
  for (const TapeRegister& reg : record_.registers) {
    if (reg.origin == Origin::kForeign && !reg.content.defined() &&
        reg.foreign->use_count() == 0) {
      Refuse(
          "a tensor is new at each call, and no operator has made it "
          "(torch.tensor on a device: make it outside)");
    }
  }
  for (const auto& [reg, storage] : contents_) {
    if (storage.use_count() == 0 ||
        of_history.contains(storages_[static_cast<size_t>(reg)])) {
      continue;
    }
    TapeRegister& lasting = record_.registers[static_cast<size_t>(reg)];
    lasting.content.reset();
    if (lasting.origin == Origin::kConstant) {
      Differ("a tensor of the host is another one at each call, and stays");
    }
  }
}

// It is given all that autograd saved in the forward pass. What else it reads
// would be the recorded call's in each replay. (A formula of torch's may make a
// number of the host without an operator.)
void TapeRecorder::CheckBackwardReads() {
  for (const TapeRegister& reg : record_.registers) {
    if (reg.origin == Origin::kForeign &&
        !(reg.form.device.is_cpu() && reg.form.sizes.empty())) {
      Refuse("its backward pass reads a tensor that autograd has not saved");
    }
  }
}

void TapeRecorder::NoteOutput(const at::Tensor& output, Outcome& outcome) {
  const int32_t reg = RegisterOf(output);
  record_.outputs.push_back(reg);
  if (reg < 0) {
    Refuse("an output is no ordinary tensor");
    return;
  }
  const TapeRegister& given = record_.registers[static_cast<size_t>(reg)];
  if (given.origin == Origin::kInput &&
      !output.is_same(parts_.inputs[given.index])) {
    Refuse("an output is an argument's .data");
  }
  if (given.origin == Origin::kForeign &&
      given.foreign->_unsafe_get_target() != output.unsafeGetTensorImpl()) {
    Refuse("an output is the .data of a tensor from outside");
  }
  if (parts_.pass == TapePass::kForward) {
    if (given.origin == Origin::kResult &&
        outside_.contains(storages_[static_cast<size_t>(reg)])) {
      Refuse("an output is a view of what is outside");
    }
    return;
  }
  if (!output.requires_grad()) return;
  if (!in_backward_) {
    outcome.tracks_gradients |= parts_.level == TapeLevel::kBelowAutograd;
  } else if (output.grad_fn() != nullptr && !UsedUp(output.grad_fn(), 8)) {
    Refuse(
        "an output has a history still, beside a backward pass inside: "
        "detach it");
  }
}

void TapeRecorder::NoteWritten(Outcome& outcome) {
  for (size_t reg = 0; reg < record_.registers.size(); ++reg) {
    const TapeRegister& of = record_.registers[reg];
    if (of.origin == Origin::kResult ||
        !written_outside_.contains(storages_[reg])) {
      continue;
    }
    auto tensor = of.foreign.has_value() ? of.foreign->lock() : nullptr;
    if (tensor) {
      outcome.written.emplace_back(std::move(tensor));
    } else {
      Refuse("it writes an argument");
    }
  }
}

void TapeRecorder::NoteSaved(const at::Tensor& saved, size_t saved_from,
                             Outcome& outcome) {
  int32_t reg = RegisterOf(saved);
  // Autograd saves a tensor as what detach gives of it.
  while (reg >= 0) {
    const TapeCall* const maker = record_.MakerOf(reg);
    if (maker == nullptr || maker->op.operator_name().name != "aten::detach") {
      break;
    }
    reg = maker->arguments[0].registers[0];
  }
  if (reg < 0) {
    Refuse("autograd saves what is no ordinary tensor");
    return;
  }
  std::vector<int32_t>& all = record_.outputs;
  const auto first = all.begin() + static_cast<ptrdiff_t>(saved_from);
  const auto found = std::find(first, all.end(), reg);
  outcome.saved.push_back(static_cast<size_t>(found - first));
  if (found == all.end()) all.push_back(reg);
}

TapeRecorder::Outcome TapeRecorder::End(std::span<const at::Tensor> outputs,
                                        const std::vector<bool>& computed,
                                        size_t saved_from) {
  Include(parts_.level, false);
  g_recorder.store(nullptr, std::memory_order_release);
  ended_ = true;
  const bool below = parts_.level == TapeLevel::kBelowAutograd;
  Outcome outcome;
  const auto fill = [&] {
    outcome.reason = !refused_.empty() ? refused_ : differs_;
    outcome.place = ProgramPlaces().Take(question_);
  };
  if (refused_.empty()) {
    NoteGradients();
    const auto own = outputs.first(std::min(saved_from, outputs.size()));
    record_.saved_from = own.size();
    for (const at::Tensor& output : own) NoteOutput(output, outcome);
    for (const at::Tensor& saved : outputs.subspan(own.size())) {
      NoteSaved(saved, own.size(), outcome);
    }
    outcome.draws = draws_;
    if (parts_.pass == TapePass::kForward) NoteWritten(outcome);
    CheckOutside(outcome);
    NoteWatched();
    if (parts_.pass == TapePass::kBackward) CheckBackwardReads();
    // What a backward pass is given is saved as several tensors in one place.
    if (parts_.pass != TapePass::kBackward) CheckAliases(outputs);
    CheckConstants(outputs.subspan(own.size()));
    if (HasHooks()) Refuse("hooks are set on tensors inside");
    if (calls_python_ &&
        (in_backward_ || !record_.gradients.empty() || ReadsGradients())) {
      // They are given to their tensors at the end of a call.
      Refuse(
          "a function runs in each call (reprise.eager) where gradients are "
          "made: leave it out of the region");
    }
    if (!surroundings_.AllModesAreKept()) {
      Refuse("modes of torch's are changed");
    }
    if (outcome.tracks_gradients && hooks_inside_ != 0) {
      RefuseAt(hooks_inside_, kHooksInside);
      outcome.tracks_gradients = false;
    }
    if (hooks_disabled_) outcome.no_forward_pass = kDisablesHooks;
    if (in_backward_ && surroundings_.had_hooks()) {
      Refuse("hooks of saved tensors are set round a backward pass inside");
    }
    if (SeedOf(device_) != seed_) Refuse("the random generator is seeded");
  }
  if (!refused_.empty() || outcome.tracks_gradients) {
    fill();
    return outcome;
  }
  if (!parts_.expected.empty() && differs_.empty()) {
    if (const auto difference = matcher_.EndDiffers(computed)) {
      Differ(*difference);
    }
    outcome.as_expected = differs_.empty() && matcher_.NumbersFit();
  }
  if (outcome.as_expected) {
    TapeRecord matched = matcher_.TakeMatched();
    matched.watched = std::move(record_.watched);  // more since it was written
    for (size_t i = 0; i < matched.decides.size(); ++i) {
      matched.decides[i] = matched.decides[i] && record_.decides[i];
    }
    matched.fixed_offsets |= record_.fixed_offsets;
    matched.fixed_distances |= record_.fixed_distances;
    matched.in_one_place.merge(record_.in_one_place);
    matched.NoteComputed(computed);
    record_ = std::move(matched);
  } else {
    matcher_.ForgetNumbers();
    record_.NoteComputed(computed);
    record_.NoteUses();
    if (below) NoteViews(record_, storages_);
  }
  fill();
  outcome.expected = matcher_.which();
  outcome.read_another = matcher_.read_another();
  outcome.tape = std::make_shared<const Tape>(std::move(record_));
  return outcome;
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
