// The stream of one device and stream, watched, recorded, validated, followed.

#ifndef REPRISE_SCHEDULER_SESSION_H_
#define REPRISE_SCHEDULER_SESSION_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <thread>

#include "engine/block.h"
#include "engine/op.h"
#include "engine/storage_holds.h"
#include "engine/trace.h"

namespace reprise::scheduler {

// What the frontend does with the op that it has just shown.
enum class Action : uint8_t {
  kEager,    // run it; the session does not want its results
  kObserve,  // run it, then call Leave (or Abandon if it raised)
  kFollow,   // do not run it: its results are those of followed()
  kNative,   // run it without device work being expected; do not call Leave
};

// Handles the ops of one (device, stream), one at a time:
//
//   session.Lock(); Action action = session.Enter(view);
//   kFollow:  build results from session.followed() and TakeBlock; Unlock()
//   kObserve: Unlock(); run eagerly; Lock(); Leave(results); Unlock()
//   else:     Unlock(); run eagerly
//
// Ops may come from different threads. Where they overlap (one is entered while
// another one is observed) what was being watched is dropped, and nothing is
// lost. Lock() spins: it is held while an op is compared or a segment launched,
// never while eager runs or a plan is built, and an op that went round it could
// read memory that only a squash makes right.
class Session {
 public:
  explicit Session(engine::Frontend* frontend = nullptr) : holds_(frontend) {}
  virtual ~Session() = default;

  // Waits for the thread that is inside. Not to be taken twice by one thread.
  void Lock() {
    while (busy_.test_and_set(std::memory_order_acquire)) {
      std::this_thread::yield();
    }
  }
  // Never waits. False if some thread, this one perhaps, is inside.
  bool TryLock() { return !busy_.test_and_set(std::memory_order_acquire); }
  void Unlock() {
    if (holds_.any_held()) [[unlikely]]
      return UnlockAndDrop();
    busy_.clear(std::memory_order_release);
  }
  // Some thread is inside.
  bool locked() const { return busy_.test(std::memory_order_relaxed); }

  virtual Action Enter(const engine::OpView& op) = 0;

  // kObserve while recording for the host executor: the frontend gives the call
  // before running it.
  virtual bool wants_call() const = 0;
  virtual void GiveCall(std::unique_ptr<engine::Call> call) = 0;

  virtual void Leave(const engine::OpView& op,
                     std::span<const engine::ResultView> results) = 0;
  // The program is about to do, or has just done, what no op tells and what may
  // read or write the memory of ops: a cut without an op. `what` is a literal.
  // True if something had been run ahead, which is taken back now. Takes the
  // lock itself.
  virtual bool Interrupt(const char* what) = 0;

  // The op raised: it is a cut from now on.
  virtual void Abandon(const engine::OpView& op) = 0;

  // After kFollow, until Unlock.
  const engine::TracedOp& followed() const { return *followed_; }
  // The memory of a value that the followed op makes, to be owned by the
  // tensor that is handed out. Once a value.
  virtual engine::Block TakeBlock(engine::ValueId value) = 0;
  // Behind TakeBlock, if the block was no lease (Ledger): the storage that owns
  // it now.
  virtual void Own(engine::ValueId value, engine::StorageToken storage) = 0;

 protected:
  const engine::TracedOp* followed_ = nullptr;
  engine::StorageHolds holds_;

 private:
  void UnlockAndDrop() {
    const engine::StorageHolds::Held held = holds_.TakeHeld();
    busy_.clear(std::memory_order_release);
  }

  std::atomic_flag busy_;
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_SESSION_H_
