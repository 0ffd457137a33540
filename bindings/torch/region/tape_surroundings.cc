#include "bindings/torch/region/tape_surroundings.h"

#include <ATen/Context.h>
#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/SavedTensorHooks.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/forward_grad.h>
#include <torch/csrc/jit/frontend/tracer.h>

#include <algorithm>
#include <bit>

#include "bindings/torch/base/inline_buffer.h"
#include "bindings/torch/base/plain_tensor.h"
#include "bindings/torch/base/tensor_form.h"
#include "bindings/torch/base/torch_versions.h"
#include "bindings/torch/runtime/switches.h"
#include "cache/signature.h"

namespace reprise::bindings {
namespace {

// Of all kernels: by which they are chosen, and which they obey. Whether
// gradients are asked for is a matter of each call.
uint64_t SwitchesWord() {
  const at::AutoGradMode same(false);
  constexpr c10::DispatchKeySet kOfTheLevel({c10::DispatchKey::ADInplaceOrView,
                                             c10::DispatchKey::AutocastCPU,
                                             c10::DispatchKey::AutocastCUDA});
  const c10::impl::ExcludeDispatchKeyGuard level(kOfTheLevel);
  WordBuffer words;
  AddAllSwitches(words);
  return cache::HashWords(words.span()).lo;
}

uint64_t SeedOf(c10::Device device) {
  return at::globalContext().defaultGenerator(device).current_seed();
}

size_t PairsOfHooks() {
  return at::SavedTensorDefaultHooks::get_tls_state().stack.size();
}

// On any thread: there is one level for all of them.
bool TangentsAreMade() {
  return torch::autograd::ForwardADLevel::try_get_by_idx(0) != nullptr;
}

}  // namespace

uint64_t ModesWord() {
  WordBuffer words;
  const auto add = [&words](uint64_t word) { words.Push(word); };
  add(at::GradMode::is_enabled());
  add(c10::InferenceMode::is_enabled());
  add(at::SavedTensorDefaultHooks::get_tls_state().stack.size());
  add(NodeHooks());
  for (const at::DeviceType device : {at::kCPU, at::kCUDA}) {
    const bool on = at::autocast::is_autocast_enabled(device);
    add(on);
    if (!on) continue;
    add(static_cast<uint64_t>(at::autocast::get_autocast_dtype(device)));
    add(at::autocast::is_autocast_cache_enabled());
  }
  AddAllSwitches(words);
  uint64_t hash = 0xcbf29ce484222325;
  for (const uint64_t word : words.span()) {
    hash = std::rotl((hash ^ word) * 0x9e3779b97f4a7c15, 29);
  }
  return hash;
}

bool IsOrdinary(std::span<const at::Tensor> tensors) {
  return !torch::autograd::AnomalyMode::is_enabled() && NodeHooks() == 0 &&
         !c10::impl::TorchDispatchModeTLS::any_modes_set() &&
         !at::impl::torch_function_mode_enabled() &&
         !torch::jit::tracer::isTracing() &&
         !c10::impl::tls_is_dispatch_key_included(
             c10::DispatchKey::FuncTorchDynamicLayerFrontMode) &&
         std::ranges::all_of(tensors, [](const at::Tensor& tensor) {
           return tensor.defined() &&
                  IsPlainTensor(*tensor.unsafeGetTensorImpl()) &&
                  !HasTangent(*tensor.unsafeGetTensorImpl());
         });
}

TapeSurroundings::TapeSurroundings(TapeLevel level, TapePass pass)
    : level_(level),
      pass_(pass),
      modes_(ModesWord()),
      inference_(c10::InferenceMode::is_enabled()),
      tangents_(TangentsAreMade()),
      grad_mode_(at::GradMode::is_enabled()),
      hooks_(PairsOfHooks()),
      node_hooks_(NodeHooks()),
      switches_(SwitchesWord()),
      default_dtype_(c10::get_default_dtype()),
      autocast_(AutocastState::Now()) {
  if (at::hasCUDA() && c10::impl::hasDeviceGuardImpl(at::kCUDA)) {
    const c10::impl::VirtualGuardImpl guard(at::kCUDA);
    device_ = guard.getDevice();
    stream_ = guard.getStream(device_);
  }
  seed_ = SeedOf(device_);
}

const char* TapeSurroundings::Difference(
    std::span<const TapeCall> calls) const {
  const bool inference = c10::InferenceMode::is_enabled();
  // It may begin inside of the callable, round all of its calls.
  const bool may_begin = pass_ == TapePass::kWhole;
  const bool expected =
      calls.empty() ? inference_ || (inference && may_begin)
                    : calls.back().grad_mode == GradientMode::kInference;
  if (inference != expected) {
    return "inference mode begins or ends between operators: put it around all "
           "of them, or around the region";
  }
  if ((level_ == TapeLevel::kAboveAutograd || pass_ != TapePass::kWhole) &&
      TangentsAreMade() && !tangents_) {
    return "forward-mode differentiation (torch.func.jvp, dual_level) begins "
           "inside, and results keep their histories: detach them";
  }
  // Regions begin under neither of these two.
  if (c10::impl::TorchDispatchModeTLS::any_modes_set()) {
    return "a dispatch mode begins inside, whose Python no replay runs";
  }
  if (torch::autograd::AnomalyMode::is_enabled()) {
    return "anomaly detection begins inside";
  }
  if (NodeHooks() != node_hooks_) {
    return "a hook of new nodes (node_creation_hook) begins or ends inside";
  }
  if (level_ == TapeLevel::kAboveAutograd &&
      AutocastState::Now() != autocast_) {
    return "autocast begins or ends inside: put it around it";
  }
  if (std::this_thread::get_id() == thread_ && SwitchesWord() != switches_) {
    return "a switch of torch's (a backend, its precision, determinism, the "
           "default dtype, threads, denormals) changes inside: put it around "
           "the region";
  }
  return nullptr;
}

bool TapeSurroundings::MoreHooks() const {
  // Fewer are set while one of them packs a tensor.
  const size_t own = pass_ == TapePass::kForward ? 1 : 0;
  return PairsOfHooks() > hooks_ + own;
}

bool TapeSurroundings::OwnHooks() const {
  return pass_ == TapePass::kForward && PairsOfHooks() == hooks_ + 1;
}

bool TapeSurroundings::HooksAreDisabled() {
  return !at::SavedTensorDefaultHooks::is_enabled();
}

bool TapeSurroundings::ModesAreKept() const {
  const at::AutoGradMode as_then(grad_mode_);
  return ModesWord() == modes_ && c10::get_default_dtype() == default_dtype_;
}

bool TapeSurroundings::AllModesAreKept() const { return ModesWord() == modes_; }

bool TapeSurroundings::OnItsStream() const {
  if (!stream_.has_value()) return true;
  const c10::impl::VirtualGuardImpl guard(at::kCUDA);
  return guard.getDevice() == device_ && guard.getStream(device_) == *stream_;
}

bool TapeSurroundings::SeedIsKept() const { return SeedOf(device_) == seed_; }

}  // namespace reprise::bindings
