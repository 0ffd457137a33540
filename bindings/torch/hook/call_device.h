// Which device's session is shown a call.

#ifndef REPRISE_BINDINGS_TORCH_HOOK_CALL_DEVICE_H_
#define REPRISE_BINDINGS_TORCH_HOOK_CALL_DEVICE_H_

#include <c10/core/Device.h>
#include <c10/core/TensorImpl.h>

#include <cstdint>
#include <optional>

#include "scheduler/runtime.h"

namespace reprise::bindings {

// Whose memory one call may use, by its operands and its device option, and so
// which device's session is shown it. Part of the call's OpCall, which tells it
// of each argument; one thread. Where a function is false or gives a reason, no
// trace can hold the call.
class CallDevice {
 public:
  // Some operand does not say where its memory is: any device's.
  static constexpr uint64_t kEveryDevice = ~uint64_t{0};

  explicit CallDevice(scheduler::DeviceKind kind) : kind_(kind) {}

  // An operand of the kind of device that is watched. False: others lie on
  // another device.
  bool AddOnDevice(c10::DeviceIndex device) {
    if (index_ < 0) index_ = device;
    if (index_ == device) [[likely]]
      return true;
    others_ |= uint64_t{1} << device;
    return false;
  }
  void AddOnHost() { index_ = 0; }
  // A tensor that is not plain. False as AddOnDevice.
  bool AddForeign(const c10::TensorImpl& tensor);
  // No session is shown the call: a subclass, another device, a layout that is
  // not strided.
  void SetForeign() { foreign_ = true; }
  void SetOption(c10::Device device) { option_ = device; }

  // After the last argument; then index() is the device whose session is shown
  // the call. False: none is. `factory`: the operator makes tensors by options.
  // `why_cut`: set if it copies to somewhere else.
  bool Choose(bool factory, const char** why_cut) {
    if (index_ >= 0 && !foreign_ && !option_.has_value()) [[likely]]
      return true;
    return ChooseByOption(factory, why_cut);
  }

  scheduler::DeviceKind kind() const { return kind_; }
  bool foreign() const { return foreign_; }
  // Whose memory the call may use, foreign or not. -1: of no device that is
  // watched.
  int index() const { return index_; }
  // Bit d: device d's as well.
  uint64_t others() const { return others_; }

 private:
  bool ChooseByOption(bool factory, const char** why_cut);

  const scheduler::DeviceKind kind_;
  int index_ = -1;
  bool foreign_ = false;
  uint64_t others_ = 0;
  std::optional<c10::Device> option_;
};

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_HOOK_CALL_DEVICE_H_
