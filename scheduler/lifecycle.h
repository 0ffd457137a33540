// A trace's way to a plan and back.

#ifndef REPRISE_SCHEDULER_LIFECYCLE_H_
#define REPRISE_SCHEDULER_LIFECYCLE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "cache/lru_map.h"
#include "engine/base/options.h"
#include "engine/base/status.h"
#include "engine/replay/backend.h"
#include "engine/replay/plan.h"
#include "engine/trace/frontend.h"
#include "engine/trace/op.h"
#include "engine/trace/trace.h"
#include "scheduler/boundaries.h"
#include "scheduler/build_job.h"
#include "scheduler/instances.h"
#include "scheduler/joining.h"
#include "scheduler/journal.h"
#include "scheduler/number_mask.h"
#include "scheduler/pass_timer.h"
#include "scheduler/plan_cache.h"
#include "scheduler/retention.h"
#include "scheduler/span.h"
#include "scheduler/trace_entry.h"
#include "scheduler/trace_table.h"

namespace reprise::scheduler {

// Owns the entries of a session's traces and takes each from state to state
// (TraceEntry::State): recordings come in, builds go out, verdicts come back,
// and what fails or changed is tried again or given up. Erases their plans from
// the cache when it ends. Under the session's lock.
class Lifecycle {
 public:
  struct Parts {  // all borrowed, but `build` and `track`
    engine::Frontend* frontend = nullptr;
    engine::Backend* backend = nullptr;
    PlanCache* plans = nullptr;
    // Runs a build off the program's threads.
    std::function<void(std::shared_ptr<BuildJob>)> build;
    const base::Options* options = nullptr;
    Journal* journal = nullptr;
    Boundaries* boundaries = nullptr;
    NumberMask* numbers = nullptr;
    PassTimer* timer = nullptr;
    // In keys of the cache, whose plans they are.
    const void* session = nullptr;
    Track track;
  };
  explicit Lifecycle(Parts parts);
  ~Lifecycle();
  Lifecycle(const Lifecycle&) = delete;
  Lifecycle& operator=(const Lifecycle&) = delete;

  // --- Traces that come ---

  // The entry of a trace that has come to its end.
  TraceEntry* EntryFor(TraceTable::Closed closed);
  // A pass of its trace has come to its end, watched or not.
  void PassEnded(TraceEntry* entry);
  // Of passes of traces that had come before.
  uint64_t known_ops() const { return known_ops_; }
  // Of passes of those that promised something, or were about to be joined.
  uint64_t promising_ops() const { return promising_ops_; }
  // What was joined is no good: from now on its parts are traces again.
  void ComeApart(TraceEntry* entry, std::string_view reason);
  // Its head has come, and a run of it of which the length is known: they are
  // one trace from now on.
  void JoinRun(TraceEntry* entry);
  // A trace that was only seen is worth a recording: its next pass is recorded.
  void WantRecording(TraceEntry* entry);
  // What it keeps has changed; entries may be forgotten. To be called where
  // nobody uses one.
  void CountAndTrim(TraceEntry* entry);

  // --- From recordings to a plan ---

  // The head of a trace that was recorded once has come.
  void NoteReleased(TraceEntry* entry);
  // The recording that the entry waited for.
  void Keep(TraceEntry* entry, std::unique_ptr<engine::Trace> trace);
  // kBuilding: goes on if the build is done.
  void CollectBuild(TraceEntry* entry);
  // A validation of that instance has been enqueued.
  static void AwaitVerdict(TraceEntry* entry, size_t instance);
  // A verdict is pending: goes on if it is there.
  void CollectVerdict(TraceEntry* entry, engine::Executor::Patience patience);
  // All builds that are done, and all verdicts, which are waited for.
  void Settle();

  // --- A plan, and its instances ---

  // Pins its plan. Empty where that was evicted: the entry starts over then, or
  // waits first (Renewal).
  PlanCache::Pin Pin(TraceEntry* entry);
  // Which of its instances a pass runs on.
  Instances& instances() { return instances_; }
  // Its instance was resolved, or could not be: values of another plan are
  // alive in its arena.
  void HasRoom(TraceEntry* entry, const engine::Instance& instance);
  void HasNoRoom(TraceEntry* entry,
                 const std::shared_ptr<engine::Ledger>& arena, size_t index);

  // --- Back ---

