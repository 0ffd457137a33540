// What Python computes with floats, written down once and computed again.

#ifndef REPRISE_BINDINGS_TORCH_REGION_NUMBER_PROGRAM_H_
#define REPRISE_BINDINGS_TORCH_REGION_NUMBER_PROGRAM_H_

#include <bit>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace reprise::bindings {

inline uint64_t BitsOf(double value) { return std::bit_cast<uint64_t>(value); }

// What a number is. Python has the same values (scripts/write_enums.py).
enum class NumberOp : int64_t {
  kGiven = 0,     // one that a call is given; `left` is which
  kRead = 1,      // read from a tensor of the host; `left` is which read
  kConstant = 2,  // `value`
  kNegate = 3,
  kAbsolute = 4,
  kAdd = 5,
  kSubtract = 6,
  kMultiply = 7,
  kDivide = 8,
  kPower = 9,
  // Of a comparison: 1 or 0.
  kLess = 10,
  kLessEqual = 11,
  kEqual = 12,
};

// One number. Operands are earlier numbers, by index.
struct NumberNode {
  NumberOp op = NumberOp::kConstant;
  uint32_t left = 0;
  uint32_t right = 0;
  double value = 0;  // kConstant
  // Python went by it: it decided which calls were made, or what else it is.
  bool looked_at = false;

  bool operator==(const NumberNode& other) const;
};

// Four words a node: what it is, its operands, and whether it was looked at.
// The value of a constant is that of its node. None: there is no value for
// each.
std::vector<NumberNode> NodesOf(std::span<const int64_t> words,
                                std::span<const double> values);

// Computes all of them as CPython's floats do, in order: `values` has as many
// elements as there are nodes afterwards. False where CPython would raise or
// give a complex number, and where one is not finite: such a call is not for
// this program. `given` and `reads` have all that the nodes name. The source of
// the rules is Objects/floatobject.c (float_div, float_pow).
bool ComputeNumbers(std::span<const NumberNode> nodes,
                    std::span<const double> given,
                    std::span<const double> reads, std::vector<double>& values);

// All operands are earlier numbers, and all that is named is there.
bool IsWhole(std::span<const NumberNode> nodes, size_t given, size_t reads);

// A program that computes each number once, where several are the same
// function of the same numbers. Reads that stand for one read are one.
// Immutable. Any number of threads.
class NumberProgram {
 public:
  NumberProgram() = default;
  // `stands_for`, by read: the first read that always has its value.
  // `used`: nodes whose values are wanted; `fixed`: nodes that have to have
  // these values; `equal`: nodes that have to be equal in every bit.
  struct Fixed {
    uint32_t node = 0;
    double value = 0;
  };
  struct Equal {
    uint32_t one = 0;
    uint32_t other = 0;
  };
  NumberProgram(std::span<const NumberNode> nodes,
                std::span<const uint32_t> stands_for,
                std::span<const uint32_t> used, std::vector<Fixed> fixed,
                std::vector<Equal> equal);

  // It gives nothing, and no number has to be anything.
  bool empty() const {
    return slots_.empty() && fixed_.empty() && equal_.empty();
  }
  // What nodes are computed, at most as many as were given.
  size_t size() const { return nodes_.size(); }

  // The wanted values, in the order of `used`. Nothing: a number is not what it
  // has to be.
  std::optional<std::vector<double>> Run(std::span<const double> given,
                                         std::span<const double> reads) const;

 private:
  std::vector<NumberNode> nodes_;
  std::vector<uint32_t> slots_;  // of what is used
  std::vector<Fixed> fixed_;
  std::vector<Equal> equal_;
};

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_REGION_NUMBER_PROGRAM_H_
