#include "bindings/torch/region/stretch_run.h"

#include <algorithm>
#include <functional>
#include <new>
#include <thread>
#include <utility>

#include "bindings/torch/base/plain_tensor.h"
#include "bindings/torch/hook/result_maker.h"
#include "bindings/torch/hook/watched_op.h"
#include "bindings/torch/region/stretch_operand.h"
#include "bindings/torch/region/tape_views.h"
#include "bindings/torch/runtime/session_source.h"
#include "bindings/torch/runtime/thread_state.h"
#include "engine/replay/ledger.h"

namespace reprise::bindings {

// Is called behind each op that is followed, in their order: makes what is
// wanted of it, counts its writes, and drops what nobody uses behind it. Under
// the session's lock; borrows all that it is made of.
class StretchRun::Results {
 public:
  Results(const TapeStretch& stretch, scheduler::Session& session,
          const engine::Program& program, StretchRun& run)
      : stretch_(stretch), session_(session), program_(program), run_(run) {}

  void operator()(uint32_t op) {
    for (; wanted_ != stretch_.wanted.end() && wanted_->op == op; ++wanted_) {
      Make(*wanted_);
    }
    for (; bump_ != stretch_.bumps.end() && bump_->op == op; ++bump_) {
      c10::TensorImpl* const written = run_.made_.Look(bump_->reg);
      for (uint32_t i = 0; written != nullptr && i < bump_->times; ++i) {
        written->bump_version();
      }
    }
    // What is behind may be written over it. No other memory is released under
    // the session's lock.
    for (; drop_ != stretch_.drops.end() && drop_->op == op; ++drop_) {
      at::Tensor& made = run_.made_[drop_->reg];
      if (made.defined() && made.use_count() == 1 &&
          engine::Ledger::IsLease(made.storage().data_ptr().get_deleter())) {
        made.reset();
      }
    }
  }

  // Only ops before `end_op` were followed: makes what is used of these.
  void MakeUsed(const TapeRecord::Used& used, uint32_t end_op) {
    for (const TapeStretch::Result& result : stretch_.results) {
      if (result.op < end_op && used.results.contains(result.reg) &&
          !run_.made_[result.reg].defined()) {
        Make(result);
      }
    }
  }

 private:
  void Make(const TapeStretch::Result& result) {
    const engine::ResultSpec& spec =
        program_.trace->ops[result.op].results[result.result];
    at::Tensor& made = run_.made_[result.reg];
    if (!spec.IsValue()) {
      made = CopyHostTensor(*static_cast<const c10::IValue*>(spec.host.get())
                                 ->toTensor()
                                 .unsafeGetTensorImpl());
      return;
    }
    c10::Storage storage = TakeStorage(session_, spec, kind_, run_.device_);
    const auto reg = static_cast<size_t>(result.reg);
    made = result.by_form ? MakeOver(storage, run_.record_.registers[reg].form)
                          : MakeResult(spec, std::move(storage), kind_);
  }

  const TapeStretch& stretch_;
  scheduler::Session& session_;
  const engine::Program& program_;
  StretchRun& run_;
  const scheduler::DeviceKind kind_ = t_thread_state.kind;
  std::vector<TapeStretch::Result>::const_iterator wanted_ =
      stretch_.wanted.begin();
  std::vector<TapeStretch::Bump>::const_iterator bump_ = stretch_.bumps.begin();
  std::vector<TapeStretch::Drop>::const_iterator drop_ = stretch_.drops.begin();
};

StretchRun::StretchRun(const Tape& tape, TapeStretches* stretches,
                       TapeValues& made)
    : tape_(tape),
      record_(tape.record()),
      stretches_(stretches),
      made_(made),
      learner_(record_, made) {
  if (stretches == nullptr || tape.level() != TapeLevel::kBelowAutograd) {
    stretches_ = nullptr;
    return;
  }
  for (const TapeRegister& reg : record_.registers) {
    if (reg.form.device.is_cuda()) {
      device_ = reg.form.device.index();
      break;
    }
  }
  TapeStretches::Start start = stretches->Begin();
  learns_ = start.learns;
  known_ = std::move(start.known);
  if (learns_) (void)made_.TakeAll();  // they are there
  Begin();
}

StretchRun::~StretchRun() {
  if (stretches_ == nullptr) return;
  try {
    EndPass();
    // Where nothing is replayed now there is nothing to be learned.
    TapeStretchList learned =
        learner_.saw_replay() ? learner_.Found() : TapeStretchList();
    for (const std::shared_ptr<const TapeStretch>& one : learned) {
      gone_over_ += one->calls.size();
    }
    const uint64_t followed = Followed() - followed_;
    stretches_->Note(std::move(learned),
                     {.has_learned = learner_.saw_replay(),
                      .shown = followed - std::min(gone_over_, followed),
                      .missed = missed_});
  } catch (const std::bad_alloc&) {  // then nothing is learned
  }
}

void StretchRun::Begin() {
  scheduler::Session* const session = FindSession();
  if (session == nullptr) return;
  const LockedSession locked(*session);
  followed_ = session->following().followed;
  if (tape_.tells_passes() && session->BeginPass()) in_pass_ = session;
}

void StretchRun::EndPass() {
  // Who switches Reprise off ends all passes. Sessions are there for good.
  if (in_pass_ == nullptr || !WatchedNow().has_value()) return;
  const LockedSession locked(*in_pass_);
  in_pass_->EndPass();
}

uint64_t StretchRun::Followed() {
  scheduler::Session* const session = FindSession();
  if (session == nullptr) return followed_;
  const LockedSession locked(*session);
  return session->following().followed;
}

scheduler::Session* StretchRun::FindSession() {
  ThreadState& thread = t_thread_state;
  if (thread.depth != 0 || !thread.Refresh() || thread.asleep->on()) {
    return nullptr;
  }
  return thread.FindSession(device_);
}

size_t StretchRun::GoOverKnown(size_t call) {
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

void StretchRun::NoteMiss(
    size_t call, const std::shared_ptr<const engine::Program>& program) {
  missed_ = true;
  if (!stretches_->Tries(call, program)) return;
  learns_ = true;
  known_.reset();
  (void)made_.TakeAll();  // they are there
}

size_t StretchRun::GoOverOne(const TapeStretch& stretch,
                             scheduler::Session& session,
                             const engine::Program& program) {
  MakeCalls(stretch.before);
  if (!FindGiven(stretch)) return 0;
  SpanUnderWay writing;
  const bool told = TellOfWrites(stretch, session, writing);
  Results results(stretch, session, program, *this);
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
        std::ref(results));
    if (followed == 0) return 0;
    gone_over_ += followed;
    if (followed < stretch.calls.size()) {
      // The calls from there on are made, of what was gone over.
      end = stretch.calls[followed];
      used = record_.UsedBehind(stretch.first_call, end);
      results.MakeUsed(used, stretch.first_op + followed);
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

void StretchRun::MakeCalls(const std::vector<size_t>& calls) {
  for (const size_t c : calls) {
    const TapeCall& call = record_.calls[c];
    if (call.only_views) {
      made_.MakeViews(call);
    } else {
      made_.Make(call, {.tensors = {}, .numbers = {}, .modes = 0}, stack_);
    }
  }
}

bool StretchRun::FindGiven(const TapeStretch& stretch) {
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

bool StretchRun::TellOfWrites(const TapeStretch& stretch,
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

}  // namespace reprise::bindings
