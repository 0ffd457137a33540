#include "bindings/torch/hook/call_device.h"

#include <c10/core/DispatchKeySet.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/cuda/CUDAFunctions.h>

namespace reprise::bindings {
namespace {

// Torch makes a tensor of Python's numbers with Python's key excluded, and
// writes them into it past the dispatcher.
bool IsAboutToFill() {
  return c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::Python);
}

}  // namespace

// By its keys and its storage alone: where a subclass says that it is would be
// a call of the program's.
bool CallDevice::AddForeign(const c10::TensorImpl& tensor) {
  SetForeign();
  const c10::DispatchKeySet keys = tensor.key_set();
  if (kind_ == scheduler::DeviceKind::kHost) {
    if (keys.has_backend(c10::BackendComponent::CPUBit)) AddOnHost();
    return true;
  }
  if (!keys.has_backend(c10::BackendComponent::CUDABit)) return true;
  const c10::Storage& storage = tensor.unsafe_storage();
  if (!storage || !storage.device().is_cuda()) {
    if (index_ < 0) index_ = 0;
    others_ = kEveryDevice;
    return true;
  }
  return AddOnDevice(storage.device().index());
}

bool CallDevice::ChooseByOption(bool factory, const char** why_cut) {
  const bool cuda = kind_ == scheduler::DeviceKind::kCuda;
  if (factory && !cuda && index_ < 0 && IsAboutToFill()) [[unlikely]]
    return false;
  if (foreign_) return false;
  if (option_.has_value()) {
    const c10::Device wanted = *option_;
    if (cuda ? wanted.is_cuda() : wanted.is_cpu()) {
      const int index = !cuda                ? 0
                        : wanted.has_index() ? wanted.index()
                                             : c10::cuda::current_device();
      if (index_ < 0) index_ = index;
      if (index_ != index) *why_cut = "copies to another device";
    } else if (cuda && wanted.is_cpu()) {
      *why_cut = "copies to the host";
    } else {
      return false;
    }
  }
  if (index_ < 0) {
    if (!factory || cuda) return false;
    AddOnHost();
  }
  return true;
}

}  // namespace reprise::bindings
