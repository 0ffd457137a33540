#include "bindings/torch/runtime/kept_generator.h"

#include <ATen/cuda/CUDAGeneratorImpl.h>

#include <mutex>
#include <utility>

namespace reprise::bindings {
namespace {

at::CPUGeneratorImpl& HostImpl(const at::Generator& generator) {
  return *static_cast<at::CPUGeneratorImpl*>(
      generator.unsafeGetGeneratorImpl());
}

at::CUDAGeneratorImpl& CudaImpl(const at::Generator& generator) {
  return *static_cast<at::CUDAGeneratorImpl*>(
      generator.unsafeGetGeneratorImpl());
}

}  // namespace

bool KeptGenerator::MayKeep(const at::Generator& generator) {
  // Those of other libraries have a key of their own.
  const c10::DispatchKeySet keys = generator.key_set();
  return keys == c10::DispatchKeySet(c10::DispatchKey::CPU) ||
         keys == c10::DispatchKeySet(c10::DispatchKey::CUDA);
}

KeptGenerator::KeptGenerator(at::Generator generator)
    : generator_(std::move(generator)) {
  if (generator_.device().is_cuda()) {
    at::CUDAGeneratorImpl& impl = CudaImpl(generator_);
    const std::lock_guard lock(impl.mutex_);
    offset_ = impl.philox_offset_per_thread();
    return;
  }
  at::CPUGeneratorImpl& impl = HostImpl(generator_);
  const std::lock_guard lock(impl.mutex_);
  engine_ = impl.engine();
  float_sample_ = impl.next_float_normal_sample();
  double_sample_ = impl.next_double_normal_sample();
}

void KeptGenerator::PutBack() const {
  if (generator_.device().is_cuda()) {
    // Setting it in any other way has cuDNN draw a new dropout state.
    at::CUDAGeneratorImpl& impl = CudaImpl(generator_);
    const std::lock_guard lock(impl.mutex_);
    impl.set_philox_offset_per_thread(offset_);
    return;
  }
  at::CPUGeneratorImpl& impl = HostImpl(generator_);
  const std::lock_guard lock(impl.mutex_);
  impl.set_engine(*engine_);
  impl.set_next_float_normal_sample(float_sample_);
  impl.set_next_double_normal_sample(double_sample_);
}

}  // namespace reprise::bindings
