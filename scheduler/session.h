// The stream of one device and stream, watched, recorded, validated, followed.

#ifndef REPRISE_SCHEDULER_SESSION_H_
#define REPRISE_SCHEDULER_SESSION_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "engine/base/spin_lock.h"
#include "engine/program/program.h"
#include "engine/replay/instance.h"
#include "engine/trace/block.h"
#include "engine/trace/frontend.h"
#include "engine/trace/op.h"
#include "engine/trace/storage_holds.h"
#include "engine/trace/trace.h"
#include "scheduler/memory_ranges.h"

namespace reprise::scheduler {

// What the frontend does with the op that it has just shown.
enum class Action : uint8_t {
  kEager,    // run it: its part of the trace needs no look at its results
  kCut,      // run it; it is part of no trace, and may write anybody's memory
  kObserve,  // run it, then call Leave (or Abandon if it raised)
  kFollow,   // do not run it: its results are those of followed()
  kTell,     // nothing is done yet: others have to be told before
  kAway,     // the session is paused: run it, as one that may write any memory
};

// Handles the ops of one (device, stream), one at a time:
//
//   session.Lock(); Action action = session.Enter(view);
//   kFollow:  build results from session.followed() and TakeBlock; Unlock();
//             make those that refer to operands
//   kObserve: Unlock(); run eagerly; Lock(); Leave(results, call); Unlock()
//   kEager:   Unlock(); run eagerly
//   kCut:     Unlock(); tell other sessions (StreamWrites); run eagerly
//   kAway:    Unlock(); note it in the book of ops, and interrupt whoever is
//             watching now; run eagerly
//   kTell:    Unlock(); tell other sessions; Lock(); EnterTold(view), as above
//
// Ops may come from different threads. Where they overlap (one is entered while
// another one is observed) what was being watched is dropped, and nothing is
// lost. The lock is held while an op is compared or a segment launched, never
// while eager runs or a plan is built, and an op that went round it could read
// memory that only a squash makes right. Under it no reference to a tensor or
// a storage of the program's is counted: the framework may need a lock for
// that whose holder waits for this one (Python's).
class Session {
 public:
  explicit Session(engine::Frontend* frontend = nullptr) : holds_(frontend) {}
  virtual ~Session() = default;

  // Waits for the thread that is inside. Not to be taken twice by one thread.
  void Lock() REPRISE_ACQUIRE(lock_) { lock_.Lock(); }
  // Never waits. False if some thread, this one perhaps, is inside.
  bool TryLock() REPRISE_TRY_ACQUIRE(true, lock_) { return lock_.TryLock(); }
  void Unlock() REPRISE_RELEASE(lock_) {
    if (holds_.any_held()) [[unlikely]]
      return UnlockAndDrop();
    lock_.Unlock();
  }
  // Some thread is inside.
  bool locked() const { return lock_.held(); }

  virtual Action Enter(const engine::OpView& op) REPRISE_REQUIRES(lock_) = 0;

  // The same once Enter has answered kTell, and others know. Never kTell.
  virtual Action EnterTold(const engine::OpView& op)
      REPRISE_REQUIRES(lock_) = 0;

  // kObserve while recording for the host executor: the frontend describes the
  // call before running it, and gives the description to Leave.
  virtual bool wants_call() const REPRISE_REQUIRES(lock_) = 0;

  // `call`: what wants_call asked for, else null.
  virtual void Leave(const engine::OpView& op,
                     std::span<const engine::ResultView> results,
                     std::unique_ptr<engine::Call> call)
      REPRISE_REQUIRES(lock_) = 0;
  // The program is about to do, or has just done, what no op tells and what may
  // read or write the memory of ops: a cut without an op. `what` is a literal.
  // True if something had been run ahead, which is taken back now. Takes the
  // lock itself.
  virtual bool Interrupt(const char* what) REPRISE_EXCLUDES(lock_) = 0;

