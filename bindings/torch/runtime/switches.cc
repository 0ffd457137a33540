#include "bindings/torch/runtime/switches.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <array>
#include <atomic>
#include <span>

#include "bindings/torch/base/private_member.h"
#include "bindings/torch/base/torch_versions.h"
#include "bindings/torch/runtime/thread_modes.h"

namespace reprise::bindings {

struct PrecisionsOf {
  friend auto Member(PrecisionsOf);
};
template struct Reveal<PrecisionsOf, &at::Context::fp32_precision>;

namespace {

// Appends small numbers to a word, the first in its lowest bits.
class BitPacker {
 public:
  template <typename T>
  void Add(T value, int bits) {
    word_ |= static_cast<uint64_t>(value) << shift_;
    shift_ += bits;
  }
  uint64_t word() const { return word_; }

 private:
  uint64_t word_ = 0;
  int shift_ = 0;
};

// allowTF32CuBLAS and its like raise when the old and the new way to set
// precisions were mixed; the precisions that kernels are given do not.
uint64_t MatmulWord(at::Context& context, scheduler::DeviceKind kind) {
  BitPacker bits;
  if (kind == scheduler::DeviceKind::kHost)
    return 0;  // CommonSwitches has them
  bits.Add(
      context.float32Precision(at::Float32Backend::CUDA, at::Float32Op::MATMUL),
      4);
  bits.Add(context.allowFP16ReductionCuBLAS(), 2);
  bits.Add(context.allowBF16ReductionCuBLAS(), 2);
  bits.Add(context.allowFP16AccumulationCuBLAS(), 1);
  bits.Add(context.blasPreferredBackend(), 4);
  const std::optional<int32_t> carveout = context._SMCarveout_EXPERIMENTAL();
  bits.Add(carveout.has_value(), 1);
  bits.Add(static_cast<uint16_t>(carveout.value_or(0)), 16);
  bits.Add(PreferCublasltGroupedGemm(context), 1);
  return bits.word();
}

// Some operators call autocast's functions inside, though they have no kernel
// for its keys (affine_grid_generator, _euclidean_dist). Autocast is off within
// the kernels that it has.
uint64_t AutocastWord(scheduler::DeviceKind kind) {
  const at::DeviceType device =
      kind == scheduler::DeviceKind::kHost ? at::kCPU : at::kCUDA;
  if (!at::autocast::is_autocast_enabled(device)) return 0;
  return 1 + static_cast<uint64_t>(at::autocast::get_autocast_dtype(device));
}

// Of oneDNN's kernels, and those that stand for one that is not set.
constexpr std::array<std::pair<at::Float32Backend, at::Float32Op>, 5>
    kHostPrecisions = {{
        {at::Float32Backend::MKLDNN, at::Float32Op::MATMUL},
        {at::Float32Backend::MKLDNN, at::Float32Op::CONV},
        {at::Float32Backend::MKLDNN, at::Float32Op::RNN},
        {at::Float32Backend::MKLDNN, at::Float32Op::ALL},
        {at::Float32Backend::GENERIC, at::Float32Op::ALL},
    }};
using Precisions =
    std::array<const at::Float32Precision*, kHostPrecisions.size()>;

// Where torch keeps them: nothing is ever added to or taken from its map. None
// where the map lacks one, or says of one that is set what torch does not.
std::optional<Precisions> FindPrecisions(at::Context& context) {
  constexpr auto kUnset = at::Float32Precision::NONE;
  const auto& all = context.*Member(PrecisionsOf());
  Precisions found;
  for (size_t i = 0; i < found.size(); ++i) {
    const auto at = all.find(kHostPrecisions[i]);
    if (at == all.end()) return std::nullopt;
    found[i] = &at->second;
    const auto [backend, op] = kHostPrecisions[i];
    if (*found[i] != kUnset &&
        *found[i] != context.float32Precision(backend, op)) {
      return std::nullopt;
    }
  }
  return found;
}

// float32Precision takes 20 ns for each of the first three.
uint64_t HostPrecisions() {
  static at::Context& context = at::globalContext();
  static const std::optional<Precisions> set = FindPrecisions(context);
  BitPacker bits;
  if (set.has_value()) [[likely]] {
    for (const at::Float32Precision* precision : *set) bits.Add(*precision, 4);
  } else {
    for (const auto& [backend, op] : kHostPrecisions) {
      bits.Add(context.float32Precision(backend, op), 4);
    }
  }
  return bits.word();
}

// All that choose kernels of the host, whichever operators they choose them
// for: that is known of few (tests/python/registry/flags.py).
void AddOfHost(const at::Context& context, BitPacker& bits) {
  bits.Add(static_cast<uint16_t>(at::get_num_threads()), 16);
  bits.Add(ControlBits(), 4);
  bits.Add(context.userEnabledMkldnn(), 1);
  bits.Add(context.deterministicMkldnn(), 1);
  bits.Add(HostPrecisions(), 20);
  bits.Add(context.allowFP16ReductionCPU(), 1);
  bits.Add(context.userEnabledNNPACK(), 1);
  bits.Add(context.userEnabledFlashSDP(), 1);
  bits.Add(context.userEnabledMathSDP(), 1);
}

// Each thread has a number, from one on.
uint64_t ThreadNumber() {
  static std::atomic<uint64_t> threads{0};
  thread_local const uint64_t number = ++threads;
  return number;
}

uint64_t CudnnWord(at::Context& context) {
  BitPacker bits;
  // Some host kernels are picked by whether gradients may be asked for.
  bits.Add(at::GradMode::is_enabled(), 1);
  bits.Add(context.userEnabledCuDNN(), 1);
  bits.Add(context.deterministicCuDNN(), 1);
  return bits.word();
}

// Each thread keeps the kernels that it has chosen, with cudnn.benchmark by
// their time. So from the first time on that this is on, threads may have
// different ones, also once it is off again.
uint64_t ConvolutionWord(at::Context& context, scheduler::DeviceKind kind) {
  static std::atomic<bool> has_benchmarked{false};
  BitPacker bits;
  // Some host kernels are picked by whether gradients may be asked for.
  bits.Add(at::GradMode::is_enabled(), 1);
  if (kind == scheduler::DeviceKind::kHost) return bits.word();
  bits.Add(
      context.float32Precision(at::Float32Backend::CUDA, at::Float32Op::CONV),
      4);
  bits.Add(context.userEnabledCuDNN(), 1);
  bits.Add(context.deterministicCuDNN(), 1);
  bits.Add(context.benchmarkCuDNN(), 1);
  bits.Add(CudnnDepthwiseKernel(context), 4);
  if (context.benchmarkCuDNN()) {
    has_benchmarked.store(true, std::memory_order_relaxed);
  }
  if (has_benchmarked.load(std::memory_order_relaxed)) {
    bits.Add(ThreadNumber(), 32);
  }
  return bits.word();
}

uint64_t AttentionWord(at::Context& context) {
  BitPacker bits;
  bits.Add(context.userEnabledFlashSDP(), 1);
  bits.Add(context.userEnabledFA3SDP(), 1);
  bits.Add(UserEnabledFA4SDP(context), 1);
  bits.Add(context.userEnabledMemEfficientSDP(), 1);
  bits.Add(context.userEnabledMathSDP(), 1);
  bits.Add(context.userEnabledCuDNNSDP(), 1);
  bits.Add(context.userEnabledOverrideableSDP(), 1);
  bits.Add(context.allowFP16BF16ReductionMathSDP(), 1);
  bits.Add(at::GradMode::is_enabled(), 1);
  for (const at::SDPBackend backend : context.sDPPriorityOrder()) {
    bits.Add(static_cast<uint64_t>(static_cast<int>(backend) + 1), 4);
  }
  return bits.word();
}

uint64_t RnnWord(at::Context& context, scheduler::DeviceKind kind) {
  BitPacker bits;
  if (kind == scheduler::DeviceKind::kCuda) {  // CommonSwitches has the host's
    bits.Add(
        context.float32Precision(at::Float32Backend::CUDA, at::Float32Op::RNN),
        4);
  }
  bits.Add(context.userEnabledCuDNN(), 1);
  bits.Add(context.deterministicCuDNN(), 1);
  return bits.word();
}

}  // namespace

bool CountsWrites() {
  return !c10::impl::tls_local_dispatch_key_set().excluded_.has(
      c10::DispatchKey::ADInplaceOrView);
}

uint64_t CommonSwitches(scheduler::DeviceKind kind) {
  const at::Context& context = at::globalContext();
  BitPacker bits;
  bits.Add(c10::get_default_dtype_as_scalartype(), 8);
  const bool deterministic = context.deterministicAlgorithms();
  bits.Add(deterministic, 1);
  bits.Add(deterministic && context.deterministicAlgorithmsWarnOnly(), 1);
  bits.Add(deterministic && context.deterministicFillUninitializedMemory(), 1);
  if (kind == scheduler::DeviceKind::kHost) {
    AddOfHost(context, bits);
  } else {
    bits.Add(NativeAot(context), 2);
  }
  return bits.word();
}

void AddSwitches(uint8_t classes, scheduler::DeviceKind kind,
                 WordBuffer& words) {
  at::Context& context = at::globalContext();
  if ((classes & kMatmulSwitches) != 0) {
    words.Push(MatmulWord(context, kind));
    words.Push(AutocastWord(kind));
  }
  if ((classes & kConvolutionSwitches) != 0) {
    words.Push(ConvolutionWord(context, kind));
  }
  if ((classes & kCudnnSwitches) != 0) words.Push(CudnnWord(context));
  if ((classes & kAttentionSwitches) != 0) words.Push(AttentionWord(context));
  if ((classes & kRnnSwitches) != 0) words.Push(RnnWord(context, kind));
  if ((classes & kLinalgSwitches) != 0) {
    words.Push(static_cast<uint64_t>(context.linalgPreferredBackend()));
  }
}

void AddAllSwitches(WordBuffer& words) {
  constexpr uint8_t kAll = 0xff;
  using scheduler::DeviceKind;
  const DeviceKind kinds[] = {DeviceKind::kHost, DeviceKind::kCuda};
  for (const DeviceKind kind : std::span(kinds, at::hasCUDA() ? 2 : 1)) {
    words.Push(CommonSwitches(kind));
    AddSwitches(kAll, kind, words);
  }
}

bool MayTryKernels(uint8_t classes, scheduler::DeviceKind kind) {
  const at::Context& context = at::globalContext();
  return (classes & kConvolutionSwitches) != 0 &&
         kind == scheduler::DeviceKind::kCuda && context.benchmarkCuDNN() &&
         context.userEnabledCuDNN();
}

}  // namespace reprise::bindings
