// Which numbers operators are given, by two recordings; and what has to stay.

#include "bindings/torch/region/number_matcher.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/torch/region/tape_recorder.h"
#include "bindings/torch/region/tape_run.h"

namespace reprise::bindings {
namespace {

using Tensors = std::vector<at::Tensor>;
using Numbers = std::vector<double>;

// What Python would note: it computes, and has the values.
class Notes {
 public:
  explicit Notes(const Numbers& given) {
    for (uint32_t i = 0; i < given.size(); ++i) {
      Add({.op = NumberOp::kGiven, .left = i}, given[i]);
    }
  }
  uint32_t Add(NumberNode node, double value) {
    nodes_.push_back(node);
    values_.push_back(value);
    return static_cast<uint32_t>(nodes_.size() - 1);
  }
  // The tensor's number, which the last call of the recording has read.
  uint32_t Read(const at::Tensor& counter) {
    const double value = counter.item<double>();
    const int64_t read = TapeRecorder::TakeRead();
    return Add({.op = NumberOp::kRead, .left = static_cast<uint32_t>(read)},
               value);
  }
  uint32_t Constant(double value) {
    return Add({.op = NumberOp::kConstant, .value = value}, value);
  }
  uint32_t Product(uint32_t left, uint32_t right) {
    return Add({.op = NumberOp::kMultiply, .left = left, .right = right},
               values_[left] * values_[right]);
  }
  double operator[](uint32_t node) const { return values_[node]; }
  void LookAt(uint32_t node) { nodes_[node].looked_at = true; }
  void Tell(TapeRecorder& recorder) {
    recorder.NoteArithmetic(std::move(nodes_), std::move(values_));
  }

 private:
  std::vector<NumberNode> nodes_;
  std::vector<double> values_;
};

class NumberMatcherTest : public testing::Test {
 protected:
  using Callable = std::function<at::Tensor(Notes&)>;

  // One recording, behind what is expected.
  TapeRecorder::Outcome Record(const Callable& callable, const Numbers& given,
                               bool notes) {
    std::vector<std::shared_ptr<const Tape>> expected;
    if (tape_ != nullptr) expected.push_back(tape_);
    auto recorder = TapeRecorder::Begin({.inputs = {x_},
                                         .numbers = given,
                                         .watched = {state_, counter_, other_},
                                         .expected = expected});
    Notes noted(given);
    state_.add_(1);  // numbers are read behind what changes something
    const at::Tensor result = callable(noted);
    if (notes) noted.Tell(*recorder);
    auto outcome = recorder->End(
        Tensors{result},
        notes ? std::vector<bool>(given.size(), false) : std::vector<bool>());
    if (outcome.tape != nullptr) tape_ = outcome.tape;
    return outcome;
  }
  // Of ordinary floats, and of ones that note. The reason why they differ.
  std::string Learn(const Callable& callable, const Numbers& first,
                    const Numbers& second) {
    Record(callable, first, false);
    const auto outcome = Record(callable, second, true);
    EXPECT_EQ(outcome.as_expected, outcome.reason.empty());
    return outcome.reason;
  }
  // What a replay gives; nothing: these numbers are not for the tape.
  std::optional<at::Tensor> Run(const Numbers& given) {
    const TapeInputs inputs{{&x_, 1}, given};
    if (!tape_->Fits(inputs)) return std::nullopt;
    Tensors outputs;
    if (RunTape(*tape_, inputs, outputs) != TapeRan::kDone) return std::nullopt;
    return outputs[0];
  }

