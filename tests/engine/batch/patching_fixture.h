// Batches whose graphs are given other arguments, on the simulated driver.

#ifndef REPRISE_TESTS_ENGINE_BATCH_PATCHING_FIXTURE_H_
#define REPRISE_TESTS_ENGINE_BATCH_PATCHING_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "engine/batch/batch_record.h"
#include "engine/batch/kernel_code.h"
#include "tests/engine/batch/simulated_kernel.h"
#include "tests/engine/device/table_writer.h"
#include "tests/sim/simulated_gpu.h"

namespace reprise::engine {

inline void Add(float* to, const float* from, float by) { *to = *from + by; }
inline void Multiply(float* to, const float* from, float by) {
  *to = *from * by;
}
inline void AddByTable(const std::byte* arguments) {
  float* to = nullptr;
  const float* from = nullptr;
  float by = 0;
  std::memcpy(&to, arguments, 8);
  std::memcpy(&from, arguments + 8, 8);
  std::memcpy(&by, arguments + 16, 4);
  Add(to, from, by);
}

inline constexpr uint32_t kChunk = 256;

class PatchingTest : public ::testing::Test {
 protected:
  // Of Add.
  static constexpr uint32_t kImageBytes = 20;

  // memory[i + 1] = memory[i] + by + i
  BatchRecord Record(const std::shared_ptr<KernelCode>& kernel, float by,
                     size_t launches = 3, uint32_t grid = 1) {
    BatchRecord record;
    for (size_t i = 0; i < launches; ++i) {
      std::byte* image =
          record.AddKernel(kernel.get(), {.grid = {grid}}, kImageBytes);
      float* to = &memory_[i + 1];
      const float* from = &memory_[i];
      const float value = by + static_cast<float>(i);
      std::memcpy(image, &to, 8);
      std::memcpy(image + 8, &from, 8);
      std::memcpy(image + 16, &value, 4);
      record.AddAccess(to, 1, 4, true, 0);
      record.AddAccess(from, 1, 4, false, 1);
      record.EndLaunch();
    }
    return record;
  }
  void ExpectSums(float by) {
    EXPECT_THAT(std::vector<float>(memory_.begin(), memory_.begin() + 4),
                testing::ElementsAre(0, by, 2 * by + 1, 3 * by + 3));
    std::fill(memory_.begin(), memory_.end(), 0.0f);
  }

  sim::SimulatedGpu gpu_;
  std::vector<float> memory_ = std::vector<float>(8);
  const sim::SimulatedGpu::Kernel add_ = sim::SimulatedGpu::MakeKernel(&Add);
  const sim::SimulatedGpu::Kernel multiply_ =
      sim::SimulatedGpu::MakeKernel(&Multiply);
  const sim::SimulatedGpu::Kernel twin_ =
      sim::SimulatedGpu::MakeKernel(&AddByTable);
  const sim::SimulatedGpu::Kernel writer_ = device::TableWriter<kChunk>();
  const std::shared_ptr<KernelCode> add_code_ = CodeOf(gpu_, "add", add_);
  const std::shared_ptr<KernelCode> multiply_code_ =
      CodeOf(gpu_, "multiply", multiply_);
};

}  // namespace reprise::engine

#endif  // REPRISE_TESTS_ENGINE_BATCH_PATCHING_FIXTURE_H_
