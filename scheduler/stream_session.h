// The one implementation of Session: a state machine over the op stream.

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
#include <variant>
#include <vector>

#include "cache/lru_map.h"
#include "engine/base/clock.h"
#include "engine/base/options.h"
#include "engine/executor.h"
#include "engine/frontend.h"
#include "engine/open_trace.h"
#include "engine/plan.h"
#include "engine/trace_recorder.h"
#include "scheduler/allowance.h"
#include "scheduler/attention.h"
#include "scheduler/externals.h"
#include "scheduler/heads.h"
#include "scheduler/journal.h"
#include "scheduler/novelty.h"
#include "scheduler/plan_cache.h"
#include "scheduler/predictor.h"
#include "scheduler/repetition.h"
#include "scheduler/session.h"
#include "scheduler/trace_entry.h"
#include "scheduler/trace_table.h"

namespace reprise::scheduler {

// Where the stream is:
//
//   kAway       paused; ops run by eager and are not looked at
//   kBoundary   between traces; the next op is a head
//   kWatching   eager runs, the open trace grows (and is recorded, perhaps)
//   kPassing    eager runs a trace that is known and not wanted now; only its
//               words are compared, nothing is numbered
//   kValidating eager runs, a plan runs beside it and is compared
//   kFollowing  a plan was launched; ops are compared with it and answered
//
// Every state but kAway goes back to kBoundary at the end of its trace, at a
// cut, and when the stream leaves what was expected.
class StreamSession final : public Session {
 public:
  struct Parts {
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
    // True while no op need be shown (PassOver); null: all are. Borrowed.
    std::atomic<bool>* asleep = nullptr;
  };

  explicit StreamSession(Parts parts);
  ~StreamSession() override;

  // Holds the session's lock as somebody who may wait for the allocator.
  class REPRISE_SCOPED_CAPABILITY Locked {
   public:
    explicit Locked(StreamSession& session) REPRISE_ACQUIRE(session.lock_)
        : session_(session) {
      session_.Lock();
      session_.may_allocate_.store(true, std::memory_order_relaxed);
    }
    ~Locked() REPRISE_RELEASE() {
      session_.may_allocate_.store(false, std::memory_order_relaxed);
      session_.Unlock();
    }
    Locked(const Locked&) = delete;
    Locked& operator=(const Locked&) = delete;

   private:
    StreamSession& session_;
  };

  Action Enter(const engine::OpView& op) override REPRISE_REQUIRES(lock_);
  bool wants_call() const override REPRISE_REQUIRES(lock_) {
    return recorder_ != nullptr && backend_->wants_call();
  }
  void Leave(const engine::OpView& op,
             std::span<const engine::ResultView> results,
             std::unique_ptr<engine::Call> call) override
      REPRISE_REQUIRES(lock_);
  void Abandon(const engine::OpView& op) override REPRISE_REQUIRES(lock_);
  bool Interrupt(const char* what) override REPRISE_EXCLUDES(lock_);
  void InterruptIfUsed(std::span<const MemoryRange> memory,
                       const char* what) override REPRISE_EXCLUDES(lock_);
  engine::Block TakeBlock(engine::ValueId value) override
      REPRISE_REQUIRES(lock_) {
    return instance().TakeBlock(value);
  }
  void Own(engine::ValueId value, engine::StorageToken storage) override
      REPRISE_REQUIRES(lock_) {
    instance().Own(value, storage);
  }

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

  // Calls `read` with the journal and the entries, under the lock.
  void Inspect(const std::function<void(const Journal&,
                                        const std::vector<const TraceEntry*>&,
                                        const engine::Frontend&)>& read)
      REPRISE_EXCLUDES(lock_);

 private:
  enum class Mode : uint8_t {
    kAway,
    kBoundary,
    kWatching,
    kPassing,
    kValidating,
    kFollowing
  };

  // A cut without an op. True if something had been run ahead.
  bool CutWithoutOp(const char* what) REPRISE_REQUIRES(lock_);
  void End() REPRISE_REQUIRES(lock_);  // of what is open; for Pause and Reset
  Action Sleep() REPRISE_REQUIRES(lock_);
  // An op that no plan expects; with markers in its words, and their hash.
  Action EnterUnmatched(const engine::OpView& op) REPRISE_REQUIRES(lock_);
  Action EnterMasked(const engine::OpView& op, const cache::Signature& words)
      REPRISE_REQUIRES(lock_);
  Action Observe() REPRISE_REQUIRES(lock_);
  // Puts markers in place of the op's numbers, in a copy of its words that
  // lives until the next call, and hashes them.
  cache::Signature Mask(engine::OpView& op) REPRISE_REQUIRES(lock_);
  Action RunCut(const engine::OpView& op, uint64_t hash,
                std::string_view reason) REPRISE_REQUIRES(lock_);
  // The op belongs to no trace, and the open one ends before it.
  Action LeaveOut(const engine::OpView& op, std::string_view reason)
      REPRISE_REQUIRES(lock_);

