#include "bindings/torch/region/number_writer.h"

#include <algorithm>
#include <string>
#include <utility>

#include "bindings/torch/base/ivalues.h"
#include "bindings/torch/region/refusals.h"

namespace reprise::bindings {

void NumberWriter::Begin(std::span<const at::Tensor> watched) {
  for (const at::Tensor& tensor : watched) {
    const c10::TensorImpl& of = *tensor.unsafeGetTensorImpl();
    if (HostCounters::IsCounter(of)) {
      before_.emplace(&of, HostCounters::ValueOf(of));
    }
  }
}

bool NumberWriter::MayReadAhead(const c10::OperatorHandle& op,
                                std::span<const c10::IValue> arguments) {
  const std::string& name = op.operator_name().name;
  // Without a number that is given, no recording notes what Python computes.
  if ((name != "aten::_local_scalar_dense" && name != "aten::item") ||
      record_.pass != TapePass::kWhole || record_.numbers.values.empty()) {
    return false;
  }
  const at::Tensor& tensor = arguments[0].toTensor();
  if (!before_.contains(tensor.unsafeGetTensorImpl())) return false;
  next_ = counters_.Find(tensor, names_.RegisterOf(tensor));
  return next_.has_value();
}

void NumberWriter::NoteCall() {
  if (!next_.has_value()) return;
  TapeArithmetic& arithmetic = record_.arithmetic;
  record_.calls.back().read_ahead = true;
  if (arithmetic.reads.empty()) {
    arithmetic.registers_before = record_.registers.size();
  }
  arithmetic.reads.push_back(*std::move(next_));
  next_.reset();
}

void NumberWriter::NoteRead(const c10::IValue& value) {
  if (!value.isDouble()) {
    return fault_.Refuse(Refusal::kHandsDataOut, record_.calls.back().op);
  }
  NumberRead& read = record_.arithmetic.reads.back();
  read.value = value.toDouble();
  const TapeRegister& of = record_.registers[static_cast<size_t>(read.reg)];
  const c10::TensorImpl* const counter = of.foreign->_unsafe_get_target();
  // Somebody whom no call shows has written it.
  if (!SameBits(read.value, HostCounters::ValueOf(read, before_.at(counter),
                                                  counter->dtype()))) {
    fault_.Refuse(Refusal::kHandsDataOut, record_.calls.back().op);
  }
}

int64_t NumberWriter::TakeRead() {
  const size_t reads = record_.arithmetic.reads.size();
  if (fault_.refused() || record_.calls.empty() ||
      !record_.calls.back().read_ahead || taken_ + 1 != reads) {
    return -1;
  }
  return static_cast<int64_t>(taken_++);
}

void NumberWriter::NoteComputed(std::vector<NumberNode> nodes,
                                std::vector<double> values) {
  record_.arithmetic.noted = true;
  record_.arithmetic.nodes = std::move(nodes);
  computed_ = std::move(values);
}

void NumberWriter::Check(bool notes) {
  TapeArithmetic& arithmetic = record_.arithmetic;
  if (!notes) return;
  if (taken_ != arithmetic.reads.size() || (!arithmetic.noted && taken_ != 0)) {
    const auto read =
        std::ranges::find_if(record_.calls, &TapeCall::read_ahead);
    return fault_.Refuse(Refusal::kHandsDataOut, read->op);
  }
  std::vector<double> reads;
  for (const NumberRead& read : arithmetic.reads) reads.push_back(read.value);
  const std::vector<double>& given = record_.numbers.values;
  if (!IsWhole(arithmetic.nodes, given.size(), reads.size()) ||
      !ComputeNumbers(arithmetic.nodes, given, reads, arithmetic.values) ||
      !std::ranges::equal(arithmetic.values, computed_, SameBits)) {
    fault_.Refuse(Refusal::kNumberNotFollowed);
  }
}

}  // namespace reprise::bindings
