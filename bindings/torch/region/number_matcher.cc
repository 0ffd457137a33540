#include "bindings/torch/region/number_matcher.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "bindings/torch/base/ivalues.h"
#include "bindings/torch/region/number_program.h"
#include "bindings/torch/runtime/op_policy.h"
#include "bindings/torch/runtime/thread_state.h"

namespace reprise::bindings {
namespace {

using Kind = TapeArgument::Kind;
using Origin = TapeRegister::Origin;

std::string NameOf(const NumberMatcher::Place& place,
                   const TapeRecord& record) {
  const TapeCall& call = record.calls[place.call];
  return "call " + std::to_string(place.call) + ", " +
         FullName(call.op.operator_name()) + ": '" +
         call.op.schema().arguments()[place.argument].name() + "'";
}

// They read what is the same where the tensors hold the same.
bool ReadAlike(const NumberRead& one, const NumberRead& other) {
  using Added = NumberRead::Added;
  return std::ranges::equal(one.added, other.added, SameBits, &Added::value,
                            &Added::value);
}

bool IsNegatedGiven(const NumberNode& node, std::span<const NumberNode> nodes,
                    uint32_t index) {
  return node.op == NumberOp::kNegate &&
         nodes[node.left].op == NumberOp::kGiven &&
         nodes[node.left].left == index;
}

// The argument is that number, or has it in a list.
void Put(TapeArgument& argument, const NumberMatcher::Place& place,
         uint32_t number, bool negated) {
  if (place.element.has_value()) {
    argument.kind = Kind::kNumbers;
    argument.numbers.emplace_back(*place.element, number);
    return;
  }
  argument.kind = Kind::kNumber;
  argument.index = number;
  argument.negated = negated;
}

std::vector<double> ReadBy(const TapeRecord& record) {
  std::vector<double> values;
  for (const NumberRead& read : record.arithmetic.reads) {
    values.push_back(read.value);
  }
  return values;
}

}  // namespace

void NumberMatcher::NoteValues(double was, double is) {
  const Values values(BitsOf(was), BitsOf(is));
  if (known_.insert(values).second) new_.push_back(values);
}

std::optional<std::string> NumberMatcher::Differs(TapeRecord& expected,
                                                  TapeRecord& written) {
  expected.numbers.seen = std::max(expected.numbers.seen, written.numbers.seen);
  if (auto difference = ReadsDiffer(expected, written)) return difference;
  if (auto difference = ComputedDiffer(expected, written)) return difference;
  if (auto difference = ConstantsDiffer(expected)) return difference;
  for (const Expectation& each : expectations_) {
    const size_t given = written.numbers.values.size();
    if (each.number < given || each.number - given >= is_.size() ||
        !SameBits(is_[each.number - given], each.is)) {
      reason_ = {BitsOf(each.is), BitsOf(each.is)};
      return NameOf(each.place, written) + " is " + std::to_string(each.is);
    }
  }
  for (const auto& [given, negated] : confirmed_) {
    if (!MayStand(given, negated, expected, written)) {
      return "numbers that Python computes are those of the call by chance";
    }
  }
  for (const Difference& each : differences_) {
    if (auto difference = Explain(each, expected, written)) {
      reason_ = {BitsOf(each.was), BitsOf(each.is)};
      return difference;
    }
  }
  return std::nullopt;
}

std::optional<std::string> NumberMatcher::ReadsDiffer(
    TapeRecord& expected, const TapeRecord& written) const {
  TapeArithmetic& then = expected.arithmetic;
  const TapeArithmetic& now = written.arithmetic;
  if (then.reads.size() != now.reads.size()) return "it reads other numbers";
  for (size_t k = 0; k < now.reads.size(); ++k) {
    const NumberRead& read = now.reads[k];
    if (read.reg != then.reads[k].reg || !ReadAlike(read, then.reads[k])) {
      return "it reads other numbers";
    }
    for (const NumberRead::Added& added : read.added) {
      const bool constant =
          added.reg < 0 ||
          written.registers[static_cast<size_t>(added.reg)].origin ==
              Origin::kConstant;
      if (!constant) return "a number that it reads depends on another tensor";
    }
  }
  // Of the first two recordings, by values; later ones have what is equal.
  std::vector<uint32_t>& stands_for = then.stands_for;
  const bool first = stands_for.size() != now.reads.size();
  stands_for.resize(now.reads.size());
  for (uint32_t k = 0; k < now.reads.size(); ++k) {
    uint32_t one = 0;
    const auto same = [&](uint32_t j) {
      const auto& form = [&written](const NumberRead& read) -> const auto& {
        return written.registers[static_cast<size_t>(read.reg)].form;
      };
      return (first ? SameBits(then.reads[j].value, then.reads[k].value)
                    : stands_for[j] == stands_for[k]) &&
             SameBits(now.reads[j].value, now.reads[k].value) &&
             ReadAlike(now.reads[j], now.reads[k]) &&
             form(now.reads[j]).dtype == form(now.reads[k]).dtype;
    };
    while (one < k && !same(one)) ++one;
    if (!first && stands_for[k] != one)
      return "numbers that it read are others";
    stands_for[k] = one;
  }
  return std::nullopt;
}

std::optional<std::string> NumberMatcher::ComputedDiffer(
    TapeRecord& expected, const TapeRecord& written) {
  TapeArithmetic& then = expected.arithmetic;
  const TapeArithmetic& now = written.arithmetic;
  was_.clear();
  is_.clear();
  by_values_.clear();
  have_equal_.clear();
  if (then.noted && now.noted && then.nodes != now.nodes) {
    return "Python computes other numbers";
  }
  if (!then.noted && !now.noted) return std::nullopt;
  if (!then.noted) {
    then.nodes = now.nodes;
    then.noted = true;
  }
  const std::span<const NumberNode> nodes = then.nodes;
  // By what was recorded last where there were more: what varies is known.
  if (!ComputeNumbers(nodes, expected.numbers.values, ReadBy(expected), was_) ||
      !ComputeNumbers(nodes, written.numbers.values, ReadBy(written), is_)) {
    return "Python computes with a number in a way that is not followed";
  }
  then.varies.resize(nodes.size(), false);
  then.values = is_;
  std::vector<bool> used(nodes.size(), false);
  for (uint32_t n = 0; n < nodes.size(); ++n) {
    if (!SameBits(was_[n], is_[n])) then.varies[n] = true;
    by_values_[{BitsOf(was_[n]), BitsOf(is_[n])}].push_back(n);
    if (nodes[n].op > NumberOp::kConstant) used[nodes[n].left] = true;
    if (nodes[n].op > NumberOp::kAbsolute) used[nodes[n].right] = true;
    if (!then.varies[n]) continue;
    if (nodes[n].looked_at) {
      return "Python goes by a number that is another one each time";
    }
    const auto given_to_others = [n](const TapeArithmetic& arithmetic,
                                     const std::vector<double>& values) {
      return std::ranges::find(arithmetic.deciding, std::abs(values[n])) !=
             arithmetic.deciding.end();
    };
    if (nodes[n].op != NumberOp::kGiven && given_to_others(then, was_) &&
        given_to_others(now, is_)) {
      return "an operator that is made of others may decide by a number that "
             "is another one each time";
    }
  }
  for (uint32_t n = 0; n < nodes.size(); ++n) {
    if (nodes[n].op == NumberOp::kGiven && used[n] && then.varies[n]) {
      expected.numbers.varies[nodes[n].left] = true;
    }
  }
  return std::nullopt;
}

bool NumberMatcher::IsMadeOf(const at::Tensor& content, double was, double is) {
  const at::ScalarType type = content.scalar_type();
  if (!at::isFloatingType(type) && !at::isIntegralType(type, true)) return true;
  const DepthGuard unseen;  // the program compares nothing
  // As torch.tensor makes it of a float.
  const auto as_made = [type](double number) {
    return at::scalar_tensor(number, at::kDouble).to(type);
  };
  const at::Tensor then = as_made(was).to(at::kDouble);
  const at::Tensor now = as_made(is).to(at::kDouble);
  return at::equal(then, now) &&
         content.to(at::kDouble).eq(now).any().item<bool>();
}

std::optional<std::string> NumberMatcher::ConstantsDiffer(
    const TapeRecord& expected) const {
  const TapeArithmetic& arithmetic = expected.arithmetic;
  const std::span<const NumberNode> nodes = arithmetic.nodes;
  // Values of numbers that vary, and of those that no read leads to.
  std::set<Values> all;
  std::set<Values> of_given;
  std::set<Values> of_seen;  // from which the program's code may have computed
  std::vector<bool> read(is_.size(), false);
  std::vector<bool> seen(is_.size(), false);
  for (size_t n = 0; n < is_.size(); ++n) {
    const NumberNode& node = nodes[n];
    read[n] = node.op == NumberOp::kRead ||
              (node.op > NumberOp::kConstant && read[node.left]) ||
              (node.op > NumberOp::kAbsolute && read[node.right]);
    seen[n] =
        (node.op == NumberOp::kGiven && node.left < expected.numbers.seen) ||
        (node.op > NumberOp::kConstant && seen[node.left]) ||
        (node.op > NumberOp::kAbsolute && seen[node.right]);
    if (!arithmetic.varies[n] || node.op == NumberOp::kGiven) continue;
    all.emplace(BitsOf(was_[n]), BitsOf(is_[n]));
    if (!read[n]) of_given.emplace(BitsOf(was_[n]), BitsOf(is_[n]));
    if (seen[n]) of_seen.emplace(BitsOf(was_[n]), BitsOf(is_[n]));
  }
  for (size_t r = 0; r < expected.registers.size(); ++r) {
    const TapeRegister& reg = expected.registers[r];
    if (reg.origin != Origin::kConstant || !reg.content.defined()) continue;
    const bool before =
        arithmetic.reads.empty() || r < arithmetic.registers_before;
    const auto is_made_of = [&reg](const Values& values) {
      return IsMadeOf(reg.content, std::bit_cast<double>(values.first),
                      std::bit_cast<double>(values.second));
    };
    // As an integer, most rates are 0: torch's optimizers make none.
    const bool integers =
        at::isIntegralType(reg.content.scalar_type(), /*includeBool=*/true);
    if (std::ranges::any_of(integers ? of_seen
                            : before ? of_given
                                     : all,
                            is_made_of)) {
      return "a tensor may be made of a number that is another one each time";
    }
  }
  return std::nullopt;
}

bool NumberMatcher::MayBeInConstant(const TapeRecord& expected,
                                    const TapeRecord& written, size_t number) {
  return std::ranges::any_of(expected.registers, [&](const TapeRegister& reg) {
    if (reg.origin != Origin::kConstant || !reg.content.defined()) return false;
    // See ConstantsDiffer.
    return (number < std::max(expected.numbers.seen, written.numbers.seen) ||
            at::isFloatingType(reg.content.scalar_type())) &&
           IsMadeOf(reg.content, expected.numbers.values[number],
                    written.numbers.values[number]);
  });
}

std::optional<NumberMatcher::Given> NumberMatcher::FindGiven(
    const Difference& difference, const TapeRecord& expected,
    const TapeRecord& written) const {
  std::optional<Given> found;
  for (uint32_t i = 0; i < written.numbers.values.size(); ++i) {
    for (const bool negated : {false, true}) {
      const double sign = negated ? -1 : 1;
      if (!SameBits(sign * expected.numbers.values[i], difference.was) ||
          !SameBits(sign * written.numbers.values[i], difference.is)) {
        continue;
      }
      if (found.has_value()) return std::nullopt;  // which of them, if any
      found = Given{i, negated};
    }
  }
  return found;
}

bool NumberMatcher::MayStand(uint32_t given, bool negated, TapeRecord& expected,
                             const TapeRecord& written) {
  const double sign = negated ? -1 : 1;
  const auto found =
      by_values_.find({BitsOf(sign * expected.numbers.values[given]),
                       BitsOf(sign * written.numbers.values[given])});
  if (found == by_values_.end()) return true;
  const std::span<const NumberNode> nodes = expected.arithmetic.nodes;
  const auto same = std::ranges::find_if(found->second, [&](uint32_t n) {
    return negated ? IsNegatedGiven(nodes[n], nodes, given)
                   : nodes[n].op == NumberOp::kGiven && nodes[n].left == given;
  });
  if (same == found->second.end()) return false;
  HaveEqual(found->second, *same, expected.arithmetic);
  return true;
}

void NumberMatcher::HaveEqual(const std::vector<uint32_t>& numbers,
                              uint32_t one, TapeArithmetic& arithmetic) {
  if (!have_equal_.insert(one).second) return;
  for (const uint32_t other : numbers) {
    if (other != one) arithmetic.equal.push_back({.one = one, .other = other});
  }
}

std::optional<std::string> NumberMatcher::Explain(const Difference& difference,
                                                  TapeRecord& expected,
                                                  TapeRecord& written) {
  static const std::vector<uint32_t> kNone;
  const auto found =
      by_values_.find({BitsOf(difference.was), BitsOf(difference.is)});
  const std::vector<uint32_t>& computed =
      found == by_values_.end() ? kNone : found->second;
  const std::string unknown = NameOf(difference.place, written) + " is " +
                              std::to_string(difference.is) + ", was " +
                              std::to_string(difference.was);
  std::optional<uint32_t> number;
  bool negated = false;
  // No element of a list is a negative.
  const auto given = FindGiven(difference, expected, written);
  const bool may_be_given =
      given.has_value() &&
      !(difference.place.element.has_value() && given->negated);
  if (may_be_given &&
      MayStand(given->index, given->negated, expected, written)) {
    number = given->index;
    negated = given->negated;
    expected.numbers.varies[*number] = written.numbers.varies[*number] = true;
  }
  if (!number.has_value()) {
    if (computed.empty()) return unknown;
    HaveEqual(computed, computed[0], expected.arithmetic);
    for (const uint32_t n : computed) {
      const NumberNode& node = expected.arithmetic.nodes[n];
      if (node.op == NumberOp::kGiven)
        expected.numbers.varies[node.left] = true;
    }
    number = static_cast<uint32_t>(written.numbers.values.size()) + computed[0];
  }
  for (TapeRecord* const record : {&expected, &written}) {
    Put(record->calls[difference.place.call]
            .arguments[difference.place.argument],
        difference.place, *number, negated);
  }
  return std::nullopt;
}

}  // namespace reprise::bindings
