// Writes down what a callable does.

#ifndef REPRISE_TESTS_BINDINGS_TORCH_RECORDING_H_
#define REPRISE_TESTS_BINDINGS_TORCH_RECORDING_H_

#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "bindings/torch/region/tape_recorder.h"

namespace reprise::bindings {

using Tensors = std::vector<at::Tensor>;
using Recording = std::shared_ptr<const Tape>;

// The callable's tape, of these arguments. A failure where there is none.
inline Recording Record(const Tensors& inputs,
                        const std::function<Tensors()>& callable,
                        TapeRecorder::Parts more = {}) {
  more.inputs = inputs;
  auto recorder = TapeRecorder::Begin(std::move(more));
  const Tensors outputs = callable();
  const auto outcome = recorder->End(outputs, {});
  EXPECT_NE(outcome.tape, nullptr) << outcome.reason;
  return outcome.tape;
}

}  // namespace reprise::bindings

#endif  // REPRISE_TESTS_BINDINGS_TORCH_RECORDING_H_
