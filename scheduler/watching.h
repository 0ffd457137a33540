// A pass that is watched, and perhaps recorded.

#ifndef REPRISE_SCHEDULER_WATCHING_H_
#define REPRISE_SCHEDULER_WATCHING_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cache/lru_map.h"
#include "cache/signature.h"
#include "engine/base/options.h"
#include "engine/base/tries.h"
#include "engine/trace/frontend.h"
#include "engine/trace/op.h"
#include "engine/trace/open_trace.h"
#include "engine/trace/work_recorder.h"
#include "scheduler/boundaries.h"
#include "scheduler/externals.h"
#include "scheduler/journal.h"
#include "scheduler/learning.h"
#include "scheduler/lifecycle.h"
#include "scheduler/loop_finder.h"
#include "scheduler/trace_entry.h"

namespace reprise::scheduler {

// Eager runs each op, and the open trace grows by it, until it is found to end:
//
//   Begin ─► (Takes ─► Enter ─► Leave)* ─► Close: an entry has the trace
//                                    └───► Drop: nothing has it
//
// What Learning records meanwhile goes to the entry, if that waits for it.
// Under the session's lock. Cost of an op: its values are numbered and its
// words hashed into the trace's signature.
class Watching {
 public:
  struct Parts {  // all borrowed
    engine::Frontend* frontend = nullptr;
    engine::WorkRecorder* work = nullptr;
    const base::Options* options = nullptr;
    Journal* journal = nullptr;
    Boundaries* boundaries = nullptr;
    Learning* learning = nullptr;
    Lifecycle* life = nullptr;
  };
  explicit Watching(const Parts& parts);

  // A trace is opened at that head, which promises the expected one (null: none
  // is known). Traces of another kind are others, whatever their ops are.
  void Begin(const engine::OpView& op, uint64_t hash, uint64_t kind,
             TraceEntry* expected);

  // The op is what comes next in the trace that was expected.
  bool IsExpected(uint64_t hash) const;
  // The trace has ended before this op.
  bool EndsBefore(const engine::OpView& op, uint64_t hash);
  // The op may be part of a trace: where it writes what this one has not made,
  // that can be replayed.
  bool Takes(const engine::OpView& op) const {
    return !open_.WritesExternal(op) || TakesOutside(op);
  }
  // While a trace is open: what the op writes is what that has made.
  bool WritesOwn(const engine::OpView& op) const {
    return !open_.WritesExternal(op);
  }
  // The op comes, and eager is about to run it.
  void Enter(const engine::OpView& op, const cache::Signature& words);
  // Eager has run the op that came last. False if it is no part of any trace:
  // the trace is to be dropped.
  bool Leave(const engine::OpView& op,
             std::span<const engine::ResultView> results);
  // The op that came last is the last one of the trace.
  bool Ends();

  // A pass of the program's is over, and the next one begins: so does a trace,
  // but one of which it is known that it goes on.
  bool MayEndHere() const;
  // Until that ends no trace ends before a head or a loop's body: it is sought
  // none. What has come of the open trace before goes on behind the pass.
  void BeginPass() {
    in_pass_ = true;
    ops_of_pass_ = 0;
  }
  void EndPass() { in_pass_ = false; }
  bool in_pass() const { return in_pass_; }

  // How a trace comes to its end.
  enum class Ending : uint8_t {
    kByItself,  // it is over
    kByCut,     // more of it may have come, if there had been no cut
  };
  void Close(Ending ending);
  void Drop();

  // Of the trace's ops so far.
  const cache::Signature& signature() const { return open_.signature(); }
  // Of the op that came last.
  uint64_t hash() const { return hash_; }
  // Forgets what was learned of ops.
  void Forget() { tried_.Clear(); }

 private:
  // The op with which the open trace began.
  struct Head {
    uint64_t hash = 0;
    std::vector<engine::StorageToken> storages;  // of its operands
    uint64_t behind = 0;                         // the op before
    bool of_pass = false;                        // it came in a pass
  };
  // From then on it is sought for loops: it may be all that a program does.
  static constexpr uint32_t kLongPass = 1024;

  bool TakesOutside(const engine::OpView& op) const;
  bool BeginsTrace(const engine::OpView& op, uint64_t hash);
  // The next op comes behind that one, as far as is known.
  bool IsBehind(uint64_t op) const;
  bool IsBehindOneOf(std::span<const uint64_t> ops) const;
  // Its pass tells where it ends.
  bool EndsWithPass() const { return head_.of_pass && in_pass_; }
  // More is to come of what is expected: of any trace, of one that came more
  // than once, of what was joined.
  bool Awaits() const;
  bool IsPromised() const;
  // That op is what is expected next, as far as is known.
  bool MayComeNext(uint64_t hash) const;
  bool IsJoined() const;
  // Device work that no op made came before the op of the recording that is
  // due: traces end there, now and ever after.
  bool EndsAtForeignWork();
  // The op, which is due in the recording, uses memory that the ops before do
  // not tell of: traces end there, now and ever after.
  bool EndsAtUnseenBytes(const engine::OpView& op);
  // What `beginning` was joined to has come to its end, as `entry`.
  void EndJoin(TraceEntry* beginning, TraceEntry* entry);
  // The open trace is that one.
  bool IsWhole(const TraceEntry& entry) const {
    return open_.ops() == entry.ops && open_.signature() == entry.signature;
  }
  // No trace that waits for the recording can come any more, as far as is
  // known.
  bool RecordsInVain() const;
  // The open trace may still become that one.
  bool MayBecome(const TraceEntry& entry) const;

  engine::WorkRecorder& work_;
  const base::Options& options_;
  Journal& journal_;
  Boundaries& boundaries_;
  Learning& learning_;
  Lifecycle& life_;

  bool in_pass_ = false;
  uint32_t ops_of_pass_ = 0;  // that were watched
  engine::OpenTrace open_;
  Head head_;
  std::vector<uint64_t> op_hashes_;
  Externals externals_;
  TraceEntry* promised_ = nullptr;  // by the head
  TraceEntry* expected_ = nullptr;  // the same, or another one that may come
  LoopFinder loops_;
  // A loop's body began inside of a pass: the next one begins behind that.
  bool body_is_due_ = false;
  uint32_t goes_on_until_ = 0;  // the op, if what was expected was joined
  uint64_t hash_ = 0;
  // Ops that were recorded, or may try out kernels, by the hash of their words.
  // One that cannot be recorded is a cut; these may have been trials, or what
  // their library does when it comes to another stream.
  static constexpr base::Tries kTrials{2};
  static constexpr size_t kMostTried = 4096;
  cache::LruMap<uint64_t, base::Tries> tried_{kMostTried};
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_WATCHING_H_
