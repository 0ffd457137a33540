// The protocol between one call of an operator and its session.

#ifndef REPRISE_BINDINGS_TORCH_HOOK_WATCHED_OP_H_
#define REPRISE_BINDINGS_TORCH_HOOK_WATCHED_OP_H_

#include <c10/core/DispatchKeySet.h>

#include <cstdint>
#include <memory>

#include "bindings/torch/hook/boxed_call.h"
#include "bindings/torch/hook/op_call.h"
#include "bindings/torch/hook/results.h"
#include "bindings/torch/runtime/op_info.h"
#include "bindings/torch/runtime/op_warnings.h"
#include "bindings/torch/runtime/thread_state.h"
#include "scheduler/session.h"

namespace reprise::bindings {

// What a hook does with a call.
enum class Showing : uint8_t {
  kNot,        // it passes on: nothing of it is a session's business, or it is
               // part of a call of which nothing is
  kElsewhere,  // it passes on under an OpElsewhere: on memory that the active
               // runtime does not serve
  kInside,     // it passes on: it is part of another op of this thread
               // (NoteInside)
  kSkip,  // it passes on under a SkippedOp: nobody watches, or the stream is
          // asleep, and goes by as many ops as it does awake
  kShow,  // WatchedOp on this thread's state
};

// Of a call with these keys: a session's business is one that is no part of
// another op, and has a tensor of a device that is watched, whatever kind of
// tensor it is. Asked once a call, by the thread that makes it. Behind kSkip
// and kElsewhere the call is in the book of ops.
Showing ShowingOf(ThreadState& thread, c10::DispatchKeySet below);

// A call that is skipped: what it calls is part of it. Ends its note in the
// book.
class SkippedOp {
 public:
  SkippedOp() { ++t_thread_state.depth; }
  ~SkippedOp() {
    ThreadState& thread = t_thread_state;
    --thread.depth;
    if (!thread.skip.noted) return;
    thread.skip.noted = false;
    thread.EndSkipped();
  }
  SkippedOp(const SkippedOp&) = delete;
  SkippedOp& operator=(const SkippedOp&) = delete;
};

// A call on memory that the active runtime does not serve. What it calls may
// be shown to sessions: those ops' notes stand in for its own, which goes on
// behind them. Ends its note.
class OpElsewhere {
 public:
  OpElsewhere() = default;
  ~OpElsewhere() { t_thread_state.EndElsewhere(began_); }
  OpElsewhere(const OpElsewhere&) = delete;
  OpElsewhere& operator=(const OpElsewhere&) = delete;

 private:
  // Ops within it look at what is active anew.
  const uint64_t began_ = t_thread_state.activation;
};

// A kernel of the program's is about to run in place of torch's, as part of
// another op of this thread: that op is no part of a trace, and may write any
// memory.
void NoteReplacedInside();

// A call of this operator is part of another op.
inline void NoteInside(const OpInfo& info, c10::DispatchKeySet below) {
  if (info.replaced.any(below)) [[unlikely]]
    NoteReplacedInside();
}

// Waits for the session's lock, with Python's given up if need be: some of
// torch's functions call operators with it held, and who is inside may wait for
// it.
void LockSession(scheduler::Session& session);

// Locked so while it lives.
class LockedSession {
 public:
  explicit LockedSession(scheduler::Session& session) : session_(session) {
    LockSession(session);
  }
  ~LockedSession() { session_.Unlock(); }
  LockedSession(const LockedSession&) = delete;
  LockedSession& operator=(const LockedSession&) = delete;

 private:
  scheduler::Session& session_;
};

// One call from its hook to its end, on the stack of the hook:
//
//   WatchedOp op(thread, info, below);  // ShowingOf(thread, below) is kShow
//   encode every argument into op.call();
//   switch (op.Enter()) {
//     kPass:    redispatch, as if there were no hook
//     kEager:   op.StartEager(); redispatch (also of a call that no trace can
//               hold, but that may use a session's memory: its sessions are
//               interrupted, and all that it calls belongs to it)
//     kObserve: op.StartEager(); box the arguments into op.NewBoxedCall() if
//               op.wants_call(); redispatch; op.Leave(results)
//     kFollow:  make the results (ResultMaker), with op.Unlock() between its
//               steps
//   }
//
// From kFollow and kObserve to Unlock or StartEager the session's lock is held,
// and no tensor or storage of the program's is referenced or released: that may
// need Python's lock, and who has that one may wait for the session.
//
// The destructor puts everything right on every way out: it releases the
// session, and abandons an op that raised.
class WatchedOp {
 public:
  enum class Step : uint8_t { kPass, kEager, kObserve, kFollow };

  WatchedOp(ThreadState& thread, const OpInfo& info, c10::DispatchKeySet below)
      : thread_(thread), call_(info, thread.kind), below_(below) {
    if (info.replaced.any(below)) [[unlikely]]
      call_.Cut("the program has registered a kernel of its own for it");
  }
  ~WatchedOp();
  WatchedOp(const WatchedOp&) = delete;
  WatchedOp& operator=(const WatchedOp&) = delete;

  OpCall& call() { return call_; }
  Step Enter();

  // What is called from here on belongs to this op.
  void StartEager();

  // After kObserve and StartEager: the session wants the arguments, boxed by
  // the hook.
  bool wants_call() const { return wants_call_; }
  BoxedCall& NewBoxedCall();
  void Leave(const ResultList& results);

  // After kFollow, until Unlock.
  scheduler::Session& session() { return *session_; }
  void Unlock() {
    if (!locked_) return;
    locked_ = false;
    session_->Unlock();
  }

 private:
  // What the op may write stands in the book of ops from here to its end.
  void NoteUnderWay();
  // The same while other sessions are told of it, and its own one has not
  // answered.
  void NoteToldOf();
  // Its session is paused, and any other one may be concerned.
  void LeaveToOthers();
  // Its operands do not tell of all that it may write.
  bool WritesUnknown() const;
  // Those of the devices whose memory the call may use, but its own session.
  void InterruptSessionsOfCall();

  ThreadState& thread_;
  OpCall call_;
  const c10::DispatchKeySet below_;
  const uint64_t began_ = thread_.activation;
  scheduler::Session* session_ = nullptr;
  bool locked_ = false;
  bool deep_ = false;
  bool noted_ = false;            // in the book of ops
  bool away_ = false;             // LeaveToOthers
  bool may_have_waited_ = false;  // by its end the host may have waited
  bool observed_ = false;         // Leave or Abandon is owed
  bool wants_call_ = false;
  std::unique_ptr<BoxedCall> boxed_;
  OpWarnings warnings_;  // of an op that is observed, while it runs
};

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_HOOK_WATCHED_OP_H_
