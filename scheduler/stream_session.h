// The one implementation of Session: a state machine over the op stream.
//
// Larger than its limit: a session owns the parts that outlive a pass, and this
// is where they are put together.

#ifndef REPRISE_SCHEDULER_STREAM_SESSION_H_
#define REPRISE_SCHEDULER_STREAM_SESSION_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cache/signature.h"
#include "engine/base/clock.h"
#include "engine/base/options.h"
#include "engine/replay/backend.h"
#include "engine/replay/instance.h"
#include "engine/trace/frontend.h"
#include "scheduler/allocator_wait.h"
#include "scheduler/attention.h"
#include "scheduler/boundaries.h"
#include "scheduler/journal.h"
#include "scheduler/learning.h"
#include "scheduler/lifecycle.h"
#include "scheduler/number_mask.h"
#include "scheduler/ops_under_way.h"
#include "scheduler/pass_choice.h"
#include "scheduler/pass_edges.h"
#include "scheduler/pass_timer.h"
#include "scheduler/passing.h"
#include "scheduler/plan_cache.h"
#include "scheduler/plan_pass.h"
#include "scheduler/replay.h"
#include "scheduler/session.h"
#include "scheduler/skipping.h"
#include "scheduler/span.h"
#include "scheduler/stream_sleep.h"
#include "scheduler/stream_writes.h"
#include "scheduler/trace_entry.h"
#include "scheduler/unwatched_work.h"
#include "scheduler/validation.h"
#include "scheduler/watching.h"

namespace reprise::scheduler {

// Shows the stream to one pass after another, and chooses which one is next:
//
//   kAway       none: paused; ops run by eager and are not looked at
//   kBoundary   none: the next op is a head
//   kWatching   Watching: eager runs, the open trace grows, and may be recorded
//   kPassing    Passing: eager runs a trace that is known and not wanted now
//   kValidating Validation: eager runs, a plan runs beside it and is compared
//   kReplaying  Replay: a plan was launched; ops are compared with it, answered
//
// A pass ends at the end of its trace, at a cut, and when the stream leaves
// what was expected; kBoundary follows, where PassChoice says which pass is
// next. What outlives a pass has classes of its own: Boundaries, Learning,
// Lifecycle.
class StreamSession final : public Session, private engine::PlaceAsker {
 public:
  struct Parts {
    DeviceKind kind = DeviceKind::kHost;
    std::unique_ptr<engine::Frontend> frontend;
    std::unique_ptr<engine::Backend> backend;
    PlanCache* plans = nullptr;  // borrowed
    // Runs a build off the program's threads.
    std::function<void(std::shared_ptr<BuildJob>)> build;
    base::Options options;
    base::Policy policy = base::Policy::kAlways;  // kAuto resolved
    // Asked under the session's lock. Borrowed.
    const base::Clock* clock = &base::kSteadyClock;
    // While it is true nothing is recorded or validated; null: never. Borrowed.
    const std::atomic<bool>* recording_forbidden = nullptr;
    // Becomes true when a trace is begun; null: nobody asks. Borrowed.
    std::atomic<bool>* opened = nullptr;
    // What other streams have to be told; null: there is none. Borrowed.
    const StreamWrites* writes = nullptr;
    // The ops that threads are inside of; null: nobody notes them. Borrowed.
    const OpsUnderWay* under_way = nullptr;
    // On while no op need be shown (PassOver); null: all are. Borrowed.
    Skipping* asleep = nullptr;
    // What was enqueued meanwhile; null: nobody asks. Borrowed.
    UnwatchedWork* unwatched = nullptr;
    Track track;
  };

  explicit StreamSession(Parts parts);
  ~StreamSession() override;

  // Holds the session's lock as somebody who may wait for the allocator.
  class REPRISE_SCOPED_CAPABILITY Locked {
   public:
    explicit Locked(StreamSession& session) REPRISE_ACQUIRE(session.lock_)
        : session_(session) {
      session_.Lock();
      session_.allocator_wait_.SetMayAllocate(true);
    }
    ~Locked() REPRISE_RELEASE() {
      session_.allocator_wait_.SetMayAllocate(false);
      session_.Unlock();
    }
    Locked(const Locked&) = delete;
    Locked& operator=(const Locked&) = delete;

   private:
    StreamSession& session_;
  };

