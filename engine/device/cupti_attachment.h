// Whether CUPTI is attached to the process, and Reprise's subscription to it.

#ifndef REPRISE_ENGINE_DEVICE_CUPTI_ATTACHMENT_H_
#define REPRISE_ENGINE_DEVICE_CUPTI_ATTACHMENT_H_

#include <cuda.h>

#include <chrono>
#include <cstdint>

#include "engine/base/status.h"
#include "engine/device/cupti.h"
#include "engine/device/driver.h"

namespace reprise::device {

// What CUPTI cannot bear, and what is done about it, is in
// docs/decisions/0022-cupti-beside-other-threads.md:
//
// - A subscription ends while no callback can be on its way: callbacks are off,
//   those that were under way are over, and each thread has run since, or
//   waited (ThreadProgress). So it outlasts a recording.
// - CUPTI is attached and detached behind the CuptiGate, and not at all where
//   another thread launches graphs of the program's own outside it.
//
// CUPTI admits one subscriber a process; an attachment takes the subscription
// of another one. Calls are made by one thread at a time, whatever the
// attachment, in a LaunchRecorder::Hidden scope; attached(), Launched() and
// NoteGraphOfProgram() by any. `driver` and `cupti` must outlive it. A
// subscription that CUPTI refuses to end is ended at the next occasion.
class CuptiAttachment {
 public:
  using Duration = std::chrono::steady_clock::duration;

  CuptiAttachment(const Driver& driver, const Cupti& cupti,
                  CUpti_CallbackFunc callback)
      : driver_(driver), cupti_(cupti), callback_(callback) {}
  // GiveUp() comes first, unless the process ends.
  ~CuptiAttachment();
  CuptiAttachment(const CuptiAttachment&) = delete;
  CuptiAttachment& operator=(const CuptiAttachment&) = delete;

  // CUPTI is in the process because Reprise has subscribed.
  static bool attached();

  // Subscribes, unless it has; attaches CUPTI where it must (10 to 40
  // ms).
  // kUnavailable where another tool holds CUPTI, or other threads are at work
  // with graphs: worth another try.
  base::Status Subscribe();
  // Between the two, the callback is called for each call of the driver. A
  // subscription that cannot be enabled is given up.
  base::Status Enable();
  void Disable();

  // Ends the subscription, for other tools; waits so long until other threads
  // have left CUPTI. False: they have not, or CUPTI refuses. Then it is worth
  // another try.
  bool GiveUp(Duration patience);

  // The process has launched graphs of so many nodes since the last recording,
  // or none for a while. True once attaching and detaching cost less than
  // staying attached.
  static bool Launched(uint32_t nodes);
  // There is a subscription that has been of no use for a while, and may be
  // given up.
  static bool Idle();
  // Detaches CUPTI (2 ms), unless another tool has subscribed or other threads
  // are at work with graphs; that is tried again as much later where CUPTI
  // fails, else with the next launch. Looks so often whether it may, and waits
  // so long until other threads have left CUPTI.
  void Detach(int tries, Duration patience);

  // The program launches graphs of its own.
  static void NoteGraph();

  // Between Enable and Disable, which it does not end: detaches CUPTI and
  // attaches it again, where that can be done, and enables callbacks (10 to 40
  // ms).
  base::Status AttachAnew();

  // The calling thread is about to launch a graph that is not Reprise's,
  // outside the gate.
  static void NoteGraphOfProgram();

  // A callback is being run while one lives. It must not enter the gate.
  class InCallback {
   public:
    InCallback();
    ~InCallback();
    InCallback(const InCallback&) = delete;
    InCallback& operator=(const InCallback&) = delete;
  };

 private:
  base::Status SubscribeOnly();
  void SwitchOff(CUpti_SubscriberHandle subscriber);
  // Ends the subscription, and forgets it; where CUPTI refuses, false.
  bool End(CUpti_SubscriberHandle& subscriber, Duration patience);
  bool Unsubscribe(CUpti_SubscriberHandle& subscriber);
  base::Status Explain(CUptiResult result, const char* call) const;

  const Driver& driver_;
  const Cupti& cupti_;
  const CUpti_CallbackFunc callback_;
  CUpti_SubscriberHandle subscriber_ = nullptr;
  bool enabled_ = false;
  // One that CUPTI does not know any more, perhaps, as another tool has
  // detached CUPTI: it is given up, or else another one is had beside it.
  CUpti_SubscriberHandle doubtful_ = nullptr;
};

}  // namespace reprise::device

#endif  // REPRISE_ENGINE_DEVICE_CUPTI_ATTACHMENT_H_
