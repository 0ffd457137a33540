// In what a second recording differs from the first one, call by call, and what
// is found to vary between them.

#include "bindings/torch/region/tape_matcher.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/bindings/torch/recording.h"

namespace reprise::bindings {
namespace {

using Numbers = std::vector<double>;

Recording Record(const at::Tensor& x, const std::function<Tensors()>& callable,
                 Numbers numbers = {}, Tensors watched = {}) {
  return bindings::Record(
      Tensors{x}, callable,
      {.numbers = std::move(numbers), .watched = std::move(watched)});
}

// A matcher that is told of a recording, as if it were being written.
class Match {
 public:
  Match(std::vector<Recording> expected, const Recording& written)
      : written_(written->record()),
        calls_(written->calls()),
        matcher_(std::move(expected), &written_) {}

  // The first difference of a call's; "": there is none.
  std::string InCalls() {
    for (size_t call = 0; call < calls_; ++call) {
      if (const auto difference = matcher_.Differs(call)) return *difference;
    }
    return "";
  }
  // The same, and behind the last call.
  std::string InAll(const std::vector<bool>& computed = {}) {
    const std::string difference = InCalls();
    if (!difference.empty()) return difference;
    return matcher_.EndDiffers(computed).value_or("");
  }
  bool WrittenFits(const at::Tensor& x, const Numbers& numbers) const {
    return Tape(written_).FitsNumbers({{&x, 1}, numbers});
  }
  TapeMatcher* operator->() { return &matcher_; }