  // Leaving what was expected.
  void HandleOverlap() REPRISE_REQUIRES(lock_);
  void Diverge(const engine::OpView& op) REPRISE_REQUIRES(lock_);
  void SquashAt(const engine::OpView& op) REPRISE_REQUIRES(lock_);
  void Squash(uint32_t verified) REPRISE_REQUIRES(lock_);
  void LeaveValidation() REPRISE_REQUIRES(lock_);
  void DiscardOpenTrace() REPRISE_REQUIRES(lock_);
  // The program left the entry's plan before that op.
  void NoteLeaving(TraceEntry* entry, uint32_t op) REPRISE_REQUIRES(lock_);
  // The op came with numbers that the recordings do not tell enough of. True if
  // another recording may help: the plan is dropped then.
  bool LearnNumbers(TraceEntry* entry, uint32_t index, const engine::OpView& op)
      REPRISE_REQUIRES(lock_);

  // Watching.
  Action Watch(const engine::OpView& op, const cache::Signature& words)
      REPRISE_REQUIRES(lock_);
  bool BeginsTrace(const engine::OpView& op, uint64_t hash) const
      REPRISE_REQUIRES(lock_);
  void LeaveWatching(const engine::OpView& op,
                     std::span<const engine::ResultView> results)
      REPRISE_REQUIRES(lock_);
  // Device work that no op made came before this op of the recording: the
  // trace ends there, now and ever after.
  bool EndsAtForeignWork() REPRISE_REQUIRES(lock_);
  void Close() REPRISE_REQUIRES(lock_);
  bool Ends() REPRISE_REQUIRES(lock_);
  // The open trace may still become that one.
  bool MayBecome(const TraceEntry& entry) const REPRISE_REQUIRES(lock_);
  // The entry of the trace that was open.
  TraceEntry* EntryOfOpen() REPRISE_REQUIRES(lock_);
  bool Keeps(const TraceEntry& entry) const REPRISE_REQUIRES(lock_);
  void NoteCut(const engine::OpView& op, std::string_view reason)
      REPRISE_REQUIRES(lock_);
  void LearnCut(uint64_t hash, std::string_view reason) REPRISE_REQUIRES(lock_);
  // The op is what comes next in the trace that its head promised.
  bool IsExpected(uint64_t hash) const REPRISE_REQUIRES(lock_);
  // The op is another one each time where it stands.
  bool IsNew(uint64_t hash) REPRISE_REQUIRES(lock_);
  void LinkTrace(TraceEntry* entry) REPRISE_REQUIRES(lock_);

  // Whether the stream is worth watching now; called every so many ops.
  void LookAtWholeStream() REPRISE_REQUIRES(lock_);

  // Recording and validating, what they cost and whether they pay.
  bool MayLearn() REPRISE_REQUIRES(lock_);
  void StopLearning() REPRISE_REQUIRES(lock_);
  bool IsWorthRecording(const TraceEntry& entry) const REPRISE_REQUIRES(lock_);

  // Passing.
  std::optional<Action> TryPass(TraceEntry* entry) REPRISE_REQUIRES(lock_);
  bool PassOn(const engine::OpView& op, uint64_t hash) REPRISE_REQUIRES(lock_);