  Action Enter(const engine::OpView& op) override REPRISE_REQUIRES(lock_) {
    return MustTell(op) ? Action::kTell : StreamSession::EnterTold(op);
  }
  Action EnterTold(const engine::OpView& op) override REPRISE_REQUIRES(lock_);
  bool wants_call() const override REPRISE_REQUIRES(lock_) {
    return learning_.recording() && backend_->wants_call();
  }
  void Leave(const engine::OpView& op,
             std::span<const engine::ResultView> results,
             std::unique_ptr<engine::Call> call) override
      REPRISE_REQUIRES(lock_);
  void Abandon(const engine::OpView& op) override REPRISE_REQUIRES(lock_);
  bool Interrupt(const char* what) override REPRISE_EXCLUDES(lock_);
  bool BeginPass() override REPRISE_REQUIRES(lock_);
  void EndPass() override REPRISE_REQUIRES(lock_);
  // Another stream has begun, and nothing of it was shown yet: a replay that
  // has private values ends here.
  void EndPrivacy() REPRISE_EXCLUDES(lock_);
  void InterruptUnlessAt(const uint64_t* words, const char* what) override
      REPRISE_EXCLUDES(lock_);
  void InterruptIfUsed(const MemoryRanges& memory, const char* what) override
      REPRISE_EXCLUDES(lock_);
  engine::Block TakeBlock(engine::ValueId value) override
      REPRISE_REQUIRES(lock_) {
    return in_use_.instance->TakeBlock(value);
  }
  void Own(engine::ValueId value, engine::StorageToken storage) override
      REPRISE_REQUIRES(lock_) {
    in_use_.instance->Own(value, storage);
  }
  engine::GeneratorState drawn() const override REPRISE_REQUIRES(lock_) {
    return in_use_.instance->drawn();
  }
  Following following() const override REPRISE_REQUIRES(lock_);
  bool IsAt(const Operand& operand) const override REPRISE_REQUIRES(lock_) {
    return mode_ == Mode::kReplaying &&
           replay_.IsAt(operand.ref, operand.at.storage, operand.at.address());
  }
  uint32_t FollowUnseen(const Unseen& ops,
                        const std::function<void(uint32_t)>& passed) override
      REPRISE_REQUIRES(lock_);

  const Track& track() const { return track_; }

  // The rest takes the lock itself, waiting for it. Any thread.

  // So many ops of the stream were not shown, because it is asleep.
  void PassOver(uint64_t ops) REPRISE_EXCLUDES(lock_);
  // From now on all of its ops are shown.
  void ShowAll() REPRISE_EXCLUDES(lock_);
  // Waits for verdicts of validations that have been enqueued.
  void Settle() REPRISE_EXCLUDES(lock_);
  // The hooks were switched off: ends what is open, leaving the program with
  // what it has seen. From then on until Resume ops run by eager: one may have
  // been on its way here when the hooks were switched off, and those behind it
  // are not shown any more.
  void Pause() REPRISE_EXCLUDES(lock_);
  void Resume() REPRISE_EXCLUDES(lock_);
  // Recording was forbidden: drops what is being recorded, so that CUPTI is
  // free on return. The program is followed and watched as before.
  void StopRecording() REPRISE_EXCLUDES(lock_);
  void Reset() REPRISE_EXCLUDES(lock_);

  // Evicts this session's plans, but the one that is followed or validated, and
  // returns the bytes they were charged; they are recorded again when their
  // traces come. Any thread, also in the middle of an op and under a lock that
  // the frontend's allocator takes: unlike the others it never waits for the
  // session's lock. Where somebody is inside, the last plan stays, too.
  uint64_t ReleasePlans();

  // Memory that the program has freed is about to go back to the device. Where
  // that may be memory which a squash of the pass under way would have to read,
  // the pass is squashed now. Any thread, also under the frontend's allocator's
  // lock: waits for a thread that follows an op, which never waits for that
  // lock, and for no other.
  void BeforeMemoryGoes();

  // Of the plan of that trace (as hex): of several the one that was replayed
  // most. Null: there is none now.
  std::shared_ptr<const engine::Program> FindProgram(std::string_view signature)
      REPRISE_EXCLUDES(lock_);

  // Calls `read` with the journal and the entries, under the lock.
  void Inspect(const std::function<void(const Journal&,
                                        const std::vector<const TraceEntry*>&,
                                        const engine::Frontend&)>& read)
      REPRISE_EXCLUDES(lock_);

 private:
  void Tell(uint64_t question, const std::string& place) override
      REPRISE_EXCLUDES(lock_);

  enum class Mode : uint8_t {
    kAway,
    kBoundary,
    kWatching,
    kPassing,
    kValidating,
    kReplaying
  };

  // For the constructor.
  PlanPass::Parts OnPlans(const StreamWrites* writes)
      REPRISE_NO_THREAD_SAFETY_ANALYSIS;

  // --- The stream ---

