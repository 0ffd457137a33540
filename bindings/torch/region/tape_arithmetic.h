// What Python computes in a recorded call.

#ifndef REPRISE_BINDINGS_TORCH_REGION_TAPE_ARITHMETIC_H_
#define REPRISE_BINDINGS_TORCH_REGION_TAPE_ARITHMETIC_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "bindings/torch/region/number_program.h"

namespace reprise::bindings {

// A number that Python reads from a tensor of the host (HostCounters).
struct NumberRead {
  // A call adds a constant to it before. The float or double of the tensor's
  // type that is nearest to the sum is what it holds then.
  struct Added {
    double value = 0;
    int32_t reg = -1;  // that of a tensor with this value; negative: none
  };
  int32_t reg = 0;  // kForeign
  std::vector<Added> added = {};
  double value = 0;  // as it was read in the recording
};

// What Python computes from the numbers that a call is given and those that it
// reads. Which number an operator is given is told by values: each that might
// be it has to have the same value in each call.
struct TapeArithmetic {
  std::vector<NumberRead> reads = {};
  size_t registers_before = 0;  // that were named before the first read
  // By read: the first one that had its value in all recordings.
  std::vector<uint32_t> stands_for = {};
  // What was computed: known from a recording with floats that note it.
  bool noted = false;
  std::vector<NumberNode> nodes = {};
  std::vector<double> values = {};  // of the nodes, in the last such recording
  // By node: it was another one in some recording.
  std::vector<bool> varies = {};
  std::vector<NumberProgram::Equal> equal = {};
  // What operators were given that are made of others, which may decide by it.
  std::vector<double> deciding = {};
};

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_REGION_TAPE_ARITHMETIC_H_