  // Heads.
  std::optional<Action> TryHead(const engine::OpView& op, uint64_t hash)
      REPRISE_REQUIRES(lock_);
  void StartRecording(engine::Backend::Pass pass) REPRISE_REQUIRES(lock_);
  bool MayRecord() const;
  bool WantsValidation(TraceEntry* entry) REPRISE_REQUIRES(lock_);
  // What this pass is to be, by policy, profit and rest after squashes.
  Profit::Mode ChooseMode(TraceEntry* entry) REPRISE_REQUIRES(lock_);
  std::optional<Action> TryPlan(TraceEntry* entry, const engine::OpView& op)
      REPRISE_REQUIRES(lock_);
  // Which instance this pass runs on. False if it is to be eager, because
  // another instance is on its way.
  bool TakeInstance(TraceEntry* entry) REPRISE_REQUIRES(lock_);
  std::optional<Action> StartValidation(TraceEntry* entry,
                                        const engine::OpView& op)
      REPRISE_REQUIRES(lock_);
  std::optional<Action> StartReplay(TraceEntry* entry, const engine::OpView& op)
      REPRISE_REQUIRES(lock_);
  bool Resolve(TraceEntry* entry, const engine::OpView& op)
      REPRISE_REQUIRES(lock_);
  Action Follow() REPRISE_REQUIRES(lock_);
  // Follows an op at which a segment is due; false if it cannot.
  bool LaunchAt(const engine::OpView& op) REPRISE_REQUIRES(lock_);
  // A launch that was due at the cursor did what the pass needs now; what else
  // went wrong is noted.
  bool Goes(const base::Status& launched) REPRISE_REQUIRES(lock_);
  // The op is the next one of the validation; launches a segment that is due.
  bool GoOnBeside(const engine::OpView& op) REPRISE_REQUIRES(lock_);
  void LeaveValidating(const engine::OpView& op,
                       std::span<const engine::ResultView> results)
      REPRISE_REQUIRES(lock_);
  base::Status CompareOp(const engine::OpView& op,
                         std::span<const engine::ResultView> results)
      REPRISE_REQUIRES(lock_);

  // A trace's way to a plan.
  void KeepRecording(TraceEntry* entry, std::unique_ptr<engine::Trace> trace)
      REPRISE_REQUIRES(lock_);
  void PostBuild(TraceEntry* entry, BuildJob::Makes makes)
      REPRISE_REQUIRES(lock_);
  void CollectBuild(TraceEntry* entry) REPRISE_REQUIRES(lock_);
  // The same for another instance of the pinned plan.
  bool WantsInstance(const TraceEntry& entry,
                     const engine::Plan::Choice& choice) const
      REPRISE_REQUIRES(lock_);
  void CollectInstance(TraceEntry* entry) REPRISE_REQUIRES(lock_);
  // The pinned plan, which is the entry's, is charged for what it is now.
  base::Status Recharge(const TraceEntry& entry) REPRISE_REQUIRES(lock_);
  void RefuseInstance(TraceEntry* entry, std::string_view reason)
      REPRISE_REQUIRES(lock_);
  void DropIdleInstance(TraceEntry* entry) REPRISE_REQUIRES(lock_);
  void CollectVerdict(TraceEntry* entry, engine::Executor::Patience patience)
      REPRISE_REQUIRES(lock_);
  void FailAt(TraceEntry* entry, std::optional<uint32_t> op,
              std::string_view reason, uint32_t tries) REPRISE_REQUIRES(lock_);
  void StartOver(TraceEntry* entry) REPRISE_REQUIRES(lock_);
  // What its plan names is not there any more.
  void Renew(TraceEntry* entry, std::string_view reason)
      REPRISE_REQUIRES(lock_);
  // An external lies where it never moved to while recorded: its next pass
  // proves that it can.
  void RecordAgain(TraceEntry* entry) REPRISE_REQUIRES(lock_);
  void DropPlan(TraceEntry* entry) REPRISE_REQUIRES(lock_);
  // Nothing of it is wanted in the cache any more, now or later.
  void Unpublish(TraceEntry& entry) REPRISE_REQUIRES(lock_);
  void GiveUp(TraceEntry* entry, std::string_view reason)
      REPRISE_REQUIRES(lock_);
  void Reject(const TraceEntry& entry, std::string_view reason)
      REPRISE_REQUIRES(lock_);

  PlanKey KeyOf(const TraceEntry& entry) const { return {entry.build, this}; }
  engine::Instance& instance() REPRISE_REQUIRES(lock_) { return *instance_; }

  // Of the ops and places that were learned something about.
  static constexpr size_t kMostLearned = 4096;

  std::unique_ptr<engine::Frontend> frontend_;
  std::unique_ptr<engine::Backend> backend_;
  PlanCache* plans_;
  std::function<void(std::shared_ptr<BuildJob>)> build_;
  const base::Options options_;
  const base::Policy policy_;
  const base::Clock& clock_;
  const std::atomic<bool>* recording_forbidden_;
  std::atomic<bool>* opened_;
  std::atomic<bool>* asleep_ REPRISE_GUARDED_BY(lock_);