  // There are several streams, whose sessions have to know of the op before it
  // runs. Of cuts they are told when those have been answered.
  bool MustTell(const engine::OpView& op) const REPRISE_REQUIRES(lock_) {
    if (writes_ == nullptr || !writes_->several()) [[likely]]
      return false;
    return op.cut == nullptr && (op.by_eager || !WritesOwn(op));
  }
  // What the op writes is what the pass under way has made.
  bool WritesOwn(const engine::OpView& op) const REPRISE_REQUIRES(lock_);
  // An op that no plan expects; with markers in its words, and their hash.
  Action EnterUnmatched(const engine::OpView& op) REPRISE_REQUIRES(lock_);
  Action EnterMasked(const engine::OpView& op, const cache::Signature& words)
      REPRISE_REQUIRES(lock_);
  // The op may begin a trace.
  Action EnterHead(const engine::OpView& op, const cache::Signature& words)
      REPRISE_REQUIRES(lock_);
  // What a trace that begins with the op that came goes by, of its words' hash.
  uint64_t HeadOf(uint64_t hash) const REPRISE_REQUIRES(lock_);
  // Null `head`: it does not begin one.
  Action Watch(const engine::OpView& op, const cache::Signature& words,
               std::optional<uint64_t> head, TraceEntry* expected)
      REPRISE_REQUIRES(lock_);
  Action Follow() REPRISE_REQUIRES(lock_);
  Action Observe() REPRISE_REQUIRES(lock_);
  // The op that came is one of the trace that is let pass.
  Action Pass() REPRISE_REQUIRES(lock_);
  Action RunCut(const engine::OpView& op, uint64_t hash,
                std::string_view reason) REPRISE_REQUIRES(lock_);
  // The op belongs to no trace, and the open one ends before it.
  Action LeaveOut(const engine::OpView& op, uint64_t hash,
                  std::string_view reason) REPRISE_REQUIRES(lock_);
  // A cut without an op. True if something had been run ahead.
  bool CutWithoutOp(const char* what) REPRISE_REQUIRES(lock_);
  // What comes now is in no trace.
  void NoteGap() REPRISE_REQUIRES(lock_);
  void NoteCut(const engine::OpView& op, std::string_view reason)
      REPRISE_REQUIRES(lock_);

  // --- Passes end ---

  // The trace that is watched, if one is, is one.
  void Close(Watching::Ending ending) REPRISE_REQUIRES(lock_);
  // Its end, if a pass is under way, will not be told.
  void ForgetPass() REPRISE_REQUIRES(lock_);
  // It is none, nor is the one that is let pass.
  void Discard() REPRISE_REQUIRES(lock_);
  // The pass is over, or has been left.
  void EndReplay() REPRISE_REQUIRES(lock_);
  // It is over: all of it was followed.
  void EndFollowed() REPRISE_REQUIRES(lock_);
  // The pass under way, whichever it is, ends for another reason than an op.
  void Break() REPRISE_REQUIRES(lock_);

  // --- Whether the stream is worth looking at ---

  // Called every so many ops.
  [[gnu::cold, gnu::noinline]] void LookAtWholeStream() REPRISE_REQUIRES(lock_);
  Action Sleep() REPRISE_REQUIRES(lock_);

  std::unique_ptr<engine::Frontend> frontend_;
  std::unique_ptr<engine::Backend> backend_;
  PlanCache* plans_;
  const base::Options options_;
  const base::Policy policy_;
  const Track track_;
  std::atomic<bool>* opened_;
  const StreamWrites* writes_;  // null: there is one stream

  Mode mode_ REPRISE_GUARDED_BY(lock_) = Mode::kBoundary;
  PassEdges edges_ REPRISE_GUARDED_BY(lock_);
  // The words of the last op as they came, which name the call; and of the one
  // between Enter(kObserve) and Leave, else null.
  const uint64_t* entered_ REPRISE_GUARDED_BY(lock_) = nullptr;
  const uint64_t* observed_ REPRISE_GUARDED_BY(lock_) = nullptr;

  // Stands still while the stream is away (kAway): what a pass takes, and
  // whether it pays to watch, nobody learns from what is not shown.
  base::StoppableClock clock_ REPRISE_GUARDED_BY(lock_);
  Journal journal_ REPRISE_GUARDED_BY(lock_);
  NumberMask numbers_ REPRISE_GUARDED_BY(lock_);
  Boundaries boundaries_ REPRISE_GUARDED_BY(lock_);
  PassTimer timer_ REPRISE_GUARDED_BY(lock_);  // by policy kMeasured only
  Learning learning_ REPRISE_GUARDED_BY(lock_);
  Lifecycle life_ REPRISE_GUARDED_BY(lock_);
  // Pinned until the next plan is tried.
  PlanInUse in_use_ REPRISE_GUARDED_BY(lock_);
  StreamSleep sleep_ REPRISE_GUARDED_BY(lock_);

  Watching watching_ REPRISE_GUARDED_BY(lock_);
  Passing passing_ REPRISE_GUARDED_BY(lock_);
  Validation validation_ REPRISE_GUARDED_BY(lock_);
  Replay replay_ REPRISE_GUARDED_BY(lock_);
  PassChoice choice_ REPRISE_GUARDED_BY(lock_);

  AllocatorWait allocator_wait_;  // for BeforeMemoryGoes
  // Times that plans were released since the journal was last read. Relaxed: it
  // only counts.
  std::atomic<uint64_t> releases_{0};
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_STREAM_SESSION_H_
