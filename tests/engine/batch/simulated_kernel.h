// Kernels of the simulated driver, as batches launch them.

#ifndef REPRISE_TESTS_ENGINE_BATCH_SIMULATED_KERNEL_H_
#define REPRISE_TESTS_ENGINE_BATCH_SIMULATED_KERNEL_H_

#include <cuda.h>

#include <memory>
#include <string>
#include <utility>

#include "engine/batch/kernel_code.h"
#include "tests/sim/simulated_gpu.h"

namespace reprise::engine {

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

}  // namespace reprise::engine

#endif  // REPRISE_TESTS_ENGINE_BATCH_SIMULATED_KERNEL_H_
