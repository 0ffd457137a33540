// What tests of batches on the simulated driver have in common.

#ifndef REPRISE_TESTS_BINDINGS_NATIVE_SIMULATED_RUNTIME_H_
#define REPRISE_TESTS_BINDINGS_NATIVE_SIMULATED_RUNTIME_H_

#include <cuda.h>

#include <memory>
#include <string>
#include <utility>

#include "bindings/native/device.h"
#include "bindings/native/kernel_code.h"
#include "bindings/native/runtime_core.h"
#include "tests/sim/simulated_gpu.h"

namespace reprise::native {

// One that keeps nothing on disk and measures no mechanism.
inline std::shared_ptr<RuntimeCore> RuntimeOn(
    std::unique_ptr<Device> device, Patching patching = Patching::kSetParams,
    const RuntimeCore::Stubs& stubs = {}) {
  return std::make_shared<RuntimeCore>(
      std::move(device), RuntimeOptions{.patching = patching, .cache_dir = ""},
      stubs);
}

// Of a kernel that must outlive it.
inline std::shared_ptr<KernelCode> CodeOf(
    const sim::SimulatedGpu& gpu, std::string name,
    const sim::SimulatedGpu::Kernel& kernel) {
  auto code = std::make_shared<KernelCode>(std::move(name), kernel.params);
  code->FinishAdopting(gpu.driver,
                       reinterpret_cast<CUfunction>(
                           const_cast<sim::SimulatedGpu::Kernel*>(&kernel)));
  return code;
}

}  // namespace reprise::native

#endif  // REPRISE_TESTS_BINDINGS_NATIVE_SIMULATED_RUNTIME_H_