  // The same if a replay or a validation is under way that uses some of that
  // memory.
  virtual void InterruptIfUsed(const MemoryRanges& memory, const char* what)
      REPRISE_EXCLUDES(lock_) = 0;

  // Interrupt, unless the session still observes the op whose words are there.
  // Then it has nothing run ahead, and the op's end tells it the rest.
  virtual void InterruptUnlessAt(const uint64_t* /*words*/, const char* what)
      REPRISE_EXCLUDES(lock_) {
    (void)Interrupt(what);
  }

  // The op raised: it is a cut from now on.
  virtual void Abandon(const engine::OpView& op) REPRISE_REQUIRES(lock_) = 0;

  // After kFollow, until Unlock.
  const engine::TracedOp& followed() const REPRISE_REQUIRES(lock_) {
    return *followed_;
  }
  // A pass of the program's begins before the op that comes next, and ends
  // behind the op that came last: a region's call, say. Where nothing comes
  // between two of them a trace ends; one that begins with a pass is sought no
  // end in the middle of it. False: the op is inside of a pass that was told,
  // or is not looked at, and the end of this one is not to be told.
  virtual bool BeginPass() REPRISE_REQUIRES(lock_) { return false; }
  virtual void EndPass() REPRISE_REQUIRES(lock_) {}

  // For who knows the ops that come next (a region, which makes the calls that
  // it made before), and need not show them one by one.

  // The replay that is under way, its op that is due, and how many ops were
  // followed so far, by any. No program: there is no replay.
  struct Following {
    std::shared_ptr<const engine::Program> program = nullptr;
    uint32_t next_op = 0;
    uint64_t followed = 0;
  };
  virtual Following following() const REPRISE_REQUIRES(lock_) { return {}; }
  // An operand of an op that is due lies where the replay has it.
  using Operand = engine::Instance::KnownOperand;
  virtual bool IsAt(const Operand&) const REPRISE_REQUIRES(lock_) {
    return false;
  }
  // So many ops come next, and these are their operands, but what they make
  // themselves.
  struct Unseen {
    const engine::Program* program = nullptr;  // and they are due in it ...
    uint32_t next_op = 0;                      // ... from here on
    uint32_t ops = 0;
    std::span<const Operand> operands = {};
    // Of what they make, no other value is taken (ascending): it may have been
    // written over by what comes behind.
    std::span<const engine::ValueId> taken = {};
    // What they write of memory that the pass has not made itself, others know
    // (StreamWrites::BeforeOp); or there is no such memory.
    bool told = false;
  };
  // Follows them, up to the first that has to be shown: it brings a number,
  // say, or something is wrong. `passed` is called with each one and may take
  // its results (TakeBlock, Own); counts of writes are the caller's. Returns
  // how many were followed; 0, too, where another replay or none is under way,
  // or an operand is elsewhere.
  virtual uint32_t FollowUnseen(const Unseen&,
                                const std::function<void(uint32_t)>&)
      REPRISE_REQUIRES(lock_) {
    return 0;
  }

  // The memory of a value that the followed op makes, to be owned by the
  // tensor that is handed out. Once a value.
  virtual engine::Block TakeBlock(engine::ValueId value)
      REPRISE_REQUIRES(lock_) = 0;
  // Behind TakeBlock, if the block was no lease (Ledger): the storage that owns
  // it now.
  virtual void Own(engine::ValueId value, engine::StorageToken storage)
      REPRISE_REQUIRES(lock_) = 0;
  // The followed op tells of the generator (ResultSpec::Tells): where it drew.
  virtual engine::GeneratorState drawn() const REPRISE_REQUIRES(lock_) = 0;

 protected:
  mutable base::SpinLock lock_;
  const engine::TracedOp* followed_ REPRISE_GUARDED_BY(lock_) = nullptr;
  engine::StorageHolds holds_ REPRISE_GUARDED_BY(lock_);

 private:
  void UnlockAndDrop() REPRISE_RELEASE(lock_) {
    const engine::StorageHolds::Held held = holds_.TakeHeld();
    lock_.Unlock();
  }
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_SESSION_H_