  // The program left a pass of its plan before `op`. `operands`: the same op
  // came, on other operands.
  void NoteLeaving(TraceEntry* entry, const engine::Effects& effects,
                   uint32_t op, const engine::TracedOp& traced, bool operands);
  // The instance has answered so, not kReady, when that op came for its op of
  // that index: learns what this shows of the trace. True if the trace is to be
  // recorded for that, now or with its next pass: the plan is dropped.
  bool After(engine::Instance::Readiness readiness, TraceEntry* entry,
             const engine::Instance& instance, uint32_t index,
             const engine::OpView& op);
  // The op, which came for `traced`, brings numbers that the recordings do not
  // tell enough of. True if another recording may help: the plan is dropped.
  bool LearnNumbers(TraceEntry* entry, uint32_t index,
                    const engine::TracedOp& traced, const engine::OpView& op);
  // The generator is not where the plan has it, because the program has set it.
  // True if another recording may tell of it: the plan is dropped.
  bool LearnDraws(TraceEntry* entry);
  // The program keeps values for longer than it did when they were recorded.
  void LearnOutliving(TraceEntry* entry,
                      std::span<const engine::ValueId> values);
  // A validation could not tell whether the op is nondeterministic.
  void CannotTell(TraceEntry* entry, uint32_t op, std::string_view reason) {
    FailAt(entry, op, reason);
  }
  // The op, which warned in no recording, has warned in a validation.
  void Warned(TraceEntry* entry, uint32_t op) {
    FailAt(entry, op, "warns, which it did not when it was recorded");
  }
  // A pass of its plan was left, for an op that was due could not be launched.
  // Where the op itself refused (kFailedPrecondition: it raised an error, say),
  // another pass may bring other data: the plan rests, and is given up only
  // where that happens time and again.
  void CouldNotRun(TraceEntry* entry, const base::Error& error);
  // Its plan is not as it should be any more: it starts over when its head
  // comes.
  static void Outdate(TraceEntry* entry);
  // Back to its first recording, for what was learned since.
  void StartOver(TraceEntry* entry);
  // Its plan is of no use any more, for that reason: what it names is not there
  // (a library's memory, or these externals, which are taken for inputs from
  // now on if they did not last), or it gave way. Recorded again, ever more
  // rarely where plans do not last.
  void Renew(TraceEntry* entry, std::string_view reason,
             std::span<const engine::ValueId> replaced);
  void GiveUp(TraceEntry* entry, std::string_view reason);

  // Forgets all.
  void Clear() {
    traces_.Clear();
    instances_.Clear();
    nondeterministic_.Clear();
  }

  std::vector<const TraceEntry*> entries();
  size_t counted_bytes() const { return traces_.counted_bytes(); }
  uint64_t forgotten() const { return traces_.forgotten(); }

 private:
  // Externals lie where they never moved to while recorded: the next pass is
  // recorded, and proves that they can; where that does not help, a later one.
  void LearnMoves(TraceEntry* entry, std::span<const engine::ValueId> values);
  // What earlier passes have told of the trace, and its recording cannot.
  void TellWhatIsKnown(const TraceEntry& entry, engine::Trace& trace);
  // `from` says what is built from what.
  void PostBuild(TraceEntry* entry, BuildJob::Parts from);
  // What a validation found of the ops, each by itself or in whole segments.
  // False if the entry has gone another way, or has to be validated again.
  bool Judge(TraceEntry* entry, const engine::Plan& plan,
             const engine::Verdict& verdict);
  // All suspects were seen to be nondeterministic: whatever has such ops is
  // recorded again, as a trace that has them.
  void LearnNondeterministic(TraceEntry* entry, const engine::Trace& trace);

  // It ends there from now on, and what is behind is a trace of its own.
  void SplitAt(TraceEntry* entry, const cache::Signature& beginning,
               std::string_view reason);
  void FailAt(TraceEntry* entry, std::optional<uint32_t> op,
              std::string_view reason);
  // They always come one behind the other: one trace from now on, with what
  // else always comes behind them.
  void Join(TraceEntry* entry, TraceEntry* behind);
  // A pass of the entry has ended: drops plans whose traces come no more.
  void DropIdle(TraceEntry* entry);
  // From its next head on it goes on for so many ops, to become a longer one;
  // it has no plan until that has come. False if it does not.
  bool GoOn(TraceEntry* entry, uint32_t ops);
  // Back to one recording: another second one may tell more.
  void RecordAgain(TraceEntry* entry);
  // Its plan has been evicted.
  void GaveWay(TraceEntry* entry);
  void DropPlan(TraceEntry* entry);
  // Values of its recording that come from outside behind the head, and have
  // come as two storages that were alive at once.
  static std::vector<engine::ValueId> ComeBeside(const TraceEntry& entry,
                                                 const engine::Trace& trace);
  // Nothing of it is wanted in the cache any more, now or later.
  void Unpublish(TraceEntry& entry);
  void Reject(const TraceEntry& entry, std::string_view reason);
  PlanKey KeyOf(const TraceEntry& entry) const {
    return {entry.build, parts_.session};
  }

  const Parts parts_;
  Journal& journal_;
  Boundaries& boundaries_;
  PlanCache& plans_;
  TraceTable traces_;
  // Ops, by the hash of their words.
  static constexpr size_t kMostLearned = 4096;
  cache::LruMap<uint64_t, std::monostate> nondeterministic_{kMostLearned};
  uint64_t last_build_ = 0;  // of those posted
  uint64_t passes_ = 0;      // that have ended
  uint64_t known_ops_ = 0;   // of passes of traces that had come before
  uint64_t promising_ops_ = 0;
  Instances instances_;
  Retention retention_;
  Joining joining_;
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_LIFECYCLE_H_
