#include "bindings/torch/region/tape_matcher.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "bindings/torch/base/ivalues.h"
#include "bindings/torch/region/tape_ops.h"
#include "bindings/torch/runtime/op_policy.h"

namespace reprise::bindings {
namespace {

constexpr char kOtherResults[] = ": gives other sizes or numbers each time";
constexpr char kOtherData[] =
    ": hands data to the host, which is other data each time";

using Kind = TapeArgument::Kind;
using Origin = TapeRegister::Origin;

std::string TextOf(const c10::IValue& value) {
  if (value.isDouble()) return std::to_string(value.toDouble());
  if (value.isInt()) return std::to_string(value.toInt());
  if (value.isBool()) return value.toBool() ? "True" : "False";
  if (value.isNone()) return "None";
  if (value.isString()) return value.toStringRef();
  if (value.isIntList()) {
    std::string text = "[";
    for (const int64_t element : value.toIntVector()) {
      text += (text.size() > 1 ? ", " : "") + std::to_string(element);
    }
    return text + "]";
  }
  return "a " + value.tagKind();
}

std::string TextOf(const TapeArgument& argument) {
  return argument.kind == Kind::kValue ? TextOf(argument.value) : "a tensor";
}

}  // namespace

TapeMatcher::TapeMatcher(std::vector<std::shared_ptr<const Tape>> expected,
                         TapeRecord* written)
    : all_(std::move(expected)), written_(written) {
  if (!all_.empty()) expected_ = all_[0]->record();
}

bool TapeMatcher::SameRegister(int32_t expected, int32_t written) {
  if (expected != written) return false;
  if (written < 0) return true;
  TapeRecord& tape = *expected_;
  if (static_cast<size_t>(expected) >= tape.registers.size()) return false;
  TapeRegister& then = tape.registers[static_cast<size_t>(expected)];
  TapeRegister& now = written_->registers[static_cast<size_t>(written)];
  if (then.origin == Origin::kConstant && now.origin == Origin::kForeign) {
    now.origin = Origin::kConstant;
  }
  if (then.origin != now.origin || then.index != now.index ||
      !SameForm(then, now)) {
    return false;
  }
  if (now.origin == Origin::kForeign &&
      then.foreign->_unsafe_get_target() == now.foreign->_unsafe_get_target()) {
    return true;
  }
  if (now.origin == Origin::kForeign || now.origin == Origin::kConstant) {
    // Another object, at each call, with what is the same.
    if (!then.content.defined() || !now.content.defined()) return false;
    if (now.unread) {
      unread_.push_back(static_cast<size_t>(written));
    } else if (!SameContent(then.content, now.content)) {
      return false;
    }
    then.origin = now.origin = Origin::kConstant;
  }
  return true;
}

bool TapeMatcher::HoldTheSame() {
  bool same = true;
  std::erase_if(unread_, [&](size_t reg) {
    const TapeRegister& now = written_->registers[reg];
    if (now.unread) return false;
    const TapeRegister& then = expected_->registers[reg];
    same &= SameContent(then.content, now.content);
    return true;
  });
  return same;
}

bool TapeMatcher::SameForm(const TapeRegister& then,
                           const TapeRegister& now) const {
  TensorForm there = now.form;
  there.storage_offset = then.form.storage_offset;
  if (there != then.form) return false;
  const int64_t moved = now.form.offset_bytes() - then.form.offset_bytes();
  if (moved == 0 || now.origin == Origin::kInput) return true;
  if (now.origin != Origin::kResult) return false;
  const TapeCall& made = written_->calls[now.index];
  return std::ranges::any_of(made.arguments, [&](const TapeArgument& argument) {
    return std::ranges::any_of(argument.registers, [&](int32_t reg) {
      return reg >= 0 && MovedBy(reg) == moved;
    });
  });
}

bool TapeMatcher::MayBe(int32_t expected, int32_t written) const {
  return written_->placement.aliases.contains({written, expected}) &&
         static_cast<size_t>(expected) < expected_->registers.size() &&
         static_cast<size_t>(written) < expected_->registers.size() &&
         expected_->LieApart(written, expected);
}

int64_t TapeMatcher::MovedBy(int32_t reg) const {
  const auto at = static_cast<size_t>(reg);
  return written_->registers[at].form.offset_bytes() -
         expected_->registers[at].form.offset_bytes();
}

bool TapeMatcher::SameArgument(TapeArgument& expected, TapeArgument& written,
                               const NumberMatcher::Place& place,
                               std::string& how) {
  if (expected.Varies()) return SameNumbers(expected, written, place, how);
  if (expected.kind != written.kind || expected.wrapped != written.wrapped ||
      expected.registers.size() != written.registers.size()) {
    how = "is another kind of thing";
    return false;
  }
  for (size_t i = 0; i < written.registers.size(); ++i) {
    const int32_t then = expected.registers[i];
    // It is the other one, which lay elsewhere then.
    if (written.by_place && MayBe(then, written.registers[i])) {
      written.registers[i] = then;
    }
    if (!SameRegister(expected.registers[i], written.registers[i])) {
      how = "is another tensor";
      return false;
    }
  }
  if (written.kind != Kind::kValue ||
      SameValue(expected.value, written.value)) {
    return true;
  }
  how = "is " + TextOf(written) + ", was " + TextOf(expected);
  const c10::IValue& was = expected.value;
  const c10::IValue& is = written.value;
  if (was.isDouble() && is.isDouble()) {
    numbers_.Note(place, was.toDouble(), is.toDouble());
    return true;
  }
  if (!was.isList() || !is.isList()) return false;
  const c10::ArrayRef<c10::IValue> before = was.toListRef();
  const c10::ArrayRef<c10::IValue> now = is.toListRef();
  if (before.size() != now.size()) return false;
  for (size_t i = 0; i < now.size(); ++i) {
    if (SameValue(before[i], now[i])) continue;
    if (!before[i].isDouble() || !now[i].isDouble()) return false;
    NumberMatcher::Place element = place;
    element.element = static_cast<uint32_t>(i);
    numbers_.Note(element, before[i].toDouble(), now[i].toDouble());
  }
  return true;
}

bool TapeMatcher::SameNumbers(const TapeArgument& expected,
                              TapeArgument& written,
                              const NumberMatcher::Place& place,
                              std::string& how) {
  how = "is " + TextOf(written);
  if (expected.wrapped != written.wrapped) return false;
  // The number of the call, or one that is known at the end only.
  const auto fits = [&](const NumberMatcher::Place& at, uint32_t number,
                        bool negated, const c10::IValue& value) {
    if (!value.isDouble()) return false;
    if (number >= written_->numbers.values.size()) {
      numbers_.Expect(at, number, value.toDouble());
      return true;
    }
    const double given = written_->numbers.values[number];
    if (!SameBits(value.toDouble(), negated ? -given : given)) return false;
    numbers_.Confirm(number, negated);
    return true;
  };
  if (expected.kind == Kind::kNumber) {
    if (!fits(place, expected.index, expected.negated, written.value)) {
      return false;
    }
  } else {
    if (!written.value.isList()) return false;
    const c10::ArrayRef<c10::IValue> then = expected.value.toListRef();
    const c10::ArrayRef<c10::IValue> now = written.value.toListRef();
    if (then.size() != now.size()) return false;
    auto number = expected.numbers.begin();  // ascending
    for (uint32_t i = 0; i < now.size(); ++i) {
      NumberMatcher::Place element = place;
      element.element = i;
      if (number != expected.numbers.end() && number->first == i) {
        if (!fits(element, (number++)->second, false, now[i])) return false;
      } else if (!SameValue(then[i], now[i])) {
        return false;
      }
    }
  }
  c10::IValue value = std::move(written.value);
  written = expected;
  written.value = std::move(value);
  return true;
}

void TapeMatcher::ForgetNumbers() {
  written_->numbers.varies.assign(written_->numbers.varies.size(), false);
  for (TapeCall& call : written_->calls) {
    for (TapeArgument& argument : call.arguments) {
      if (argument.Varies()) argument.kind = Kind::kValue;
      argument.numbers.clear();
    }
  }
}

std::optional<std::string> TapeMatcher::DifferenceAt(size_t index) {
  TapeCall& written = written_->calls[index];
  const std::string name = FullName(written.op.operator_name());
  const std::string number = "call " + std::to_string(index);
  read_another_ = false;
  if (index >= expected_->calls.size()) {
    return number + ", " + name + ", is one more";
  }
  TapeCall& expected = expected_->calls[index];
  if (written.op.operator_name() != expected.op.operator_name()) {
    const std::string was = FullName(expected.op.operator_name());
    return number + " is " + name + ", was " + was;
  }
  if (written.grad_mode != expected.grad_mode ||
      written.autocast != expected.autocast) {
    return number + ", " + name + ": under another grad mode, or autocast";
  }
  if (written.below_views != expected.below_views ||
      written.writes_data != expected.writes_data) {
    return number + ", " + name + ": by another name of a tensor (`.data`)";
  }
  for (size_t i = 0; i < written.arguments.size(); ++i) {
    std::string how;
    // It does not vary within a tape.
    if (IsProbability(written.op, i) &&
        !SameValue(expected.arguments[i].value, written.arguments[i].value)) {
      return number + ", " + name + ": '" +
             written.op.schema().arguments()[i].name() + "' is " +
             TextOf(written.arguments[i].value) + ", was " +
             TextOf(expected.arguments[i].value);
    }
    if (!SameArgument(expected.arguments[i], written.arguments[i],
                      {.call = index, .argument = i}, how)) {
      return number + ", " + name + ": '" +
             written.op.schema().arguments()[i].name() + "' " + how;
    }
  }
  if (!HoldTheSame()) {
    return number + ", " + name + ": a tensor of the host holds something else";
  }
  if (written.read_ahead != expected.read_ahead) {
    return number + ", " + name + ": reads a number where others were read";
  }
  if (!SameValue(written.read, expected.read)) {
    read_another_ = true;
    return number + ", " + name +
           (written.reads_results ? kOtherResults : kOtherData);
  }
  if (!SameResults(expected, written)) {
    return number + ", " + name + ": its result is another one";
  }
  return std::nullopt;
}

bool TapeMatcher::SameResults(const TapeCall& expected,
                              const TapeCall& written) {
  if (written.results.size() != expected.results.size()) return false;
  for (size_t i = 0; i < written.results.size(); ++i) {
    const int32_t reg = written.results[i];
    if (expected.results[i] == TapeArgument::kUndefined && reg >= 0) continue;
    if (!SameRegister(expected.results[i], reg)) return false;
  }
  return true;
}

bool TapeMatcher::ExpectAnother(size_t index) {
  std::optional<TapeRecord> before = expected_;
  const bool read_another = read_another_;
  for (size_t next = which_ + 1; next < all_.size(); ++next) {
    expected_ = TapeRecord(all_[next]->record());  // whole if a copy throws
    numbers_.Restart();
    unread_.clear();
    ForgetNumbers();  // the one before has named what varies in its way
    size_t call = 0;
    while (call <= index && !DifferenceAt(call).has_value()) ++call;
    numbers_.TakeNew();  // the program is no longer where it took these
    if (call > index) {
      which_ = next;
      return true;
    }
  }
  expected_ = std::move(before);
  read_another_ = read_another;
  return false;
}

std::optional<std::string> TapeMatcher::Differs(size_t call) {
  if (!expected_.has_value()) return std::nullopt;
  std::optional<std::string> difference = DifferenceAt(call);
  if (difference.has_value() && read_another_ && ExpectAnother(call)) {
    return std::nullopt;
  }
  return difference;
}

std::optional<std::string> TapeMatcher::EndDiffers(
    const std::vector<bool>& computed) {
  if (written_->calls.size() == expected_->calls.size()) {
    if (auto difference = numbers_.Differs(*expected_, *written_)) {
      return difference;
    }
  }
  if (!HoldTheSame()) return "a tensor of the host holds something else";
  if (auto difference = NumbersDiffer(
          computed.empty() ? expected_->numbers.computed : computed)) {
    return difference;
  }
  if (written_->calls.size() != expected_->calls.size()) {
    return "it ends after " + std::to_string(written_->calls.size()) +
           " calls, was " + std::to_string(expected_->calls.size());
  }
  if (!std::ranges::equal(written_->outputs, expected_->outputs,
                          [this](int32_t now, int32_t then) {
                            return SameRegister(then, now);
                          })) {
    return "it returns other tensors";
  }
  if (written_->gradients != expected_->gradients ||
      written_->used_up != expected_->used_up) {
    return "it leaves other gradients";
  }
  if (!SameContents()) {
    read_another_ = true;
    return "values of the host decide what is computed, and are others";
  }
  return std::nullopt;
}

std::optional<std::string> TapeMatcher::NumbersDiffer(
    const std::vector<bool>& computed) {
  TapeNumbers& then = expected_->numbers;
  TapeNumbers& now = written_->numbers;
  for (size_t i = 0; i < now.values.size(); ++i) {
    const bool known = i < computed.size();
    const bool decides = then.decides[i] && now.decides[i];
    const bool differs = !SameBits(then.values[i], now.values[i]);
    const bool in_constant =
        differs && NumberMatcher::MayBeInConstant(*expected_, *written_, i);
    if (!then.varies[i]) {
      // Nobody has taken it.
      then.varies[i] = now.varies[i] =
          differs && known && !computed[i] && !decides && !in_constant;
    } else if (known && computed[i]) {
      return "Python computes with a number that is another one each time";
    } else if (decides) {
      return "an operator that is made of others may decide by a number that "
             "is another one each time";
    } else if (in_constant) {
      return "a tensor may be made of a number that is another one each time";
    }
  }
  return std::nullopt;
}

bool TapeMatcher::SameContents() const {
  std::vector<TapeContent> written;
  std::ranges::copy_if(
      written_->contents, std::back_inserter(written),
      [this](const TapeContent& read) {
        return written_->registers[static_cast<size_t>(read.reg)].origin !=
               Origin::kConstant;
      });
  return std::ranges::equal(
      written, expected_->contents,
      [](const TapeContent& now, const TapeContent& then) {
        return now.reg == then.reg && SameContent(now.content, then.content);
      });
}

bool TapeMatcher::NumbersFit() const {
  for (size_t i = 0; i < written_->numbers.values.size(); ++i) {
    if (!expected_->numbers.varies[i] &&
        !SameBits(expected_->numbers.values[i], written_->numbers.values[i])) {
      return false;
    }
  }
  return true;
}

}  // namespace reprise::bindings
