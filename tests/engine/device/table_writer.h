// The kernel that writes a table of arguments, on the simulated driver.

#ifndef REPRISE_TESTS_ENGINE_DEVICE_TABLE_WRITER_H_
#define REPRISE_TESTS_ENGINE_DEVICE_TABLE_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tests/sim/simulated_gpu.h"

namespace reprise::device {

// Its parameters are a chunk of the table, where that goes, and how many
// vectors of 16 bytes of it count.
template <uint32_t kChunk>
sim::SimulatedGpu::Kernel TableWriter() {
  sim::SimulatedGpu::Kernel kernel;
  kernel.params = {{0, kChunk}, {kChunk, 8}, {kChunk + 8, 4}};
  kernel.run = [](const std::byte* image) {
    std::byte* table = nullptr;
    int32_t vectors = 0;
    std::memcpy(&table, image + kChunk, sizeof table);
    std::memcpy(&vectors, image + kChunk + 8, sizeof vectors);
    if (vectors == 0) return;  // nobody says where, then
    std::memcpy(table, image, static_cast<size_t>(vectors) * 16);
  };
  return kernel;
}

}  // namespace reprise::device

#endif  // REPRISE_TESTS_ENGINE_DEVICE_TABLE_WRITER_H_
