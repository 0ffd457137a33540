// Sees every launch that eager makes, through CUPTI's driver callbacks.

#ifndef REPRISE_ENGINE_DEVICE_LAUNCH_RECORDER_H_
#define REPRISE_ENGINE_DEVICE_LAUNCH_RECORDER_H_

#include <cuda.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/device/driver.h"
#include "engine/device/launch.h"

namespace reprise::device {

struct Cupti;

// What one op enqueued while it was being recorded.
struct RecordedLaunches {
  std::vector<Launch> launches;
  // Why these launches cannot stand for the op: host traffic, an event, another
  // stream (but see LetOpFork), a graph, a host function, a synchronisation, a
  // texture ... Begins with the driver call. Empty when they can.
  std::string refusal;
};

// Records the launches of one thread at a time, op by op. CUPTI admits one
// subscriber a process: Start() fails with kUnavailable where another tool or
// another recorder holds it, or where CUPTI cannot be attached now. It is given
// up a while after Stop (Resting), by GiveUp, or at the end of the recorder. A
// copy is recorded only within one device; work of no size is left out.
//
//   Start() ─► { BeginOp() … eager runs … EndOp() }* ─► Stop()
//
// CUPTI tells no more of a thread that was inside a driver call when callbacks
// were switched off, by whatever thread, until it is detached from the process
// (docs/decisions/0035-threads-that-cupti-forgets.md). So BeginOp makes a call,
// which must come back; where it does not, CUPTI is attached anew.
//
// Callbacks run on the thread that makes the driver call, between its entry and
// the call itself, and touch only that thread's open op; they take no lock.
// Device work of the recorded stream that is seen between Start and Stop on any
// thread outside an open op, or an event recorded or waited for on the stream,
// is kept as foreign work (TakeForeignWork). Calls made by Reprise itself are
// hidden by a `Hidden` scope on the calling thread.
// Thread-compatible; BeginOp and EndOp must be called by one thread for one op,
// different ops may come from different threads. Costs: a subscription that
// attaches CUPTI to the process takes 10 to 40 ms, later ones microseconds; a
// recorded pass is 5 to 15 % slower; while CUPTI stays attached, also with
// nobody recording, a graph launch takes 0.2 us more for each of its nodes
// (docs/decisions/0006-detach-cupti.md), which is why Resting() is told.
class LaunchRecorder {
 public:
  // Loads CUPTI (the copy that torch brought, else by name). kUnavailable where
  // there is none.
  static base::Result<std::unique_ptr<LaunchRecorder>> Create(
      const Driver& driver);
  // With a CUPTI of the caller's, which must outlive the recorder.
  static std::unique_ptr<LaunchRecorder> Create(const Driver& driver,
                                                const Cupti& cupti);
  // Stops.
  virtual ~LaunchRecorder() = default;

  // Attaches CUPTI to the process, if it is not, so that the next Start takes
  // microseconds. Any thread; a Start waits for it. Not beside threads that
  // launch graphs of the program's own, or the process may crash.
  virtual base::Status Attach() = 0;
  // Another tool is about to need CUPTI. Nothing happens while a recorder
  // records. Any thread.
  virtual void GiveUp() = 0;

  // Of the stream in that context: a null stream is another one in each. Null:
  // in any.
  virtual base::Status Start(CUstream stream, CUcontext context = nullptr) = 0;
  virtual void Stop() = 0;
  // Between a Start that succeeded and Stop. Any thread.
  virtual bool active() const = 0;

  // Opens an op on this thread; one that is open when recording stops is
  // refused. Failing, none is open: kFailedPrecondition where nothing is being
  // recorded, kUnavailable where CUPTI does not tell of this thread's calls and
  // cannot be attached anew now.
  virtual base::Status BeginOp() = 0;
  // The open op may fork streams that nothing else uses, and join them: its
  // launches on all of them are recorded, in the order of their calls and with
  // what they wait for (ForkedStreams).
  virtual void LetOpFork() = 0;
  virtual RecordedLaunches EndOp() = 0;
  // The op that this thread has open, with any recorder, is over, and nobody
  // asks what it enqueued. Nothing if none is.
  static void DropOp();

  // The first device work since the last call that no op made, by the name of
  // its driver call; none if there was none.
  virtual std::optional<std::string> TakeForeignWork() = 0;

  // Nothing is being recorded, and a graph of that many nodes was launched (0:
  // none). Gives CUPTI up for other tools, if 50 ms have passed since Stop.
  // Once graphs have cost about what detaching CUPTI and attaching it again
  // costs, or ten seconds have passed since CUPTI was last of use (one, where
  // the program has graphs of its own), detaches it (2 ms), unless another tool
  // has subscribed meanwhile or other threads are at work with graphs; a
  // failure is tried again as much later. Any thread that has no op open. A
  // load where CUPTI is not attached, else a look at the clock.
  virtual void Resting(uint32_t nodes) = 0;

  // While one lives, this thread launches graphs that are not Reprise's, and
  // CUPTI is neither attached nor detached by other threads. May wait for them.
  class GraphOfProgram {
   public:
    GraphOfProgram();
    ~GraphOfProgram();
    GraphOfProgram(const GraphOfProgram&) = delete;
    GraphOfProgram& operator=(const GraphOfProgram&) = delete;

   private:
    bool outer_ = false;
  };

  // While one lives, driver calls of this thread are not recorded. Around all
  // of Reprise's own: CUPTI is attached and detached by a thread that has one
  // while no other has (CuptiGate), so the first of a thread may wait for that.
  class Hidden {
   public:
    Hidden();
    ~Hidden();
    Hidden(const Hidden&) = delete;
    Hidden& operator=(const Hidden&) = delete;
  };
};

}  // namespace reprise::device

#endif  // REPRISE_ENGINE_DEVICE_LAUNCH_RECORDER_H_
