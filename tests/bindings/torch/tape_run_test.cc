// What a run of a tape gives, and what it leaves where it ends early.

#include "bindings/torch/region/tape_run.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "tests/bindings/torch/recording.h"

namespace reprise::bindings {
namespace {

// Raises an error where it is not positive definite.
at::Tensor Factor(const at::Tensor& matrix) {
  return at::linalg_cholesky(matrix);
}

class TapeRunTest : public testing::Test {
 protected:
  // Of the host's generator.
  static at::Tensor State() {
    return at::detail::getDefaultCPUGenerator().get_state();
  }

  static void SetState(const at::Tensor& state) {
    at::Generator generator = at::detail::getDefaultCPUGenerator();
    generator.set_state(state);
  }

  const at::NoGradGuard no_grad_;
  const at::Tensor count_ = at::zeros({});
  const at::Tensor good_ = at::eye(3);
  const Tensors bad_ = {-good_};
};

TEST_F(TapeRunTest, OutputsAreAdded) {
  const at::Tensor x = at::randn({3});
  const auto tape = Record({x}, [&] { return Tensors{x.sin(), x}; });
  const at::Tensor before = at::zeros({1});
  const at::Tensor y = at::randn({3});
  Tensors outputs = {before};
  EXPECT_EQ(RunTape(*tape, {{&y, 1}, {}}, outputs), TapeRan::kDone);
  ASSERT_EQ(outputs.size(), 3u);
  EXPECT_TRUE(outputs[0].is_same(before));
  EXPECT_TRUE(outputs[1].equal(y.sin()));
  EXPECT_TRUE(outputs[2].is_same(y));
}

TEST_F(TapeRunTest, NothingIsCalledWhereSomethingIsGone) {
  at::Tensor gone = at::randn({1 << 16});
  const at::Tensor x = at::randn({1 << 16});
  const auto tape = Record({x}, [&] {
    count_.add_(1);
    return Tensors{x + gone};
  });
  gone.reset();
  Tensors outputs;
  EXPECT_EQ(RunTape(*tape, {{&x, 1}, {}}, outputs), TapeRan::kGone);
  EXPECT_TRUE(outputs.empty());
  EXPECT_EQ(count_.item<float>(), 1) << "of the recording";
}

TEST_F(TapeRunTest, NothingIsChangedWhereAnotherValueIsRead) {
  const at::Tensor one = at::ones({});
  const at::Tensor two = one + 1;
  const auto tape = Record({one}, [&] {
    (void)one.item();
    count_.add_(1);
    return Tensors{one + 1};
  });
  Tensors outputs;
  EXPECT_EQ(RunTape(*tape, {{&two, 1}, {}}, outputs), TapeRan::kOther);
  EXPECT_TRUE(outputs.empty());
  EXPECT_EQ(count_.item<float>(), 1);
  EXPECT_EQ(RunTape(*tape, {{&one, 1}, {}}, outputs), TapeRan::kDone);
  EXPECT_EQ(count_.item<float>(), 2);
}

TEST_F(TapeRunTest, LeavesAnErrorBeforeAnyEffectToTheCallable) {
  const auto tape = Record({good_}, [&] {
    Tensors outputs = {Factor(good_)};
    count_.add_(1);
    return outputs;
  });
  Tensors outputs;
  EXPECT_EQ(RunTape(*tape, {bad_, {}}, outputs), TapeRan::kRaised);
  EXPECT_TRUE(outputs.empty());
  EXPECT_EQ(count_.item<float>(), 1);
  EXPECT_EQ(RunTape(*tape, {{&good_, 1}, {}}, outputs), TapeRan::kDone);
  EXPECT_EQ(count_.item<float>(), 2);
}

TEST_F(TapeRunTest, RaisesAnErrorBehindAnEffect) {
  const auto tape = Record({good_}, [&] {
    count_.add_(1);
    return Tensors{Factor(good_), at::rand({3})};
  });
  Tensors outputs;
  EXPECT_ANY_THROW((void)RunTape(*tape, {bad_, {}}, outputs));
  EXPECT_EQ(count_.item<float>(), 2);  // recorded, and run up to the error
}

TEST_F(TapeRunTest, GeneratorsAreWhereTheyWereBehindAnError) {
  const auto tape = Record({good_}, [&] {
    return Tensors{at::rand({3}), at::normal(0, 1, {1}), Factor(good_)};
  });
  Tensors outputs;
  const at::Tensor before = State();
  EXPECT_EQ(RunTape(*tape, {bad_, {}}, outputs), TapeRan::kRaised);
  EXPECT_TRUE(State().equal(before));
  EXPECT_EQ(RunTape(*tape, {{&good_, 1}, {}}, outputs), TapeRan::kDone);
  EXPECT_FALSE(State().equal(before));
}

TEST_F(TapeRunTest, GeneratorsAreWhereTheyWereWhereAnotherValueIsRead) {
  const at::Tensor two = at::full({}, 2);
  at::Generator own = at::make_generator<at::CPUGeneratorImpl>(3);
  const auto tape = Record({good_}, [&] {
    const at::Tensor drawn = at::rand({3}) + at::rand({3}, own);
    (void)good_.sum().item();
    return Tensors{drawn + at::rand({3})};
  });
  Tensors outputs;
  const at::Tensor before = State();
  const at::Tensor owns = own.get_state();
  EXPECT_EQ(RunTape(*tape, {bad_, {}}, outputs), TapeRan::kOther);
  EXPECT_TRUE(State().equal(before));
  EXPECT_TRUE(own.get_state().equal(owns));
}

// Another thread may draw from the others.
TEST_F(TapeRunTest, OnlyGeneratorsThatCallsMoveArePutBack) {
  const at::Generator own = at::make_generator<at::CPUGeneratorImpl>(3);
  const auto record = [this](auto draw) {
    return Record({good_}, [&] {
      const at::Tensor y = draw();
      (void)good_.sum().item();
      return Tensors{y};
    });
  };
  const auto none = record([this] { return good_ + 1; });
  EXPECT_TRUE(none->moves().empty());
  const auto of_own = record([&] { return at::rand({3}, own); });
  ASSERT_EQ(of_own->moves().size(), 1u);
  EXPECT_EQ(of_own->moves()[0], own);
  const auto of_default = record([] { return at::rand({3}); });
  ASSERT_EQ(of_default->moves().size(), 1u);
  EXPECT_EQ(of_default->moves()[0], at::detail::getDefaultCPUGenerator());
}

// What was drawn and computed before the value is not drawn again.
TEST_F(TapeRunTest, ATapeGoesOnWhereTheOneBeforeHasReadAnother) {
  const auto branch = [](const at::Tensor& x) {
    const at::Tensor y = at::rand({3, 3}) + x;
    if (x.sum().item<float>() > 0) return Tensors{y + at::rand({3, 3})};
    return Tensors{y * 2 + at::randn({3, 3})};
  };
  const auto up = Record({good_}, [&] { return branch(good_); });
  const auto down = Record(bad_, [&] { return branch(bad_[0]); });
  EXPECT_EQ(down->calls(), up->calls() + 1);
  const at::Tensor before = State();
  const Tensors expected = branch(bad_[0]);
  const at::Tensor after = State();
  SetState(before);
  Tensors outputs;
  {
    TapeRuns runs({bad_, {}});
    EXPECT_EQ(runs.Run(*up, outputs), TapeRan::kOther);
    EXPECT_GT(runs.in_vain(), 0u);
    EXPECT_TRUE(runs.RulesOut(*up));
    EXPECT_FALSE(runs.RulesOut(*down));
    EXPECT_EQ(runs.Run(*down, outputs), TapeRan::kDone);
    EXPECT_EQ(runs.in_vain(), 0u);
  }
  EXPECT_TRUE(outputs[0].equal(expected[0]));
  EXPECT_TRUE(State().equal(after));
}

TEST_F(TapeRunTest, ATapeOfOtherCallsBeginsAgain) {
  const auto up = Record({good_}, [&] {
    const at::Tensor y = at::rand({3, 3});
    (void)good_.sum().item();
    return Tensors{y};
  });
  const auto other = Record(bad_, [&] {
    const at::Tensor y = at::randn({3, 3});
    (void)bad_[0].sum().item();
    return Tensors{y};
  });
  const at::Tensor before = State();
  const at::Tensor expected = at::randn({3, 3});
  SetState(before);
  Tensors outputs;
  TapeRuns runs({bad_, {}});
  EXPECT_EQ(runs.Run(*up, outputs), TapeRan::kOther);
  EXPECT_FALSE(runs.RulesOut(*other)) << "nobody knows";
  EXPECT_EQ(runs.Run(*other, outputs), TapeRan::kDone);
  EXPECT_GT(runs.in_vain(), 0u);
  EXPECT_TRUE(outputs[0].equal(expected));
}

TEST_F(TapeRunTest, WarningsAreToldOfTheRunThatStands) {
  const auto tape = Record({good_}, [&] {
    const at::Tensor y = at::rand({1}).var();  // of one value
    (void)good_.sum().item();
    return Tensors{y};
  });
  struct Listener final : c10::WarningHandler {
    void process(const c10::Warning&) override { ++told; }
    int told = 0;
  } listener;
  const c10::WarningUtils::WarningHandlerGuard guard(&listener);
  Tensors outputs;
  EXPECT_EQ(RunTape(*tape, {bad_, {}}, outputs), TapeRan::kOther);
  EXPECT_EQ(listener.told, 0);
  EXPECT_EQ(RunTape(*tape, {{&good_, 1}, {}}, outputs), TapeRan::kDone);
  EXPECT_EQ(listener.told, 1);
}

// Gradients that the program replaces go before, so that they cannot be had
// back.
TEST_F(TapeRunTest, RaisesAnErrorBehindDroppedGradients) {
  const at::AutoGradMode grad(true);
  at::Tensor leaf = at::eye(3).requires_grad_();
  const auto step = [&leaf](const at::Tensor& x) {
    leaf.mutable_grad().reset();
    (leaf * Factor(x)).sum().backward();
    return Tensors{};
  };
  step(good_);
  const auto tape =
      Record({good_}, [&] { return step(good_); }, {.watched = {leaf}});
  Tensors outputs;
  EXPECT_EQ(RunTape(*tape, {{&good_, 1}, {}}, outputs), TapeRan::kDone);
  EXPECT_TRUE(leaf.grad().equal(Factor(good_)));
  EXPECT_ANY_THROW((void)RunTape(*tape, {bad_, {}}, outputs));
}

TEST_F(TapeRunTest, GradientsAreThoseOfTheRun) {
  const at::AutoGradMode grad(true);
  at::Tensor leaf = at::randn({3}).requires_grad_();
  const at::Tensor x = at::randn({3});
  const auto tape = Record({x},
                           [&] {
                             leaf.mutable_grad().reset();
                             (leaf * x).sum().backward();
                             return Tensors{};
                           },
                           {.watched = {leaf}});
  const at::Tensor y = at::randn({3});
  Tensors outputs;
  EXPECT_EQ(RunTape(*tape, {{&y, 1}, {}}, outputs), TapeRan::kDone);
  EXPECT_TRUE(leaf.grad().equal(y));
}

TEST_F(TapeRunTest, LeavesTheModesOfItsThread) {
  const at::Tensor x = at::randn({3, 3});
  const auto tape = Record({x}, [&] {
    const at::AutoGradMode grad(true);
    return Tensors{Factor(x.mm(x.t()) + at::eye(3))};
  });
  const auto keys = c10::impl::tls_local_dispatch_key_set();
  Tensors outputs;
  EXPECT_EQ(RunTape(*tape, {{&x, 1}, {}}, outputs), TapeRan::kDone);
  EXPECT_FALSE(at::GradMode::is_enabled());
  const at::Tensor nan = at::full({3, 3}, NAN);
  EXPECT_EQ(RunTape(*tape, {{&nan, 1}, {}}, outputs), TapeRan::kRaised);
  EXPECT_FALSE(at::GradMode::is_enabled());
  const auto now = c10::impl::tls_local_dispatch_key_set();
  EXPECT_EQ(now.excluded_, keys.excluded_);
  EXPECT_EQ(now.included_, keys.included_);
}

}  // namespace
}  // namespace reprise::bindings