 private:
  TapeRecord written_;
  const size_t calls_;
  TapeMatcher matcher_;
};

bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

class TapeMatcherTest : public testing::Test {
 protected:
  const at::NoGradGuard no_grad_;
  const at::Tensor x_ = at::randn({3});
  const at::Tensor y_ = at::randn({3});
};

TEST_F(TapeMatcherTest, SameCallsOnOtherTensorsAreNoDifference) {
  const auto function = [](const at::Tensor& x) {
    return [x] { return Tensors{x.sin().mul(2).add(x)}; };
  };
  Match match({Record(x_, function(x_))}, Record(y_, function(y_)));
  EXPECT_EQ(match.InAll(), "");
  EXPECT_TRUE(match->NumbersFit());
  EXPECT_EQ(Tape(match->TakeMatched()).calls(), 3u);
}

TEST_F(TapeMatcherTest, NothingThatIsExpectedIsNoDifference) {
  Match match({}, Record(x_, [&] { return Tensors{x_.sin()}; }));
  EXPECT_EQ(match.InCalls(), "");
}

TEST_F(TapeMatcherTest, AnotherOperatorIsNamedWithItsCall) {
  Match match({Record(x_, [&] { return Tensors{x_.neg().sin()}; })},
              Record(x_, [&] { return Tensors{x_.neg().cos()}; }));
  EXPECT_EQ(match.InCalls(), "call 1 is aten::cos, was aten::sin");
  EXPECT_FALSE(match->read_another());
}

TEST_F(TapeMatcherTest, MoreAndFewerCallsAreDifferences) {
  const auto one = Record(x_, [&] { return Tensors{x_.sin()}; });
  const auto two = Record(x_, [&] {
    (void)x_.sin().cos();
    return Tensors{x_.sin()};
  });
  EXPECT_EQ(Match({one}, two).InCalls(), "call 1, aten::cos, is one more");
  Match fewer({two}, one);
  EXPECT_EQ(fewer.InCalls(), "");
  EXPECT_EQ(fewer.InAll(), "it ends after 1 calls, was 3");
}

TEST_F(TapeMatcherTest, AnotherGradModeIsADifference) {
  const auto under = [this](bool enabled) {
    return Record(x_, [this, enabled] {
      const at::AutoGradMode grad(enabled);
      return Tensors{x_.sin()};
    });
  };
  EXPECT_EQ(Match({under(true)}, under(true)).InAll(), "");
  EXPECT_EQ(Match({under(true)}, under(false)).InCalls(),
            "call 0, aten::sin: under another grad mode, or autocast");
}

TEST_F(TapeMatcherTest, AnotherValueIsToldWithItsArgument) {
  const auto along = [this](int64_t dim) {
    return Record(x_, [this, dim] { return Tensors{x_.cumsum(dim)}; });
  };
  EXPECT_EQ(Match({along(0)}, along(-1)).InCalls(),
            "call 0, aten::cumsum: 'dim' is -1, was 0");
}

TEST_F(TapeMatcherTest, AnotherTensorIsADifference) {
  const at::Tensor large = at::randn({1 << 16});
  const at::Tensor other = at::randn({1 << 16});
  const auto plus = [&](const at::Tensor& added) {
    return Record(large, [&] { return Tensors{large + added}; });
  };
  EXPECT_EQ(Match({plus(other)}, plus(other)).InAll(), "");
  // The argument where one from outside was, and the other way round.
  EXPECT_TRUE(Has(Match({plus(other)}, plus(large)).InCalls(),
                  "'other' is another tensor"));
  EXPECT_TRUE(Has(Match({plus(large)}, plus(other)).InCalls(),
                  "'other' is another tensor"));
  // One from outside that is too large to be compared by its content.
  EXPECT_TRUE(Has(Match({plus(other)}, plus(other.clone())).InCalls(),
                  "'other' is another tensor"));
}

// One of the host that comes anew in each call.
TEST_F(TapeMatcherTest, ATensorOfTheSameContentIsAConstant) {
  const auto times = [this](double value) {
    return Record(x_, [this, value] {
      return Tensors{
          x_ * at::detail::scalar_tensor_static(value, at::kFloat, at::kCPU)};
    });
  };
  const Recording expected = times(2);
  Match match({expected}, times(2));
  EXPECT_EQ(match.InAll(), "");
  // Both are gone, and the content is there.
  EXPECT_TRUE(Tape(match->TakeMatched()).Fits({{&y_, 1}, {}}));
  EXPECT_FALSE(expected->Fits({{&y_, 1}, {}}));
  EXPECT_TRUE(
      Has(Match({expected}, times(3)).InCalls(), "'other' is another tensor"));
}

TEST_F(TapeMatcherTest, WhatNobodyReadsMayBeAnything) {
  const auto function = [](float held, bool reads) {
    return [held, reads] {
      const at::Tensor host = at::empty({2});
      host.mutable_data_ptr<float>()[0] = held;
      host.mutable_data_ptr<float>()[1] = 1;
      const at::Tensor view = host.view({2, 1});
      return Tensors{reads ? view.sin() : at::zeros_like(view)};
    };
  };
  Match unread({Record(x_, function(1, false))},
               Record(x_, function(2, false)));
  EXPECT_EQ(unread.InAll(), "");
  Match read({Record(x_, function(1, true))}, Record(x_, function(2, true)));
  EXPECT_NE(read.InAll(), "");
  Match same({Record(x_, function(1, true))}, Record(x_, function(1, true)));
  EXPECT_EQ(same.InAll(), "");
}

TEST_F(TapeMatcherTest, AnArgumentMayBeginElsewhereInItsStorage) {
  const at::Tensor whole = at::randn({8});
  const auto from = [&whole](int64_t begin) {
    const at::Tensor part = whole.narrow(0, begin, 4);
    return Record(part, [part] { return Tensors{part.view({2, 2}).sin()}; });
  };
  EXPECT_EQ(Match({from(0)}, from(4)).InAll(), "");
}

TEST_F(TapeMatcherTest, NumbersThatWereGivenVary) {
  const auto by = [this](double number) {
    return Record(
        x_,
        [this, number] {
          return Tensors{at::mul(x_, number), at::add(x_, x_, -number)};
        },
        {number});
  };
  const Recording expected = by(0.25);
  Match match({expected}, by(0.5));
  EXPECT_EQ(match.InAll({false}), "");
  EXPECT_TRUE(match->NumbersFit());
  EXPECT_TRUE(match.WrittenFits(x_, {0.75}));
  EXPECT_TRUE(Tape(match->TakeMatched()).FitsNumbers({{&x_, 1}, Numbers{7}}));
  EXPECT_FALSE(expected->FitsNumbers({{&x_, 1}, Numbers{7}}));
}

TEST_F(TapeMatcherTest, PythonComputesWithNoNumberThatVaries) {
  const auto by = [this](double number) {
    return Record(x_, [this, number] { return Tensors{at::mul(x_, number)}; },
                  {number});
  };
  Match match({by(0.25)}, by(0.5));
  EXPECT_TRUE(Has(match.InAll({true}), "Python computes with a number"));
  // One that is the same may be computed with.
  EXPECT_EQ(Match({by(0.25)}, by(0.25)).InAll({true}), "");
}

TEST_F(TapeMatcherTest, ForgottenNumbersDoNotVary) {
  const auto by = [this](double number) {
    return Record(x_, [this, number] { return Tensors{at::mul(x_, number)}; },
                  {number});
  };
  Match match({by(0.25)}, by(0.5));
  EXPECT_EQ(match.InAll(), "");
  EXPECT_TRUE(match.WrittenFits(x_, {0.75}));
  match->ForgetNumbers();
  EXPECT_FALSE(match.WrittenFits(x_, {0.75}));
  EXPECT_TRUE(match.WrittenFits(x_, {0.5}));
}

TEST_F(TapeMatcherTest, WhichOfTwoEqualNumbersItIsIsNotKnown) {
  const auto by = [this](double number) {
    return Record(x_, [this, number] { return Tensors{at::mul(x_, number)}; },
                  {number, number});
  };
  EXPECT_TRUE(Has(Match({by(0.25)}, by(0.5)).InAll(),
                  "'other' is 0.500000, was 0.250000"));
}

// It may have decided which calls were made.
TEST_F(TapeMatcherTest, ANumberThatNoCallTakesDoesNotFit) {
  const auto given = [this](double number) {
    return Record(x_, [this] { return Tensors{at::mul(x_, 3.5)}; }, {number});
  };
  Match other({given(0.25)}, given(0.5));
  EXPECT_EQ(other.InAll(), "");
  EXPECT_FALSE(other->NumbersFit());
  Match same({given(0.25)}, given(0.25));
  EXPECT_EQ(same.InAll(), "");
  EXPECT_TRUE(same->NumbersFit());
}

TEST_F(TapeMatcherTest, AValueThatWasReadChoosesAmongTheExpected) {
  const auto with = [](double first) {
    const at::Tensor x = at::full({3}, first);
    return Record(x, [x] {
      const double read = x.sum().item<double>();
      return Tensors{read > 0 ? x.sin() : x.cos()};
    });
  };
  const Recording up = with(1);
  const Recording down = with(-1);
  Match match({up, down}, with(-1));
  EXPECT_EQ(match.InAll(), "");
  EXPECT_EQ(match->which(), 1u);
  EXPECT_FALSE(match->read_another());
  Match again({std::make_shared<const Tape>(match->TakeMatched())}, down);
  EXPECT_EQ(again.InAll(), "");
  // None of them has read that.
  Match none({up, down}, with(2));
  EXPECT_TRUE(Has(none.InCalls(), "hands data to the host"));
  EXPECT_TRUE(none->read_another());
  EXPECT_EQ(none->which(), 0u);
}

TEST_F(TapeMatcherTest, OtherOutputsAreADifference) {
  const auto giving = [this](bool turned) {
    return Record(x_, [this, turned] {
      const at::Tensor a = x_.sin();
      const at::Tensor b = x_.cos();
      return turned ? Tensors{b, a} : Tensors{a, b};
    });
  };
  Match match({giving(false)}, giving(true));
  EXPECT_EQ(match.InCalls(), "");
  EXPECT_EQ(match.InAll(), "it returns other tensors");
}

TEST_F(TapeMatcherTest, OtherGradientsAreADifference) {
  const at::AutoGradMode grad(true);
  at::Tensor leaf = at::randn({3}).requires_grad_();
  leaf.mutable_grad() = at::ones({3});
  const auto leaving = [&](bool dropped) {
    return Record(x_,
                  [&] {
                    leaf.mutable_grad().reset();
                    (leaf * x_).sum().backward();
                    if (dropped) leaf.mutable_grad().reset();
                    return Tensors{};
                  },
                  {}, {leaf});
  };
  const Recording kept = leaving(false);
  EXPECT_EQ(Match({kept}, leaving(false)).InAll(), "");
  EXPECT_EQ(Match({kept}, leaving(true)).InAll(), "it leaves other gradients");
}

}  // namespace
}  // namespace reprise::bindings
