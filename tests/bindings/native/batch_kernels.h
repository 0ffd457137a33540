// The kernels of random batches, for the simulated device and the reference.

#ifndef REPRISE_TESTS_BINDINGS_NATIVE_BATCH_KERNELS_H_
#define REPRISE_TESTS_BINDINGS_NATIVE_BATCH_KERNELS_H_

#include <algorithm>
#include <cstdint>

#include "tests/sim/simulated_gpu.h"

namespace reprise::native {

// None gives the same twice, or in another order; a grid does four words a
// block.
struct BatchKernels {
  using Mix = void(uint32_t*, const uint32_t*, uint32_t, uint32_t);
  using Weave = void(uint32_t*, uint32_t*, uint32_t, uint16_t, uint64_t);
  using Stamp = void(uint32_t*, uint8_t, uint32_t, uint32_t);

  static uint32_t End(uint32_t words, uint32_t blocks) {
    return std::min(words, 4 * blocks);
  }
  static void DoMix(uint32_t blocks, uint32_t* to, const uint32_t* from,
                    uint32_t words, uint32_t by) {
    for (uint32_t i = 0; i < End(words, blocks); ++i) {
      to[i] = to[i] * 3 + from[i] + by;
    }
  }
  static void DoBlend(uint32_t blocks, uint32_t* to, const uint32_t* from,
                      uint32_t words, uint32_t by) {
    for (uint32_t i = 0; i < End(words, blocks); ++i) {
      to[i] = (to[i] ^ by) * 5 - from[i];
    }
  }
  static void DoWeave(uint32_t blocks, uint32_t* a, uint32_t* b, uint32_t words,
                      uint16_t by, uint64_t wide) {
    for (uint32_t i = 0; i < End(words, blocks); ++i) {
      const uint32_t old = a[i];
      a[i] = b[i] * 7 + by;
      b[i] = old + static_cast<uint32_t>(wide >> 32);
    }
  }
  static void DoStamp(uint32_t blocks, uint32_t* to, uint8_t byte,
                      uint32_t words, uint32_t by) {
    for (uint32_t i = 0; i < End(words, blocks); ++i) {
      to[i] = by * (i + 1) + byte;
    }
  }
};

// As the simulated device runs them.
struct SimulatedKernels {
  sim::SimulatedGpu::Kernel mix = sim::SimulatedGpu::MakeKernel(
      +[](uint32_t* to, const uint32_t* from, uint32_t words, uint32_t by) {
        BatchKernels::DoMix(sim::SimulatedGpu::blocks(), to, from, words, by);
      });
  sim::SimulatedGpu::Kernel blend = sim::SimulatedGpu::MakeKernel(
      +[](uint32_t* to, const uint32_t* from, uint32_t words, uint32_t by) {
        BatchKernels::DoBlend(sim::SimulatedGpu::blocks(), to, from, words, by);
      });
  sim::SimulatedGpu::Kernel weave = sim::SimulatedGpu::MakeKernel(
      +[](uint32_t* a, uint32_t* b, uint32_t words, uint16_t by,
          uint64_t wide) {
        BatchKernels::DoWeave(sim::SimulatedGpu::blocks(), a, b, words, by,
                              wide);
      });
  sim::SimulatedGpu::Kernel stamp = sim::SimulatedGpu::MakeKernel(
      +[](uint32_t* to, uint8_t byte, uint32_t words, uint32_t by) {
        BatchKernels::DoStamp(sim::SimulatedGpu::blocks(), to, byte, words, by);
      });
};

}  // namespace reprise::native

#endif  // REPRISE_TESTS_BINDINGS_NATIVE_BATCH_KERNELS_H_
