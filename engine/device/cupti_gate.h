// Keeps Reprise's own driver calls apart from attaching and detaching CUPTI.

#ifndef REPRISE_ENGINE_DEVICE_CUPTI_GATE_H_
#define REPRISE_ENGINE_DEVICE_CUPTI_GATE_H_

namespace reprise::device {

// CUPTI crashes where one thread attaches or detaches it while another one
// launches a graph (docs/decisions/0022-cupti-beside-other-threads.md). One
// gate a process. Thread-safe; two atomic operations a visit.
class CuptiGate {
 public:
  // Around a thread's driver calls. Enter waits while the gate is closed, some
  // ten milliseconds. A thread that is inside may enter once more.
  static void Enter();
  static void Leave();

  // By a thread that is inside, once. True: no other thread is, and none comes
  // in before Open. Never waits.
  static bool TryClose();
  static void Open();
};

}  // namespace reprise::device

#endif  // REPRISE_ENGINE_DEVICE_CUPTI_GATE_H_