  const at::NoGradGuard no_grad_;
  at::Tensor x_ = at::ones({2});
  const at::Tensor state_ = at::zeros({1});
  const at::Tensor counter_ = at::zeros({});
  const at::Tensor other_ = at::zeros({});
  std::shared_ptr<const Tape> tape_;
};

TEST_F(NumberMatcherTest, WhatIsReadAndComputedIsComputedAgain) {
  const Callable callable = [this](Notes& notes) {
    counter_.add_(1);
    const uint32_t read = notes.Read(counter_);
    return x_ * notes[notes.Product(read, notes.Constant(0.5))];
  };
  EXPECT_EQ(Learn(callable, {7}, {7}), "");
  for (const double count : {3, 4}) {
    const auto result = Run({7});
    ASSERT_TRUE(result.has_value());
    EXPECT_TRUE(at::equal(*result, x_ * (count * 0.5)));
    EXPECT_EQ(counter_.item<double>(), count);
  }
  counter_.fill_(99);
  EXPECT_TRUE(at::equal(Run({7}).value(), x_ * 50));
}

TEST_F(NumberMatcherTest, NumbersThatAreGivenAreOperandsToo) {
  const Callable callable = [this](Notes& notes) {
    return x_ * notes[notes.Product(0, notes.Constant(3))];
  };
  EXPECT_EQ(Learn(callable, {2}, {5}), "");
  EXPECT_TRUE(at::equal(Run({11}).value(), x_ * 33));
}

TEST_F(NumberMatcherTest, ANumberThatNobodyTakesVaries) {
  const Callable callable = [this](Notes&) { return x_ * 3; };
  EXPECT_EQ(Learn(callable, {2}, {5}), "");
  EXPECT_TRUE(at::equal(Run({11}).value(), x_ * 3));
}

TEST_F(NumberMatcherTest, ANumberThatMayBeInAnIntegerStays) {
  // No call makes it, as where an element is set to a number.
  const Callable callable = [this](Notes&) {
    const at::Tensor integer =
        at::detail::empty_cpu({}, at::kLong, {}, {}, {}, {});
    *integer.mutable_data_ptr<int64_t>() = 0;
    return x_ * integer;
  };
  EXPECT_EQ(Record(callable, {0.2}, false).reason, "");
  EXPECT_FALSE(Record(callable, {0.5}, true).as_expected);
  EXPECT_FALSE(Run({0.7}).has_value());
}

TEST_F(NumberMatcherTest, ElementsOfListsAreNumbers) {
  const Callable callable = [this](Notes& notes) {
    counter_.add_(1);
    const uint32_t read = notes.Read(counter_);
    at::Tensor y = x_.clone();
    at::_foreach_mul_({y}, std::vector<at::Scalar>{notes[read]});
    return y;
  };
  EXPECT_EQ(Learn(callable, {7}, {7}), "");
  EXPECT_TRUE(at::equal(Run({7}).value(), x_ * 3));
}

// Two counters that were equal: each might be it, so they have to stay equal.
TEST_F(NumberMatcherTest, NumbersThatWereEqualHaveToStayEqual) {
  const Callable callable = [this](Notes& notes) {
    at::_foreach_add_({counter_, other_}, 1);
    const uint32_t first = notes.Read(counter_);
    const uint32_t second = notes.Read(other_);
    return x_ * notes[first] + x_ * notes[second];
  };
  EXPECT_EQ(Learn(callable, {7}, {7}), "");
  EXPECT_TRUE(at::equal(Run({7}).value(), x_ * 6));
  other_.fill_(10);
  EXPECT_FALSE(Run({7}).has_value());
  EXPECT_EQ(counter_.item<double>(), 3) << "nothing was written";
}

TEST_F(NumberMatcherTest, ANumberThatStayedHasToStay) {
  const Callable callable = [this](Notes& notes) {
    const uint32_t read = notes.Read(counter_);
    return x_ * notes[notes.Product(read, notes.Constant(2))];
  };
  counter_.fill_(4);
  EXPECT_EQ(Learn(callable, {7}, {7}), "");
  EXPECT_TRUE(at::equal(Run({7}).value(), x_ * 8));
  counter_.fill_(5);
  EXPECT_FALSE(Run({7}).has_value());
}

TEST_F(NumberMatcherTest, PythonMayNotGoByANumberThatVaries) {
  const Callable callable = [this](Notes& notes) {
    counter_.add_(1);
    const uint32_t read = notes.Read(counter_);
    notes.LookAt(read);
    return x_ * notes[read];
  };
  EXPECT_EQ(Learn(callable, {7}, {7}),
            "Python goes by a number that is another one each time");
}

TEST_F(NumberMatcherTest, ANumberThatNobodyComputedIsADifference) {
  const Callable callable = [this](Notes& notes) {
    counter_.add_(1);
    const uint32_t read = notes.Read(counter_);
    return x_ * (notes[read] + 0.25);
  };
  EXPECT_NE(Learn(callable, {7}, {7}).find("'other' is 2.25"),
            std::string::npos);
}

TEST_F(NumberMatcherTest, AReadThatNobodyTakesIsRefused) {
  const Callable callable = [this](Notes&) {
    counter_.add_(1);
    return x_ * counter_.item<double>();
  };
  Record(callable, {7}, false);
  const auto outcome = Record(callable, {7}, true);
  EXPECT_EQ(outcome.tape, nullptr);
  EXPECT_NE(outcome.reason.find("hands data to the host"), std::string::npos);
}

TEST_F(NumberMatcherTest, ValuesOtherThanPythonsAreRefused) {
  const Callable callable = [this](Notes& notes) {
    counter_.add_(1);
    const uint32_t read = notes.Read(counter_);
    const uint32_t wrong = notes.Add(
        {.op = NumberOp::kAdd, .left = read, .right = read}, 3 * notes[read]);
    return x_ * notes[wrong];
  };
  EXPECT_NE(Learn(callable, {7}, {7}).find("not followed"), std::string::npos);
}

// It is -a by chance: two recordings without notes have taken it for that.
TEST_F(NumberMatcherTest, ANumberOfTheCallMayBeAnotherOneByChance) {
  const Callable callable = [this](Notes& notes) {
    counter_.add_(1);
    const uint32_t read = notes.Read(counter_);
    const uint32_t negative =
        notes.Add({.op = NumberOp::kNegate, .left = read}, -notes[read]);
    return x_ * notes[negative];
  };
  Record(callable, {1}, false);
  EXPECT_EQ(Record(callable, {2}, false).reason, "");
  EXPECT_NE(Record(callable, {3}, true).reason, "");
}

// They share memory now: what is added to one is added to the other.
TEST_F(NumberMatcherTest, CountersHaveTheirMemoryAlone) {
  const Callable callable = [this](Notes& notes) {
    at::_foreach_add_({counter_, other_}, 1);
    const uint32_t read = notes.Read(counter_);
    return x_ * notes[read];
  };
  EXPECT_EQ(Learn(callable, {7}, {7}), "");
  ASSERT_TRUE(Run({7}).has_value());
  other_.unsafeGetTensorImpl()->set_storage_keep_dtype(counter_.storage());
  EXPECT_FALSE(Run({7}).has_value());
}

TEST_F(NumberMatcherTest, WhatIsMultipliedIsNotReadAhead) {
  const Callable callable = [this](Notes&) {
    counter_.mul_(2);
    return x_ * counter_.item<double>();
  };
  EXPECT_NE(Record(callable, {7}, false).reason.find("hands data to the host"),
            std::string::npos);
}

}  // namespace
}  // namespace reprise::bindings