  Mode mode_ REPRISE_GUARDED_BY(lock_) = Mode::kBoundary;
  // Between Enter(kObserve) and Leave: the words of the op, which name the
  // call.
  const uint64_t* observed_ REPRISE_GUARDED_BY(lock_) = nullptr;
  const uint64_t* entered_ REPRISE_GUARDED_BY(lock_) =
      nullptr;  // the words of the last op as it came
  std::vector<uint64_t> masked_ REPRISE_GUARDED_BY(lock_);
  uint64_t observed_hash_ REPRISE_GUARDED_BY(lock_) = 0;
  uint64_t generator_before_ REPRISE_GUARDED_BY(lock_) = 0;

  // kPassing, kValidating and kFollowing.
  TraceEntry* current_ REPRISE_GUARDED_BY(lock_) = nullptr;
  PlanCache::Pin pinned_
      REPRISE_GUARDED_BY(lock_);  // of `current_`, until the next plan is tried
  engine::Instance* instance_ REPRISE_GUARDED_BY(lock_) =
      nullptr;  // of the pinned plan
  size_t instance_index_ REPRISE_GUARDED_BY(lock_) = 0;
  uint32_t cursor_ REPRISE_GUARDED_BY(lock_) = 0;
  bool whole_ REPRISE_GUARDED_BY(lock_) = false;

  // kWatching.
  engine::OpenTrace open_ REPRISE_GUARDED_BY(lock_);
  uint64_t head_hash_ REPRISE_GUARDED_BY(lock_) = 0;
  std::vector<engine::StorageToken> head_storages_ REPRISE_GUARDED_BY(lock_);
  std::vector<uint64_t> op_hashes_ REPRISE_GUARDED_BY(lock_);
  Externals externals_ REPRISE_GUARDED_BY(lock_);
  TraceEntry* expected_ REPRISE_GUARDED_BY(lock_) =
      nullptr;  // by the head; null when nothing is
  Repetition repetition_ REPRISE_GUARDED_BY(lock_);
  bool repeated_ REPRISE_GUARDED_BY(lock_) =
      false;  // the next op begins a loop's body once more
  std::unique_ptr<engine::TraceRecorder> recorder_ REPRISE_GUARDED_BY(lock_);
  engine::Backend::Pass recording_pass_ REPRISE_GUARDED_BY(lock_) =
      engine::Backend::Pass::kFirst;

  Heads heads_ REPRISE_GUARDED_BY(lock_);
  Predictor predictor_ REPRISE_GUARDED_BY(lock_);
  // Trimmed at a boundary, where no trace is expected.
  TraceTable traces_ REPRISE_GUARDED_BY(lock_);
  uint64_t last_build_ REPRISE_GUARDED_BY(lock_) = 0;  // of those posted
  // Signatures of traces that end there whatever was expected: the program goes
  // several ways from there.
  cache::LruMap<cache::Signature, std::monostate> ends_
      REPRISE_GUARDED_BY(lock_){kMostLearned};
  // Ops, by the hash of their words, that are cuts, and why.
  cache::LruMap<uint64_t, std::string> learned_cuts_ REPRISE_GUARDED_BY(lock_){
      kMostLearned};
  // Ops, by the hash of their masked words, whose numbers are not masked: a
  // build found that nothing tells how kernels hold them.
  cache::LruMap<uint64_t, std::monostate> unmasked_ REPRISE_GUARDED_BY(lock_){
      kMostLearned};
  // Ops that may try out kernels, by the hash of their words: how often in a
  // row they could not be recorded.
  cache::LruMap<uint64_t, uint32_t> trials_ REPRISE_GUARDED_BY(lock_){
      kMostLearned};
  Novelty novelty_ REPRISE_GUARDED_BY(lock_);
  Allowance allowance_ REPRISE_GUARDED_BY(lock_);
  Attention attention_ REPRISE_GUARDED_BY(lock_);  // by policy kMeasured only
  Journal journal_ REPRISE_GUARDED_BY(lock_);
  // For BeforeMemoryGoes, which has no lock yet: a pass is followed (false is
  // released by the end of a squash: what it restores has been launched); who
  // is inside may wait for the allocator (relaxed: it only ends the waiting).
  std::atomic<bool> following_{false};
  std::atomic<bool> may_allocate_{false};
  // Times that plans were released since the journal was last read. Relaxed: it
  // only counts.
  std::atomic<uint64_t> releases_{0};
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_STREAM_SESSION_H_
