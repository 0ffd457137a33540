#include "bindings/torch/region/number_program.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

namespace reprise::bindings {
namespace {

// The compiler makes other calls of powers that it knows (a square, a root),
// which may round otherwise than the library's function, which CPython calls.
double (*const volatile g_power)(double, double) = &std::pow;

bool HasOperands(NumberOp op) { return op > NumberOp::kConstant; }
bool HasTwo(NumberOp op) { return op > NumberOp::kAbsolute; }

// Not finite: CPython raises, or gives a complex number, or it is left to it.
double Compute(NumberOp op, double left, double right) {
  switch (op) {
    case NumberOp::kNegate:
      return -left;
    case NumberOp::kAbsolute:
      return std::abs(left);
    case NumberOp::kAdd:
      return left + right;
    case NumberOp::kSubtract:
      return left - right;
    case NumberOp::kMultiply:
      return left * right;
    case NumberOp::kDivide:
      return right == 0 ? NAN : left / right;
    case NumberOp::kPower:
      // Of other bases CPython decides by itself: of zero, that its powers are
      // zero (`0.0 ** step` of an Adam whose first beta is zero).
      if (left == 0 && !std::signbit(left) && right > 0 &&
          std::isfinite(right)) {
        return 0;
      }
      return left > 0 ? g_power(left, right) : NAN;
    case NumberOp::kLess:
      return left < right ? 1 : 0;
    case NumberOp::kLessEqual:
      return left <= right ? 1 : 0;
    case NumberOp::kEqual:
      return left == right ? 1 : 0;
    case NumberOp::kGiven:
    case NumberOp::kRead:
    case NumberOp::kConstant:
      break;
  }
  return NAN;
}

double ValueOf(const NumberNode& node, std::span<const double> given,
               std::span<const double> reads, std::span<const double> values) {
  switch (node.op) {
    case NumberOp::kGiven:
      return given[node.left];
    case NumberOp::kRead:
      return reads[node.left];
    case NumberOp::kConstant:
      return node.value;
    default:
      return Compute(node.op, values[node.left],
                     HasTwo(node.op) ? values[node.right] : 0);
  }
}

}  // namespace

bool NumberNode::operator==(const NumberNode& other) const {
  return op == other.op && left == other.left && right == other.right &&
         BitsOf(value) == BitsOf(other.value) && looked_at == other.looked_at;
}

std::vector<NumberNode> NodesOf(std::span<const int64_t> words,
                                std::span<const double> values) {
  constexpr size_t kWords = 4;
  std::vector<NumberNode> nodes;
  if (words.size() != kWords * values.size()) return nodes;
  nodes.reserve(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const auto node = words.subspan(kWords * i, kWords);
    const auto op = static_cast<NumberOp>(node[0]);
    nodes.push_back({.op = op,
                     .left = static_cast<uint32_t>(node[1]),
                     .right = static_cast<uint32_t>(node[2]),
                     .value = op == NumberOp::kConstant ? values[i] : 0,
                     .looked_at = node[3] != 0});
  }
  return nodes;
}

bool ComputeNumbers(std::span<const NumberNode> nodes,
                    std::span<const double> given,
                    std::span<const double> reads,
                    std::vector<double>& values) {
  values.clear();
  values.reserve(nodes.size());
  for (const NumberNode& node : nodes) {
    values.push_back(ValueOf(node, given, reads, values));
    if (!std::isfinite(values.back())) return false;
  }
  return true;
}

bool IsWhole(std::span<const NumberNode> nodes, size_t given, size_t reads) {
  for (size_t i = 0; i < nodes.size(); ++i) {
    const NumberNode& node = nodes[i];
    if (node.op < NumberOp::kGiven || node.op > NumberOp::kEqual) return false;
    if (node.op == NumberOp::kGiven && node.left >= given) return false;
    if (node.op == NumberOp::kRead && node.left >= reads) return false;
    if (HasOperands(node.op) && node.left >= i) return false;
    if (HasTwo(node.op) && node.right >= i) return false;
  }
  return true;
}

NumberProgram::NumberProgram(std::span<const NumberNode> nodes,
                             std::span<const uint32_t> stands_for,
                             std::span<const uint32_t> used,
                             std::vector<Fixed> fixed, std::vector<Equal> equal)
    : fixed_(std::move(fixed)), equal_(std::move(equal)) {
  using Name = std::tuple<NumberOp, uint32_t, uint32_t, uint64_t>;
  std::map<Name, uint32_t> known;
  std::vector<uint32_t> slot_of;
  slot_of.reserve(nodes.size());
  for (NumberNode node : nodes) {
    if (node.op == NumberOp::kRead) node.left = stands_for[node.left];
    if (HasOperands(node.op)) node.left = slot_of[node.left];
    if (HasTwo(node.op)) node.right = slot_of[node.right];
    const auto [at, is_new] =
        known.emplace(Name(node.op, node.left, node.right, BitsOf(node.value)),
                      static_cast<uint32_t>(nodes_.size()));
    if (is_new) nodes_.push_back(node);
    slot_of.push_back(at->second);
  }
  for (const uint32_t node : used) slots_.push_back(slot_of[node]);
  for (Fixed& each : fixed_) each.node = slot_of[each.node];
  for (Equal& each : equal_) {
    each = {.one = slot_of[each.one], .other = slot_of[each.other]};
  }
  // Of the same numbers once.
  std::ranges::sort(fixed_, {}, &Fixed::node);
  const auto again = std::ranges::unique(fixed_, {}, &Fixed::node);
  fixed_.erase(again.begin(), again.end());
  std::erase_if(equal_,
                [](const Equal& each) { return each.one == each.other; });
}

std::optional<std::vector<double>> NumberProgram::Run(
    std::span<const double> given, std::span<const double> reads) const {
  std::vector<double> values;
  if (!ComputeNumbers(nodes_, given, reads, values)) return std::nullopt;
  for (const Fixed& each : fixed_) {
    if (BitsOf(values[each.node]) != BitsOf(each.value)) return std::nullopt;
  }
  for (const Equal& each : equal_) {
    if (BitsOf(values[each.one]) != BitsOf(values[each.other]))
      return std::nullopt;
  }
  std::vector<double> wanted;
  wanted.reserve(slots_.size());
  for (const uint32_t slot : slots_) wanted.push_back(values[slot]);
  return wanted;
}

}  // namespace reprise::bindings
