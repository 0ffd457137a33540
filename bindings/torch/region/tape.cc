#include "bindings/torch/region/tape.h"

#include <ATen/Context.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <set>
#include <string>
#include <utility>

#include "bindings/torch/base/ivalues.h"
#include "bindings/torch/base/plain_tensor.h"
#include "bindings/torch/region/generator_states.h"
#include "bindings/torch/region/host_counters.h"
#include "bindings/torch/region/tape_ops.h"

namespace reprise::bindings {
namespace {

using Origin = TapeRegister::Origin;

}  // namespace

Tape::Tape(TapeRecord record) : record_(std::move(record)) {
  std::erase_if(record_.contents, [this](const TapeContent& read) {
    return record_.registers[static_cast<size_t>(read.reg)].origin ==
           Origin::kConstant;
  });
  for (uint32_t reg = 0; reg < record_.registers.size(); ++reg) {
    const TapeRegister& given = record_.registers[reg];
    switch (given.origin) {
      case Origin::kInput:
        given_.inputs.push_back(reg);
        break;
      case Origin::kForeign:
        given_.foreign.push_back(reg);
        given_.tensors.push_back(*given.foreign);
        foreign_.Add({*given.foreign, given.form, given.has_gradient});
        break;
      case Origin::kGradient:
        given_.gradients.push_back(reg);
        break;
      case Origin::kConstant:
        given_.constants.push_back(reg);
        break;
      case Origin::kResult:
        break;
    }
  }
  MakeProgram();
  FindGenerators();
  FindReadsAgain();
  for (size_t c = 0; c < record_.calls.size(); ++c) {
    if (!record_.calls[c].read.isNone()) reads_.push_back(c);
  }
  tells_passes_ =
      record_.pass == TapePass::kWhole &&
      record_.level == TapeLevel::kBelowAutograd && given_.foreign.empty() &&
      std::ranges::none_of(record_.calls, &TapeCall::calls_python) &&
      std::ranges::count(record_.calls, false, &TapeCall::views) >=
          kFewestCallsToTell;
}

void Tape::MakeProgram() {
  const TapeArithmetic& arithmetic = record_.arithmetic;
  if (!arithmetic.noted) return;
  const auto given = static_cast<uint32_t>(record_.numbers.values.size());
  const auto use = [&](uint32_t number) {
    if (number >= given) computed_.push_back(number);
  };
  for (const TapeCall& call : record_.calls) {
    for (const TapeArgument& argument : call.arguments) {
      if (argument.kind == TapeArgument::Kind::kNumber) use(argument.index);
      for (const auto& [element, number] : argument.numbers) use(number);
    }
  }
  std::ranges::sort(computed_);
  const auto again = std::ranges::unique(computed_);
  computed_.erase(again.begin(), again.end());
  std::vector<uint32_t> used;
  for (const uint32_t number : computed_) used.push_back(number - given);
  std::vector<NumberProgram::Fixed> fixed;
  for (uint32_t n = 0; n < arithmetic.nodes.size(); ++n) {
    const NumberOp op = arithmetic.nodes[n].op;
    const bool varies = n < arithmetic.varies.size() && arithmetic.varies[n];
    // Those that are given are compared where they are given.
    if (varies || op == NumberOp::kConstant || op == NumberOp::kGiven) continue;
    fixed.push_back({.node = n, .value = arithmetic.values[n]});
  }
  std::set<size_t> counters;
  for (const NumberRead& read : arithmetic.reads) {
    counters.insert(static_cast<size_t>(read.reg));
  }
  counters_.assign(counters.begin(), counters.end());
  for (size_t reg = 0; reg < record_.registers.size(); ++reg) {
    const TapeRegister& of = record_.registers[reg];
    const bool given =
        of.origin == Origin::kForeign || of.origin == Origin::kInput;
    if (given && of.form.device.is_cpu() && !counters.contains(reg)) {
      others_.push_back(reg);
    }
  }
  std::vector<uint32_t> stands_for = arithmetic.stands_for;
  for (auto k = static_cast<uint32_t>(stands_for.size());
       k < arithmetic.reads.size(); ++k) {
    stands_for.push_back(k);
  }
  program_ = NumberProgram(arithmetic.nodes, stands_for, used, std::move(fixed),
                           arithmetic.equal);
}

void Tape::FindGenerators() {
  const auto add = [this](const at::Generator& generator) {
    if (std::ranges::find(moves_, generator) == moves_.end()) {
      moves_.push_back(generator);
    }
  };
  const auto add_of = [&](int32_t reg) {
    if (reg < 0) return;
    const c10::Device device =
        record_.registers[static_cast<size_t>(reg)].form.device;
    if (device.is_cpu() || device.is_cuda()) {
      add(at::globalContext().defaultGenerator(device));
    }
  };
  const size_t calls = std::min(record_.first_effect, record_.calls.size());
  for (size_t c = 0; c < calls; ++c) {
    const TapeCall& call = record_.calls[c];
    // Operators that are not torch's may draw without saying so.
    const bool torchs = call.op.operator_name().name.starts_with("aten::");
    if (torchs && !Draws(call.op)) continue;
    const bool of_states = GeneratorStates::AreOf(call.op);
    bool is_told = false;
    for (const TapeArgument& argument : call.arguments) {
      if (!argument.value.isGenerator()) continue;
      add(argument.value.toGenerator());
      is_told = torchs || of_states;  // from that one, and no other
    }
    if (is_told) continue;
    for (const TapeArgument& argument : call.arguments) {
      std::ranges::for_each(argument.registers, add_of);
    }
    std::ranges::for_each(call.results, add_of);
  }
}

bool Tape::CountersAreApart(const TapeInputs& inputs) const {
  using Range = std::pair<const std::byte*, const std::byte*>;
  const auto range_of = [&](size_t reg) {
    const c10::Storage& storage = GivenAs(reg, inputs).unsafe_storage();
    const auto* const begin = static_cast<const std::byte*>(storage.data());
    return Range(begin, begin + storage.nbytes());
  };
  std::vector<Range> counters;
  counters.reserve(counters_.size());
  for (const size_t reg : counters_) counters.push_back(range_of(reg));
  std::ranges::sort(counters);
  for (size_t k = 1; k < counters.size(); ++k) {
    if (counters[k].first < counters[k - 1].second) return false;
  }
  return std::ranges::none_of(others_, [&](size_t reg) {
    const TapeRegister& of = record_.registers[reg];
    if (of.origin == Origin::kForeign && of.foreign->use_count() == 0) {
      return false;
    }
    if (!GivenAs(reg, inputs).has_storage()) return false;
    const Range other = range_of(reg);
    // The last one that begins before its end ends behind all before it.
    const auto behind =
        std::ranges::lower_bound(counters, other.second, {}, &Range::first);
    return behind != counters.begin() && (behind - 1)->second > other.first;
  });
}

void Tape::FindReadsAgain() {
  bool behind_others = false;
  for (TapeCall& call : record_.calls) {
    behind_others |= IsOfOthers(call.op);
    call.read_again = call.read_ahead && behind_others;
    reads_again_ |= call.read_again;
  }
}

std::optional<std::vector<double>> Tape::ReadAhead(
    const TapeInputs& inputs) const {
  std::vector<double> reads;
  reads.reserve(record_.arithmetic.reads.size());
  for (const NumberRead& read : record_.arithmetic.reads) {
    const auto reg = static_cast<size_t>(read.reg);
    if (record_.registers[reg].foreign->use_count() == 0) return std::nullopt;
    reads.push_back(HostCounters::ValueOf(read, GivenAs(reg, inputs)));
  }
  return reads;
}

std::optional<std::vector<double>> Tape::Compute(
    const TapeInputs& inputs) const {
  const std::optional<std::vector<double>> reads = ReadAhead(inputs);
  if (!reads.has_value()) return std::nullopt;
  const std::vector<uint32_t>& stands_for = record_.arithmetic.stands_for;
  for (size_t k = 0; k < stands_for.size(); ++k) {
    if (!SameBits((*reads)[k], (*reads)[stands_for[k]])) return std::nullopt;
  }
  const auto wanted = program_.Run(inputs.numbers, *reads);
  if (!wanted.has_value() || !CountersAreApart(inputs)) return std::nullopt;
  std::vector<double> numbers(inputs.numbers.begin(), inputs.numbers.end());
  if (!computed_.empty()) numbers.resize(computed_.back() + 1);
  for (size_t i = 0; i < computed_.size(); ++i) {
    numbers[computed_[i]] = (*wanted)[i];
  }
  return numbers;
}

size_t Tape::values_read() const {
  return static_cast<size_t>(std::ranges::count_if(
      reads_, [this](size_t c) { return !IsOfOthers(record_.calls[c].op); }));
}

bool Tape::calls_others() const {
  return std::ranges::any_of(record_.calls, [](const TapeCall& call) {
    return call.calls_python || IsOfOthers(call.op);
  });
}

bool Tape::FitsNumbers(const TapeInputs& inputs) const {
  const TapeNumbers& numbers = record_.numbers;
  if (inputs.numbers.size() != numbers.values.size()) return false;
  for (size_t i = 0; i < numbers.values.size(); ++i) {
    if (numbers.varies[i] ? !std::isfinite(inputs.numbers[i])
                          : !SameBits(numbers.values[i], inputs.numbers[i])) {
      return false;
    }
  }
  return true;
}

const c10::TensorImpl& Tape::GivenAs(size_t reg,
                                     const TapeInputs& inputs) const {
  const TapeRegister& given = record_.registers[reg];
  return given.origin == Origin::kInput
             ? *inputs.tensors[given.index].unsafeGetTensorImpl()
             : *given.foreign->_unsafe_get_target();
}

bool Tape::FitsContents(const TapeInputs& inputs) const {
  return std::ranges::all_of(record_.contents, [&](const TapeContent& read) {
    const TapeRegister& reg = record_.registers[static_cast<size_t>(read.reg)];
    if (reg.origin == Origin::kForeign && reg.foreign->use_count() == 0) {
      return true;
    }
    return SameContent(
        CopyHostTensor(GivenAs(static_cast<size_t>(read.reg), inputs)),
        read.content);
  });
}

bool Tape::FitsTensors(const TapeInputs& inputs, Gone gone) const {
  if (inputs.tensors.size() != record_.inputs.size() ||
      inputs.modes != record_.modes) {
    return false;
  }
  const auto fits = [this](const TapeRegister& reg,
                           const c10::TensorImpl& tensor) {
    const bool value_only =
        record_.pass == TapePass::kForward && reg.origin == Origin::kInput;
    return (value_only ? reg.form.FitsValue(tensor)
                       : reg.form.Fits(tensor, reg.has_gradient)) &&
           ((!record_.placement.fixed_offsets &&
             reg.origin == Origin::kInput) ||
            tensor.storage_offset() == reg.form.storage_offset);
  };
  for (size_t i = 0; i < record_.inputs.size(); ++i) {
    if (!fits(record_.registers[static_cast<size_t>(record_.inputs[i])],
              *inputs.tensors[i].unsafeGetTensorImpl())) {
      return false;
    }
  }
  if (!GivenAlike(inputs.tensors)) return false;
  std::vector<const c10::StorageImpl*> given;
  for (const at::Tensor& tensor : inputs.tensors) {
    given.push_back(tensor.storage().unsafeGetStorageImpl());
  }
  std::ranges::sort(given);
  // Those in the memory of an input would have to be named as it is.
  if (gone == Gone::kMissed) {
    if (!foreign_.Hold(given)) return false;
  } else {
    for (const uint32_t index : given_.foreign) {
      const TapeRegister& reg = record_.registers[index];
      const WatchedTensor tensor{*reg.foreign, reg.form, reg.has_gradient};
      const bool is_gone = reg.foreign->use_count() == 0;
      if (is_gone ? !reg.content.defined() : !tensor.Holds(given)) return false;
    }
  }
  for (const uint32_t index : given_.gradients) {
    const TapeRegister& reg = record_.registers[index];
    const c10::TensorImpl* gradient = GradientOf(GivenAs(reg.index, inputs));
    if (gradient == nullptr || !IsPlainTensor(*gradient) ||
        !fits(reg, *gradient)) {
      return false;
    }
  }
  if (!AliasesHold(inputs)) return false;
  // Python may ask whether one of them was given.
  const auto is_watched = [this](const at::Tensor& tensor) {
    return record_.watched.Has(tensor.unsafeGetTensorImpl());
  };
  return std::ranges::none_of(inputs.tensors, is_watched) &&
         record_.watched.Hold();
}

bool Tape::AliasesHold(const TapeInputs& inputs) const {
  const auto is_outside = [this](int32_t reg) {
    const Origin origin = record_.registers[static_cast<size_t>(reg)].origin;
    return origin == Origin::kForeign || origin == Origin::kGradient;
  };
  // Null: it is gone.
  const auto tensor_of = [&](int32_t reg) -> const c10::TensorImpl* {
    const TapeRegister& of = record_.registers[static_cast<size_t>(reg)];
    if (of.origin == Origin::kGradient) {
      return GradientOf(GivenAs(of.index, inputs));
    }
    return of.foreign->use_count() == 0 ? nullptr
                                        : of.foreign->_unsafe_get_target();
  };
  for (const auto& [first, second] : record_.placement.aliases) {
    if (!is_outside(first) || !is_outside(second)) continue;
    const c10::TensorImpl* const one = tensor_of(first);
    const c10::TensorImpl* const other = tensor_of(second);
    if (one == nullptr || other == nullptr ||
        one->unsafe_storage().unsafeGetStorageImpl() !=
            other->unsafe_storage().unsafeGetStorageImpl()) {
      return false;
    }
  }
  return true;
}

bool Tape::GivenAlike(std::span<const at::Tensor> tensors) const {
  const auto alike = [&](auto part, auto expected) {
    std::vector<std::pair<const void*, uint32_t>> sorted;
    sorted.reserve(tensors.size());
    for (uint32_t i = 0; i < tensors.size(); ++i) {
      sorted.emplace_back(part(*tensors[i].unsafeGetTensorImpl()), i);
    }
    std::ranges::sort(sorted);
    uint32_t first = 0;
    for (size_t k = 0; k < sorted.size(); ++k) {
      if (k == 0 || sorted[k].first != sorted[k - 1].first) {
        first = sorted[k].second;
      }
      if (expected(sorted[k].second) != first) return false;
    }
    return true;
  };
  return alike([](const c10::TensorImpl& tensor) { return &tensor; },
               [this](uint32_t i) {
                 return record_
                     .registers[static_cast<size_t>(record_.inputs[i])]
                     .index;
               }) &&
         alike(
             [](const c10::TensorImpl& tensor) {
               return tensor.unsafe_storage().unsafeGetStorageImpl();
             },
             [this](uint32_t i) { return record_.placement.sharing[i]; }) &&
         GivenAsFarApart(tensors);
}

bool Tape::GivenAsFarApart(std::span<const at::Tensor> tensors) const {
  const TapePlacement& placement = record_.placement;
  const auto then = [this](uint32_t i) {
    return record_.registers[static_cast<size_t>(record_.inputs[i])]
        .form.offset_bytes();
  };
  const auto now = [&tensors](uint32_t i) {
    return tensors[i].storage_offset() *
           static_cast<int64_t>(tensors[i].element_size());
  };
  const auto as_far = [&](uint32_t i, uint32_t j) {
    return now(i) - now(j) == then(i) - then(j);
  };
  for (uint32_t i = 0; placement.fixed_distances && i < tensors.size(); ++i) {
    if (!as_far(i, placement.sharing[i])) return false;
  }
  return std::ranges::all_of(placement.in_one_place, [&](const auto& pair) {
    return as_far(pair.first, pair.second);
  });
}

}  // namespace reprise::bindings
