// Calls of operators, written down once and made again without Python.

#ifndef REPRISE_BINDINGS_TORCH_REGION_TAPE_H_
#define REPRISE_BINDINGS_TORCH_REGION_TAPE_H_

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <c10/core/TensorImpl.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "bindings/torch/base/tensor_form.h"
#include "bindings/torch/region/tape_record.h"
#include "bindings/torch/region/tape_surroundings.h"

namespace reprise::bindings {

// Where a tape is made again: tensors and numbers of a call, and the modes of
// its thread, which are read once for all tapes that are asked.
struct TapeInputs {
  std::span<const at::Tensor> tensors;
  std::span<const double> numbers;
  uint64_t modes = ModesWord();
};

// A record, and what it says of the calls that it stands for. Immutable.
//
// RunTape (tape_run.h) makes the same calls through the dispatcher, on tensors
// that stand where the recorded ones stood: what views, aliases, writes, random
// numbers and errors are is what it is in eager. Values are dropped at their
// last use. Any number of threads.
class Tape {
 public:
  // When all registers, and calls, are what they are.
  explicit Tape(TapeRecord record);

  const TapeRecord& record() const { return record_; }
  // Registers that are no results, by origin.
  struct Given {
    std::vector<uint32_t> inputs;
    std::vector<uint32_t> foreign;
    std::vector<WeakTensor> tensors;  // these
    std::vector<uint32_t> gradients;
    std::vector<uint32_t> constants;
  };
  const Given& given() const { return given_; }

  TapeLevel level() const { return record_.level; }
  size_t calls() const { return record_.calls.size(); }
  // Calls whose results a run compares.
  std::span<const size_t> reads() const { return reads_; }
  // Those of torch's: a run waits for the device there.
  size_t values_read() const;
  // Some are of operators that are not torch's own: their kernels may be
  // Python's, which reads what it likes.
  bool calls_others() const;
  // A formula of its arguments alone. By no weight is known where it begins, so
  // its runs tell sessions.
  bool tells_passes() const { return tells_passes_; }

  // It was recorded from such tensors and numbers, and all that it names is
  // there and has the form that it had. About 10 ns a tensor. What tensors of
  // the host hold is compared where operators go by it: see reads_contents().
  bool Fits(const TapeInputs& inputs) const {
    return FitsNumbers(inputs) && FitsTensors(inputs, Gone::kMissed) &&
           FitsContents(inputs) && (!computes() || Compute(inputs).has_value());
  }
  // Who records such a call is to find the same calls, as far as is known:
  // numbers apart, and what came from outside and may come anew each time.
  bool Resembles(const TapeInputs& inputs) const {
    return inputs.numbers.size() == record_.numbers.values.size() &&
           FitsTensors(inputs, Gone::kMayBeConstant) && FitsContents(inputs);
  }
  // Fits looks at memory of the host: what has run ahead there is to be taken
  // back before.
  bool reads_contents() const {
    return !record_.contents.empty() || !record_.arithmetic.reads.empty();
  }
  bool FitsNumbers(const TapeInputs& inputs) const;

  // A recording has noted what Python computes with numbers that it reads.
  bool knows_arithmetic() const {
    return record_.arithmetic.noted && !record_.arithmetic.reads.empty();
  }
  // Some of its numbers are computed.
  bool computes() const { return !program_.empty(); }
  // The call's numbers, and behind them those of TapeArithmetic that operators
  // are given. Nothing: one is another number than it has to be, or what it is
  // read from has gone.
  std::optional<std::vector<double>> Compute(const TapeInputs& inputs) const;
  // What calls read that read ahead, by number of the read; before the first
  // call. Nothing: what one is read from has gone.
  std::optional<std::vector<double>> ReadAhead(const TapeInputs& inputs) const;
  // Some are made again: see TapeCall::read_again.
  bool reads_again() const { return reads_again_; }

  // It was recorded with ordinary floats and with ones that note what Python
  // does with them, and both made these calls; or it takes none.
  bool has_both_floats() const {
    const TapeNumbers& numbers = record_.numbers;
    return numbers.values.empty() ||
           (numbers.with_noting_floats && numbers.with_plain_floats);
  }

  // Random generators that calls may move before the first effect: those of a
  // run that ends there are to be put back.
  std::span<const at::Generator> moves() const { return moves_; }

  // What came from outside and is no input: parameters, say.
  std::span<const WeakTensor> foreign() const { return given_.tensors; }

 private:
  // Of operators that are no views; a shorter formula is a part of what is
  // round it, rather.
  static constexpr ptrdiff_t kFewestCallsToTell = 64;

  // What of a tensor from outside that is gone, and whose content is known.
  enum class Gone : uint8_t { kMissed, kMayBeConstant };
  bool FitsTensors(const TapeInputs& inputs, Gone gone) const;
  // Behind FitsTensors. What is gone is not looked at.
  bool FitsContents(const TapeInputs& inputs) const;
  // An input, or one from outside that is there.
  const c10::TensorImpl& GivenAs(size_t reg, const TapeInputs& inputs) const;
  // What was named as one of two from outside, because both lay in one place,
  // may be either only while they do. Behind the rest of FitsTensors.
  bool AliasesHold(const TapeInputs& inputs) const;
  // The same tensors, and tensors with the same memory, are given in the same
  // places.
  bool GivenAlike(std::span<const at::Tensor> tensors) const;
  // Those in one memory lie in it as far from each other, if that matters.
  bool GivenAsFarApart(std::span<const at::Tensor> tensors) const;

  void MakeProgram();
  void FindReadsAgain();
  void FindGenerators();
  // No tensor of the host that calls may write has the memory of one that is
  // read ahead: what is added to it would be added to that, too.
  bool CountersAreApart(const TapeInputs& inputs) const;

  TapeRecord record_;
  Given given_;
  NumberProgram program_;
  std::vector<uint32_t> computed_;  // which numbers it gives
  std::vector<size_t> counters_;    // registers of reads, each once
  std::vector<size_t> others_;      // that are of the host, too
  WatchedTensors foreign_;          // of what is given
  std::vector<size_t> reads_;
  std::vector<at::Generator> moves_;
  bool tells_passes_ = false;
  bool reads_again_ = false;
};

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_REGION_TAPE_H_
