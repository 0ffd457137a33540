#include "bindings/torch/region/tape_stretches.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <new>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "bindings/torch/base/plain_tensor.h"
#include "bindings/torch/hook/op_call.h"
#include "bindings/torch/hook/result_maker.h"
#include "bindings/torch/hook/watched_op.h"
#include "bindings/torch/region/tape_ops.h"
#include "bindings/torch/region/tape_views.h"
#include "bindings/torch/runtime/op_table.h"
#include "bindings/torch/runtime/session_source.h"
#include "bindings/torch/runtime/torch_frontend.h"
#include "engine/replay/ledger.h"

namespace reprise::bindings {
namespace {

using Kind = TapeArgument::Kind;

// What a stretch is looked at for is less than so many ops take.
constexpr size_t kFewestOps = 3;
constexpr size_t kMostInOnePlace = 16;
constexpr size_t kMostTried = 32;
constexpr uint64_t kPause = 3;     // runs between two that learn something
constexpr uint64_t kSeldom = 255;  // where nothing new is to be learned

size_t At(int32_t reg) { return static_cast<size_t>(reg); }

const c10::IValue& HostValue(const engine::ResultSpec& spec) {
  return *static_cast<const c10::IValue*>(spec.host.get());
}

bool IsHostTensor(const engine::ResultSpec& spec) {
  return spec.kind == engine::ResultSpec::Kind::kHost &&
         HostValue(spec).isTensor();
}

// Without an offset, where the tensor begins in its storage.
scheduler::Session::Operand Placed(const c10::TensorImpl& tensor,
                                   const engine::ValueRef& ref,
                                   std::optional<uint64_t> offset_bytes = {}) {
  const c10::StorageImpl& storage = *tensor.storage().unsafeGetStorageImpl();
  scheduler::Session::Operand placed{.ref = ref, .at = {}};
  placed.at.storage = TokenOf(storage);
  placed.at.base = BaseOf(storage);
  placed.at.offset_bytes = offset_bytes.value_or(
      static_cast<uint64_t>(tensor.storage_offset()) * tensor.itemsize());
  placed.at.storage_bytes = storage.nbytes();
  return placed;
}

uint64_t AlignmentOf(const scheduler::Session::Operand& operand) {
  return AlignmentClass(operand.at.address(), t_thread_state.kind);
}

// The tensor is what MakeResult would give.
bool IsAsSaid(const at::Tensor& tensor, const engine::ResultSpec& spec) {
  return tensor.defined() && IsPlainTensor(*tensor.unsafeGetTensorImpl()) &&
         static_cast<int32_t>(tensor.scalar_type()) == spec.dtype &&
         tensor.key_set().raw_repr() == spec.key_set &&
         static_cast<uint64_t>(tensor.storage_offset()) * spec.element_bytes ==
             spec.offset_bytes &&
         std::ranges::equal(tensor.sizes(), spec.sizes) &&
         std::ranges::equal(tensor.strides(), spec.strides);
}

}  // namespace

TapeStretches::Run::Run(const Tape& tape, TapeStretches* stretches,
                        TapeValues& made)
    : tape_(tape), record_(tape.record()), stretches_(stretches), made_(made) {
  if (stretches == nullptr || tape.level() != TapeLevel::kBelowAutograd) {
    stretches_ = nullptr;
    return;
  }
  for (const TapeRegister& reg : tape.record().registers) {
    if (reg.form.device.is_cuda()) {
      device_ = reg.form.device.index();
      break;
    }
  }
  {
    const std::lock_guard lock(stretches->mutex_);
    ++stretches->runs_;
    const uint64_t pause = stretches->missed_
                               ? stretches->pause_
                               : std::max(stretches->pause_, kSeldom);
    learns_ = stretches->runs_ >= stretches->learned_at_ + pause;
    if (!learns_) known_ = stretches->all_;
  }
  if (learns_) (void)made_.TakeAll();  // they are there
  Begin();
}

TapeStretches::Run::~Run() {
  if (stretches_ == nullptr) return;
  try {
    EndPass();
    // Where nothing is replayed now there is nothing to be learned.
    All learned = saw_replay_ ? Of(record_, learned_) : All();
    for (const std::shared_ptr<const TapeStretch>& one : learned) {
      gone_over_ += one->calls.size();
    }
    const uint64_t followed = Followed() - followed_;
    stretches_->Note(std::move(learned),
                     {.has_learned = saw_replay_,
                      .shown = followed - std::min(gone_over_, followed),
                      .missed = missed_});
  } catch (const std::bad_alloc&) {  // then nothing is learned
  }
}

void TapeStretches::Run::Begin() {
  scheduler::Session* const session = FindSession();
  if (session == nullptr) return;
  const LockedSession locked(*session);
  followed_ = session->following().followed;
  if (tape_.tells_passes() && session->BeginPass()) in_pass_ = session;
}

void TapeStretches::Run::EndPass() {
  // Who switches Reprise off ends all passes. Sessions are there for good.
  if (in_pass_ == nullptr || !WatchedNow().has_value()) return;
  const LockedSession locked(*in_pass_);
  in_pass_->EndPass();
}

uint64_t TapeStretches::Run::Followed() {
  scheduler::Session* const session = FindSession();
  if (session == nullptr) return followed_;
  const LockedSession locked(*session);
  return session->following().followed;
}

scheduler::Session* TapeStretches::Run::FindSession() {
  ThreadState& thread = t_thread_state;
  if (thread.depth != 0 || !thread.Refresh() || thread.asleep->on()) {
    return nullptr;
  }
  return thread.FindSession(device_);
}

// --- Going over -----------------------------------------------------------

size_t TapeStretches::Run::GoOverKnown(size_t call) {
  const auto first_call = [](const std::shared_ptr<const TapeStretch>& one) {
    return one->first_call;
  };
  const auto here = std::ranges::equal_range(*known_, call, {}, first_call);
  if (here.empty()) return 0;
  scheduler::Session* const session = FindSession();
  if (session == nullptr) return 0;
  scheduler::Session::Following following;
  {
    const LockedSession locked(*session);
    following = session->following();
  }
  const std::thread::id thread = std::this_thread::get_id();
  for (const std::shared_ptr<const TapeStretch>& stretch : here) {
    if (following.program == nullptr ||
        stretch->first_op != following.next_op || stretch->thread != thread ||
        stretch->program.lock() != following.program) {
      continue;
    }
    const size_t calls = GoOverOne(*stretch, *session, *following.program);
    if (calls == 0) NoteMiss(call, following.program);
    return calls;
  }
  if (following.program != nullptr) NoteMiss(call, following.program);
  return 0;
}

void TapeStretches::Run::NoteMiss(
    size_t call, const std::shared_ptr<const engine::Program>& program) {
  missed_ = true;
  if (!stretches_->Tries(call, program)) return;
  learns_ = true;
  known_.reset();
  (void)made_.TakeAll();  // they are there
}

size_t TapeStretches::Run::GoOverOne(const TapeStretch& stretch,
                                     scheduler::Session& session,
                                     const engine::Program& program) {
  MakeCalls(stretch.before);
  if (!FindGiven(stretch)) return 0;
  SpanUnderWay writing;
  const bool told = TellOfWrites(stretch, session, writing);
  const auto kind = t_thread_state.kind;
  const auto make = [&](const TapeStretch::Result& result) {
    const engine::ResultSpec& spec =
        program.trace->ops[result.op].results[result.result];
    at::Tensor& made = made_[result.reg];
    if (!spec.IsValue()) {
      made = CopyHostTensor(*HostValue(spec).toTensor().unsafeGetTensorImpl());
      return;
    }
    c10::Storage storage = TakeStorage(session, spec, kind, device_);
    made = result.by_form
               ? MakeOver(storage, record_.registers[At(result.reg)].form)
               : MakeResult(spec, std::move(storage), kind);
  };
  auto wanted = stretch.wanted.begin();
  auto bump = stretch.bumps.begin();
  auto drop = stretch.drops.begin();
  const auto passed = [&](uint32_t op) {
    for (; wanted != stretch.wanted.end() && wanted->op == op; ++wanted) {
      make(*wanted);
    }
    for (; bump != stretch.bumps.end() && bump->op == op; ++bump) {
      c10::TensorImpl* const written = made_.Look(bump->reg);
      for (uint32_t i = 0; written != nullptr && i < bump->times; ++i) {
        written->bump_version();
      }
    }
    // What is behind may be written over it. No other memory is released under
    // the session's lock.
    for (; drop != stretch.drops.end() && drop->op == op; ++drop) {
      at::Tensor& made = made_[drop->reg];
      if (made.defined() && made.use_count() == 1 &&
          engine::Ledger::IsLease(made.storage().data_ptr().get_deleter())) {
        made.reset();
      }
    }
  };
  size_t end = stretch.end_call;
  TapeRecord::Used used;
  {
    const LockedSession locked(session);
    const uint32_t followed = session.FollowUnseen(
        {.program = &program,
         .next_op = stretch.first_op,
         .ops = static_cast<uint32_t>(stretch.calls.size()),
         .operands = given_,
         .taken = stretch.taken,
         .told = told},
        passed);
    if (followed == 0) return 0;
    gone_over_ += followed;
    if (followed < stretch.calls.size()) {
      // The calls from there on are made, of what was gone over.
      end = stretch.calls[followed];
      used = record_.UsedBehind(stretch.first_call, end);
      for (const TapeStretch::Result& result : stretch.results) {
        if (result.op < stretch.first_op + followed &&
            used.results.contains(result.reg) && !made_[result.reg].defined()) {
          make(result);
        }
      }
    }
  }
  writing.End();
  if (end == stretch.end_call) {
    MakeCalls(stretch.views);
    for (const TapeStretch::Drop& each : stretch.drops) {
      made_[each.reg].reset();
    }
  } else {
    MakeCalls(used.views);
    for (size_t c = stretch.first_call; c < end; ++c) {
      made_.DropBehind(record_.calls[c]);
    }
  }
  return end - stretch.first_call;
}

void TapeStretches::Run::MakeCalls(const std::vector<size_t>& calls) {
  for (const size_t c : calls) {
    const TapeCall& call = record_.calls[c];
    if (call.only_views) {
      made_.MakeViews(call);
    } else {
      made_.Make(call, {.tensors = {}, .numbers = {}, .modes = 0}, stack_);
    }
  }
}

bool TapeStretches::Run::FindGiven(const TapeStretch& stretch) {
  given_.clear();
  for (size_t i = 0; i < stretch.given.size(); ++i) {
    constexpr size_t kAhead = 6;
    if (i + kAhead < stretch.given.size()) {
      const auto* const ahead = made_.Look(stretch.given[i + kAhead].reg);
      if (ahead != nullptr) {
        Prefetch(ahead->unsafe_storage().unsafeGetStorageImpl(),
                 sizeof(c10::StorageImpl));
      }
    }
    const TapeStretch::Given& given = stretch.given[i];
    c10::TensorImpl* const tensor = made_.Look(given.reg);
    if (tensor == nullptr) return false;
    given_.push_back(Placed(*tensor, given.ref, given.offset_bytes));
    if (AlignmentOf(given_.back()) != given.alignment) return false;
  }
  return true;
}

bool TapeStretches::Run::TellOfWrites(const TapeStretch& stretch,
                                      scheduler::Session& session,
                                      SpanUnderWay& writing) {
  if (!stretch.writes) return true;
  if (!OthersAreTold()) return false;
  std::vector<engine::Operand> written;
  for (size_t i = 0; i < stretch.given.size(); ++i) {
    if (!stretch.given[i].ref.written) continue;
    written.push_back(given_[i].at);
    written.back().written = true;
  }
  engine::OpView all;
  all.operands = written;
  writing.Begin(written, &session);
  BeforeOp(&session, all, /*may_wait=*/false, t_thread_state.wait);
  return true;
}

// --- Learning -------------------------------------------------------------

bool TapeStretches::Run::MayBeUnseen(const TapeCall& call) const {
  if (!call.read.isNone() || call.calls_python) return false;
  return std::ranges::none_of(
      call.arguments, [this](const TapeArgument& argument) {
        if (argument.kind == Kind::kNumber) return true;
        // What a tensor of the host holds is a part of the op.
        return t_thread_state.kind == scheduler::DeviceKind::kCuda &&
               std::ranges::any_of(argument.registers, [this](int32_t reg) {
                 return reg >= 0 && !made_[reg].is_cuda();
               });
      });
}

void TapeStretches::Run::NoteVersions(const TapeCall& call) {
  for (const TapeArgument& argument : call.arguments) {
    for (const int32_t reg : argument.registers) {
      if (reg < 0 || !record_.registers[At(reg)].outside) continue;
      const at::Tensor& tensor = made_[reg];
      if (tensor.is_inference()) continue;  // counts nothing
      due_.versions.emplace_back(reg, tensor._version());
    }
  }
  // A list may have one twice.
  std::ranges::sort(due_.versions);
  const auto twice = std::ranges::unique(due_.versions);
  due_.versions.erase(twice.begin(), twice.end());
}

bool TapeStretches::Run::FindOperands(const TapeCall& call,
                                      scheduler::Session& session) {
  std::vector<int32_t> given;  // in the order in which hooks encode them
  for (const TapeArgument& argument : call.arguments) {
    std::ranges::copy_if(argument.registers, std::back_inserter(given),
                         [](int32_t reg) { return reg >= 0; });
  }
  const std::vector<engine::ValueRef>& refs = due_.op->operands;
  // The op itself tells where it is.
  const auto is_told = [this](const engine::ValueRef& ref) {
    return due_.program->effects.late(ref.value) &&
           due_.program->trace->values[ref.value].birth_op == due_.index;
  };
  if (due_.own) {
    if (given.size() != refs.size()) return false;
    for (size_t i = 0; i < refs.size(); ++i) {
      const auto placed =
          Placed(*made_[given[i]].unsafeGetTensorImpl(), refs[i]);
      if (!is_told(refs[i]) && !session.IsAt(placed)) return false;
      due_.operands.push_back({given[i], refs[i], AlignmentOf(placed)});
    }
    return true;
  }
  // A part of what the call did: where each lies is all that is known.
  std::vector<bool> found(refs.size(), false);
  for (const int32_t reg : given) {
    const size_t before = due_.operands.size();
    for (size_t i = 0; i < refs.size(); ++i) {
      const auto placed = Placed(*made_[reg].unsafeGetTensorImpl(), refs[i]);
      if (!session.IsAt(placed)) continue;
      due_.operands.push_back({reg, refs[i], AlignmentOf(placed)});
      found[i] = true;
    }
    if (due_.operands.size() == before) return false;
  }
  return std::ranges::all_of(found, std::identity());
}

void TapeStretches::Run::LearnBefore(size_t call) {
  learned_.resize(record_.calls.size());
  due_ = {};
  scheduler::Session* const session = FindSession();
  if (session == nullptr) return;
  const TapeCall& made = record_.calls[call];
  const bool may_be_unseen = MayBeUnseen(made);
  const LockedSession locked(*session);
  scheduler::Session::Following following = session->following();
  if (following.program == nullptr) return;
  saw_replay_ = true;
  due_ = {.program = following.program,
          .index = following.next_op,
          .followed = following.followed};
  if (GivesViews(made.op)) return;
  const engine::TracedOp& op = following.program->trace->ops[following.next_op];
  due_.op = &op;
  due_.own = OpName(op.op) == c10::toString(made.op.operator_name());
  if (!may_be_unseen || op.by_eager ||
      !following.program->effects.tells_places(following.next_op) ||
      !FindOperands(made, *session)) {
    due_ = {};
  } else {
    NoteVersions(made);
  }
}

bool TapeStretches::Run::FindResults(const TapeCall& call,
                                     scheduler::Session* session,
                                     Known& known) const {
  using SpecKind = engine::ResultSpec::Kind;
  const std::vector<engine::ResultSpec>& all = due_.op->results;
  const auto is_new = [&](int32_t reg) {
    return reg >= 0 && record_.MakerOf(reg) == &call;
  };
  const auto makes = [&](const engine::ResultSpec& spec) {
    const engine::Value& value = due_.program->trace->values[spec.value];
    return !value.external && value.birth_op == due_.index &&
           std::ranges::count_if(all, [&](const engine::ResultSpec& other) {
             return other.IsValue() && other.value == spec.value;
           }) == 1;
  };
  if (!due_.own) {
    // One value, seen in another form.
    if (session == nullptr || all.size() != 1 || !all[0].IsValue() ||
        !makes(all[0]) || call.results.size() != 1 ||
        !is_new(call.results[0])) {
      return false;
    }
    const at::Tensor& made = made_[call.results[0]];
    const uint64_t offset_bytes =
        static_cast<uint64_t>(made.storage_offset()) * made.itemsize();
    const TensorForm& form = record_.registers[At(call.results[0])].form;
    known.results.push_back({call.results[0], due_.index, 0, true});
    return form.Fits(*made.unsafeGetTensorImpl(), /*has_gradient=*/false) &&
           form.storage_offset == made.storage_offset() &&
           MakeOver(made.storage(), form).key_set() == made.key_set() &&
           session->IsAt(
               Placed(*made.unsafeGetTensorImpl(),
                      {.value = all[0].value, .offset_bytes = offset_bytes}));
  }
  // By index, those that stand for tensors; others are numbers.
  std::vector<uint32_t> specs;
  for (uint32_t i = 0; i < all.size(); ++i) {
    if (all[i].kind != SpecKind::kHost || IsHostTensor(all[i])) {
      specs.push_back(i);
    }
  }
  // What is returned by reference has no part in them.
  if (specs.empty()) return std::ranges::none_of(call.results, is_new);
  if (specs.size() != call.results.size()) return false;
  for (size_t i = 0; i < specs.size(); ++i) {
    const engine::ResultSpec& spec = all[specs[i]];
    const int32_t reg = call.results[i];
    switch (spec.kind) {
      case SpecKind::kUndefined:
        if (reg >= 0) return false;
        break;
      case SpecKind::kOperand:
        // Else it is a register that there was before.
        if (is_new(reg)) return false;
        break;
      case SpecKind::kHost:
        if (spec.tells != engine::ResultSpec::Tells::kNothing || !is_new(reg)) {
          return false;
        }
        known.results.push_back({reg, due_.index, specs[i], false});
        break;
      case SpecKind::kValue:
        if (!is_new(reg) || !makes(spec) || !IsAsSaid(made_[reg], spec)) {
          return false;
        }
        known.results.push_back({reg, due_.index, specs[i], false});
        break;
    }
  }
  return true;
}

void TapeStretches::Run::LearnAfter(size_t call) {
  scheduler::Session* const session = FindSession();
  if (session == nullptr) return;
  const LockedSession locked(*session);
  const scheduler::Session::Following now = session->following();
  if (due_.op == nullptr) {
    learned_[call].views = now.followed == due_.followed &&
                           now.program == due_.program &&
                           now.next_op == due_.index;
    return;
  }
  const bool last = due_.index + 1 == due_.program->trace->ops.size();
  const bool one =
      now.followed == due_.followed + 1 &&
      (last ? now.program == nullptr
            : now.program == due_.program && now.next_op == due_.index + 1);
  Known known{.program = due_.program,
              .op = due_.index,
              .operands = std::move(due_.operands)};
  const auto storage_of = [this](const TapeStretch::Bump& bump) {
    return made_[bump.reg].storage().unsafeGetStorageImpl();
  };
  for (const auto& [reg, before] : due_.versions) {
    const uint32_t times = made_[reg]._version() - before;
    if (times == 0) continue;
    const TapeStretch::Bump bump{reg, due_.index, times};
    // They may be counted together, or each by itself.
    if (std::ranges::find(known.bumps, storage_of(bump), storage_of) !=
        known.bumps.end()) {
      return;
    }
    known.bumps.push_back(bump);
  }
  if (one &&
      FindResults(record_.calls[call], last ? nullptr : session, known)) {
    learned_[call] = std::move(known);
  }
}

void TapeStretches::Note(All learned, const Outcome& outcome) {
  const std::lock_guard lock(mutex_);
  // Others are shown now: there is another plan, perhaps.
  missed_ |= outcome.missed || outcome.shown >= shown_ + kFewestOps;
  if (!outcome.has_learned) return;
  missed_ = all_ == nullptr && learned.empty();
  shown_ = outcome.shown;
  learned_at_ = runs_;
  All all;
  if (all_ != nullptr) {
    std::ranges::copy_if(*all_, std::back_inserter(all), [](const auto& one) {
      return !one->program.expired();
    });
  }
  bool new_ones = false;
  for (std::shared_ptr<const TapeStretch>& one : learned) {
    const auto same = std::ranges::find_if(all, [&one](const auto& other) {
      return other->first_call == one->first_call &&
             other->first_op == one->first_op && other->thread == one->thread &&
             other->program.lock() == one->program.lock();
    });
    if (same != all.end()) {
      if ((*same)->calls.size() >= one->calls.size()) continue;
      all.erase(same);
    }
    new_ones = true;
    const auto [begin, end] = std::ranges::equal_range(
        all, one->first_call, {},
        [](const auto& other) { return other->first_call; });
    if (static_cast<size_t>(end - begin) >= kMostInOnePlace) {
      all.erase(std::prev(end));  // the oldest
      all.insert(std::ranges::lower_bound(
                     all, one->first_call, {},
                     [](const auto& other) { return other->first_call; }),
                 std::move(one));
    } else {
      all.insert(begin, std::move(one));
    }
  }
  // Odd, so that it is not always the same plan of two in turn.
  pause_ = new_ones ? kPause : std::min(2 * pause_ + 1, kSeldom);
  if (!all.empty()) all_ = std::make_shared<const All>(std::move(all));
}

bool TapeStretches::Tries(size_t call,
                          const std::weak_ptr<const engine::Program>& program) {
  const std::lock_guard lock(mutex_);
  const auto is_it = [&](const Tried& other) {
    return other.call == call && !other.program.owner_before(program) &&
           !program.owner_before(other.program);
  };
  if (runs_ < learned_at_ + kPause || std::ranges::any_of(tried_, is_it)) {
    return false;
  }
  if (tried_.size() == kMostTried) tried_.erase(tried_.begin());
  tried_.push_back({call, program});
  return true;
}

void TapeStretches::NoteDrops(const TapeRecord& tape, TapeStretch& stretch) {
  // By register, the last call that uses it, or a view of it: views are made at
  // the end, or where the stretch is cut short. Others are used behind.
  std::unordered_map<int32_t, size_t> last;
  for (size_t c = stretch.first_call; c < stretch.end_call; ++c) {
    for (const int32_t reg : tape.calls[c].last_uses) last[reg] = c;
  }
  std::unordered_set<int32_t> to_the_end;
  for (size_t c = stretch.end_call; c-- > stretch.first_call;) {
    const TapeCall& call = tape.calls[c];
    if (!call.views) continue;
    const int32_t of = call.arguments[0].registers[0];
    const auto found = last.find(of);
    if (found == last.end()) continue;
    for (const int32_t reg : call.results) {
      const auto view = last.find(reg);
      if (view == last.end() || to_the_end.contains(reg)) {
        if (reg >= 0) to_the_end.insert(of);
      } else {
        found->second = std::max(found->second, view->second);
      }
    }
  }
  for (const auto& [reg, call] : last) {
    const bool early =
        tape.MakerOf(reg) != nullptr && !to_the_end.contains(reg);
    const auto behind = std::ranges::upper_bound(stretch.calls, call);
    const auto op = static_cast<uint32_t>(behind - stretch.calls.begin());
    stretch.drops.push_back(
        {reg, early ? stretch.first_op + op - 1 : ~uint32_t{0}});
  }
  std::ranges::sort(stretch.drops, {}, &TapeStretch::Drop::op);
}

TapeStretches::All TapeStretches::Of(const TapeRecord& tape,
                                     const std::vector<Run::Known>& calls) {
  All all;
  for (size_t begin = 0; begin < calls.size();) {
    begin = calls[begin].program == nullptr ? begin + 1
                                            : Add(tape, calls, begin, all);
  }
  return all;
}

size_t TapeStretches::Add(const TapeRecord& tape,
                          const std::vector<Run::Known>& calls, size_t begin,
                          All& all) {
  auto stretch = std::make_shared<TapeStretch>();
  stretch->first_call = begin;
  stretch->thread = std::this_thread::get_id();
  stretch->program = calls[begin].program;
  stretch->first_op = calls[begin].op;
  std::unordered_set<size_t> before;
  size_t end = begin;
  // What these calls make, but those that are made first.
  const auto inside = [&](const TapeCall* maker) {
    if (maker == nullptr) return false;
    const auto index = static_cast<size_t>(maker - tape.calls.data());
    return index >= begin && index < end && !before.contains(index);
  };
  size_t last = begin;  // behind the last op
  for (size_t c = begin; c < calls.size(); ++c) {
    if (c != begin && c == tape.drops_gradients_at) break;
    end = c + 1;
    const TapeCall& call = tape.calls[c];
    const Run::Known& known = calls[c];
    if (call.views && (known.views || call.only_views)) continue;
    if (known.views) {
      // Of memory that is elsewhere in each call.
      const bool of_before = std::ranges::none_of(
          call.arguments, [&](const TapeArgument& argument) {
            return argument.kind == Kind::kNumber ||
                   std::ranges::any_of(argument.registers, [&](int32_t reg) {
                     return reg >= 0 && inside(tape.MakerOf(reg));
                   });
          });
      if (!of_before) break;
      before.insert(c);
      continue;
    }
    if (known.program != calls[begin].program ||
        known.op != stretch->first_op + stretch->calls.size()) {
      break;
    }
    stretch->calls.push_back(c);
    last = c + 1;
  }
  end = last;
  if (stretch->calls.size() < kFewestOps) return end;
  stretch->end_call = end;
  std::erase_if(before, [end](size_t c) { return c >= end; });
  stretch->before.assign(before.begin(), before.end());
  std::ranges::sort(stretch->before);
  for (const size_t c : stretch->calls) {
    const Run::Known& known = calls[c];
    std::ranges::copy(known.results, std::back_inserter(stretch->results));
    for (TapeStretch::Bump bump : known.bumps) {
      // A view counts together with what it leads to.
      for (const TapeCall* maker = tape.MakerOf(bump.reg);
           inside(maker) && maker->views; maker = tape.MakerOf(bump.reg)) {
        bump.reg = maker->arguments[0].registers[0];
      }
      stretch->bumps.push_back(bump);
    }
    for (const Run::Operand& operand : known.operands) {
      TapeStretch::Given given{.reg = operand.reg,
                               .offset_bytes = {},
                               .ref = operand.ref,
                               .alignment = operand.alignment};
      const TapeCall* maker = tape.MakerOf(operand.reg);
      // A view is at its own offset in the memory of what it leads to.
      for (; inside(maker) && maker->views; maker = tape.MakerOf(given.reg)) {
        const TensorForm& form = tape.registers[At(operand.reg)].form;
        given.offset_bytes = static_cast<uint64_t>(form.storage_offset) *
                             c10::elementSize(form.dtype);
        given.reg = maker->arguments[0].registers[0];
      }
      if (inside(maker)) continue;
      stretch->writes |= given.ref.written;
      const auto known_given = std::ranges::find_if(
          stretch->given, [&given](const TapeStretch::Given& other) {
            return other.reg == given.reg &&
                   other.offset_bytes == given.offset_bytes &&
                   other.ref.value == given.ref.value &&
                   other.ref.offset_bytes == given.ref.offset_bytes;
          });
      if (known_given == stretch->given.end()) {
        stretch->given.push_back(given);
      } else {
        known_given->ref.written |= given.ref.written;
      }
    }
  }
  const TapeRecord::Used used = tape.UsedBehind(begin, end);
  std::ranges::copy_if(stretch->results, std::back_inserter(stretch->wanted),
                       [&used](const TapeStretch::Result& result) {
                         return used.results.contains(result.reg);
                       });
  for (const TapeStretch::Result& result : stretch->wanted) {
    const engine::ResultSpec& spec =
        calls[begin].program->trace->ops[result.op].results[result.result];
    if (spec.IsValue()) stretch->taken.push_back(spec.value);
  }
  std::ranges::sort(stretch->taken);
  stretch->views = used.views;
  NoteDrops(tape, *stretch);
  all.push_back(std::move(stretch));
  return end;
}

}  // namespace reprise::bindings
