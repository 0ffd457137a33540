#include "bindings/torch/region/tape_record.h"

#include <algorithm>
#include <utility>

namespace reprise::bindings {
namespace {

using Origin = TapeRegister::Origin;

// What the elements of a vector take, without what these refer to.
template <typename T>
size_t BytesIn(const std::vector<T>& vector) {
  return vector.capacity() * sizeof(T);
}

size_t BytesIn(const at::Tensor& tensor) {
  return tensor.defined() ? sizeof(c10::TensorImpl) + tensor.nbytes() : 0;
}

// What the value refers to.
size_t BytesIn(const c10::IValue& value) {
  if (value.isString()) return value.toStringRef().size();
  if (value.isTensor()) return BytesIn(value.toTensor());
  if (!value.isList()) return 0;
  size_t bytes = 0;
  for (const c10::IValue& element : value.toListRef()) {
    bytes += sizeof element + BytesIn(element);
  }
  return bytes;
}

size_t BytesIn(const TensorForm& form) {
  return BytesIn(form.sizes) + BytesIn(form.strides);
}

}  // namespace

TapeNumbers TapeNumbers::Of(std::vector<double> values, size_t seen) {
  TapeNumbers numbers;
  numbers.seen = std::min(seen, values.size());
  numbers.varies.resize(values.size(), false);
  numbers.decides.resize(values.size(), false);
  numbers.values = std::move(values);
  return numbers;
}

void TapeNumbers::NoteComputed(const std::vector<bool>& noted) {
  if (noted.empty()) {
    with_plain_floats = true;
    return;
  }
  with_noting_floats = true;
  computed.resize(noted.size(), false);
  for (size_t i = 0; i < noted.size(); ++i) {
    computed[i] = computed[i] || noted[i];
  }
}

void TapeNumbers::Join(const TapeNumbers& other) {
  for (size_t i = 0; i < decides.size(); ++i) {
    decides[i] = decides[i] && other.decides[i];
  }
}

const TapeCall* TapeRecord::MakerOf(int32_t reg) const {
  const TapeRegister& of = registers[static_cast<size_t>(reg)];
  return of.origin == Origin::kResult ? &calls[of.index] : nullptr;
}

TapeRecord::Used TapeRecord::UsedBehind(size_t first, size_t end) const {
  Used used;
  std::vector<int32_t> left;
  std::unordered_set<int32_t> seen;
  std::set<size_t> views;
  const auto use = [&](int32_t reg) {
    if (reg < 0) return;
    const TapeRegister& of = registers[static_cast<size_t>(reg)];
    if (of.origin == Origin::kResult && of.index >= first && of.index < end &&
        seen.insert(reg).second) {
      left.push_back(reg);
    }
  };
  for (size_t c = end; c < calls.size(); ++c) {
    for (const TapeArgument& argument : calls[c].arguments) {
      for (const int32_t reg : argument.registers) use(reg);
    }
    for (const int32_t reg : calls[c].results) use(reg);
  }
  for (const int32_t reg : outputs) use(reg);
  for (const TapeGradient& gradient : gradients) use(gradient.after);
  while (!left.empty()) {
    const int32_t reg = left.back();
    left.pop_back();
    const size_t maker = registers[static_cast<size_t>(reg)].index;
    if (calls[maker].views) {
      views.insert(maker);
      use(calls[maker].arguments[0].registers[0]);
    } else {
      used.results.insert(reg);
    }
  }
  used.views.assign(views.begin(), views.end());
  return used;
}

bool TapeRecord::ReadsGradients() const {
  return std::ranges::any_of(registers, [](const TapeRegister& reg) {
    return reg.origin == Origin::kGradient;
  });
}

size_t TapeRecord::Bytes() const {
  constexpr size_t kOfATape = 4096;  // locks, tables, what is known of numbers
  size_t all = kOfATape + BytesIn(registers) + BytesIn(calls) +
               BytesIn(inputs) + BytesIn(outputs) + BytesIn(used_up) +
               BytesIn(gradients);
  for (const TapeRegister& reg : registers) {
    all += BytesIn(reg.form) + BytesIn(reg.content);
    if (reg.foreign.has_value()) all += sizeof(WatchedTensor);
  }
  for (const TapeCall& call : calls) {
    all += BytesIn(call.arguments) + BytesIn(call.results) +
           BytesIn(call.last_uses) + BytesIn(call.read);
    for (const TapeArgument& argument : call.arguments) {
      all += BytesIn(argument.registers) + BytesIn(argument.numbers) +
             BytesIn(argument.value);
    }
  }
  for (const TapeContent& read : contents) all += BytesIn(read.content);
  // Stretches say about as much of calls as the tape itself.
  return all + BytesIn(calls) + BytesIn(registers);
}

void TapeRecord::NoteUses() {
  std::vector<int64_t> last(registers.size(), -1);
  const auto keep = [&last](int32_t reg) {
    if (reg >= 0) last[static_cast<size_t>(reg)] = INT64_MAX;
  };
  for (const int32_t reg : outputs) keep(reg);
  for (const TapeGradient& gradient : gradients) {
    keep(static_cast<int32_t>(gradient.of));
    keep(gradient.after);
  }
  for (size_t c = 0; c < calls.size(); ++c) {
    const auto use = [&](int32_t reg) {
      if (reg < 0) return;
      int64_t& at = last[static_cast<size_t>(reg)];
      at = std::max(at, static_cast<int64_t>(c));
    };
    for (const TapeArgument& argument : calls[c].arguments) {
      for (const int32_t reg : argument.registers) use(reg);
    }
    for (const int32_t reg : calls[c].results) use(reg);
  }
  for (size_t reg = 0; reg < last.size(); ++reg) {
    if (last[reg] < 0 || last[reg] == INT64_MAX) continue;
    calls[static_cast<size_t>(last[reg])].last_uses.push_back(
        static_cast<int32_t>(reg));
  }
}

void TapeRecord::Join(TapeRecord&& other) {
  watched = std::move(other.watched);  // more since it was written
  numbers.Join(other.numbers);
  placement.fixed_offsets |= other.placement.fixed_offsets;
  for (const auto& [first, second] : other.placement.aliases) {
    // Where they lie apart, a name is no other one's, and it is the same.
    if (!LieApart(first, second)) NoteAlias(first, second);
  }
}

void TapeRecord::NoteAlias(int32_t first, int32_t second) {
  const TapeRegister& one = registers[static_cast<size_t>(first)];
  const TapeRegister& other = registers[static_cast<size_t>(second)];
  placement.aliases.emplace(first, second);
  if (one.origin == Origin::kInput && other.origin == Origin::kInput) {
    placement.in_one_place.emplace(one.index, other.index);
  } else {  // views of arguments, say
    placement.fixed_distances = true;
  }
}

bool TapeRecord::LieApart(int32_t first, int32_t second) const {
  return registers[static_cast<size_t>(first)].form.offset_bytes() !=
         registers[static_cast<size_t>(second)].form.offset_bytes();
}

}  // namespace reprise::bindings
