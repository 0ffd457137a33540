// The stream of one device and stream, watched, recorded, validated, followed.

#ifndef REPRISE_SCHEDULER_SESSION_H_
#define REPRISE_SCHEDULER_SESSION_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

#include "engine/block.h"
#include "engine/op.h"
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
// Ops may come from different threads, one at a time; ops that overlap make the
// session stand aside until they no longer do. Lock() is a spin flag that is
// held for nanoseconds; no eager work and no build runs under it.
class Session {
 public:
  virtual ~Session() = default;

  // False if another thread is inside an op of this session: run eagerly then
  // and call nothing.
  virtual bool Lock() = 0;
  virtual void Unlock() = 0;

  virtual Action Enter(const engine::OpView& op) = 0;

  // kObserve while recording for the host executor: the frontend gives the call
  // before running it.
  virtual bool wants_call() const = 0;
  virtual void GiveCall(std::unique_ptr<engine::Call> call) = 0;

  virtual void Leave(const engine::OpView& op,
                     std::span<const engine::ResultView> results) = 0;
  // The op raised: it is a cut from now on.
  virtual void Abandon(const engine::OpView& op) = 0;

  // After kFollow, until Unlock.
  virtual const engine::TracedOp& followed() const = 0;
  // The memory of a value that the followed op makes, to be owned by the
  // tensor that is handed out. Once a value.
  virtual engine::Block TakeBlock(engine::ValueId value) = 0;
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_SESSION_H_
