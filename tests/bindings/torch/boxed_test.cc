// Boxed hooks for operators without a hook of their own, and boxed calls for
// the host executor.

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/library.h>

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bindings/torch/hook/boxed_call.h"
#include "bindings/torch/hook/boxed_hook.h"
#include "tests/bindings/torch/fake_session.h"

namespace reprise::bindings {
namespace {

int g_runs = 0;

std::tuple<at::Tensor, at::Tensor> Twice(const at::Tensor& a, int64_t times,
                                         std::optional<double> plus,
                                         at::IntArrayRef sizes) {
  ++g_runs;
  at::Tensor scaled = a * times;
  if (plus.has_value()) scaled = scaled + *plus;
  return {scaled, scaled.sum(sizes)};
}

at::Tensor& Fill(at::Tensor& a, const at::Tensor& b) {
  ++g_runs;
  return a.copy_(b);
}

std::vector<at::Tensor> Halves(at::TensorList list) {
  ++g_runs;
  std::vector<at::Tensor> halves;
  for (const at::Tensor& tensor : list) halves.push_back(tensor / 2);
  return halves;
}

TORCH_LIBRARY(reprise_test, m) {
  m.def(
      "twice(Tensor a, int times, float? plus, int[] sizes)"
      " -> (Tensor, Tensor)");
  m.def("fill(Tensor(a!) a, Tensor b) -> Tensor(a!)");
  m.def("halves(Tensor[] list) -> Tensor[]");
  m.def("shape(Tensor(a) a) -> Tensor(a)");
}
TORCH_LIBRARY_IMPL(reprise_test, CPU, m) {
  m.impl("twice", Twice);
  m.impl("fill", Fill);
  m.impl("halves", Halves);
  m.impl("shape", [](const at::Tensor& a) { return a.view({-1}); });
}

torch::jit::Stack Call(const char* name, torch::jit::Stack stack) {
  c10::Dispatcher::singleton().findSchemaOrThrow(name, "").callBoxed(&stack);
  return stack;
}

class BoxedTest : public ::testing::Test {
 protected:
  void SetUp() override { g_runs = 0; }

  FakeSession session_;
};

TEST_F(BoxedTest, FollowsOperatorsOfOthers) {
  const auto a = at::rand({3, 4});
  const auto call = [&] {
    return Call("reprise_test::twice",
                {a, 3, 0.5, c10::List<int64_t>({int64_t{0}})});
  };
  session_.Record();
  const torch::jit::Stack recorded = call();
  ASSERT_EQ(session_.seen().size(), 1u);
  EXPECT_EQ(session_.seen()[0].name, "reprise_test::twice");
  EXPECT_EQ(session_.seen()[0].cut, "");
  EXPECT_EQ(session_.seen()[0].results.size(), 2u);
  session_.Follow();
  const torch::jit::Stack followed = call();
  EXPECT_EQ(session_.follows(), 1u);
  EXPECT_EQ(g_runs, 1);
  ASSERT_EQ(followed.size(), 2u);
  session_.Pass();
  EXPECT_TRUE(followed[0].toTensor().equal(recorded[0].toTensor()));
  EXPECT_TRUE(followed[1].toTensor().equal(recorded[1].toTensor()));
}

TEST_F(BoxedTest, TellsArgumentsApart) {
  const auto a = at::rand({3, 4});
  const auto words = [&](int64_t times, c10::IValue plus) {
    session_.Record();
    Call("reprise_test::twice",
         {a, times, std::move(plus), c10::List<int64_t>({int64_t{0}})});
    return session_.seen().front().words;
  };
  const auto first = words(3, 0.5);
  EXPECT_EQ(first, words(3, 0.5));
  EXPECT_NE(first, words(4, 0.5));
  EXPECT_NE(first, words(3, 0.25));
  EXPECT_NE(first, words(3, c10::IValue()));
}

TEST_F(BoxedTest, ReturnsWrittenArguments) {
  const auto a = at::zeros({3}), b = at::ones({3});
  session_.Record();
  Call("reprise_test::fill", {a, b});
  ASSERT_EQ(session_.seen().size(), 1u);
  EXPECT_TRUE(session_.seen()[0].operands[0].written);
  EXPECT_TRUE(session_.seen()[0].results.empty());
  session_.Follow();
  const torch::jit::Stack followed = Call("reprise_test::fill", {a, b});
  ASSERT_EQ(followed.size(), 1u);
  EXPECT_TRUE(followed[0].toTensor().is_same(a));
  EXPECT_EQ(g_runs, 1);
}

// Their operands need not tell of all that they write.
TEST_F(BoxedTest, OthersAreToldOfOperatorsOfOthersBeforeTheyRun) {
  const auto a = at::zeros({3}), b = at::ones({3});
  session_.Record();
  Call("reprise_test::fill", {a, b});
  TellOthers([](const engine::OpView&) {});
  EXPECT_EQ(Told().unknown_writes, 0);
  Call("reprise_test::fill", {a, b});
  EXPECT_EQ(Told().unknown_writes, 1);
  at::add(a, b);
  EXPECT_EQ(Told().unknown_writes, 1);
  session_.Follow();
  Call("reprise_test::fill", {a, b});
  EXPECT_EQ(session_.follows(), 1u);
  EXPECT_EQ(Told().unknown_writes, 1);
}

TEST_F(BoxedTest, FollowsListsOfTensors) {
  const c10::List<at::Tensor> list({at::rand({2}), at::rand({3})});
  session_.Record();
  Call("reprise_test::halves", {list});
  ASSERT_EQ(session_.seen().size(), 1u);
  EXPECT_EQ(session_.seen()[0].results.size(), 2u);
  session_.Follow();
  const torch::jit::Stack followed = Call("reprise_test::halves", {list});
  EXPECT_EQ(followed[0].toTensorVector().size(), 2u);
  EXPECT_EQ(g_runs, 1);
}

TEST_F(BoxedTest, LeavesViewsAlone) {
  const auto a = at::rand({3, 4});
  session_.Record();
  Call("reprise_test::shape", {a});
  EXPECT_TRUE(session_.seen().empty());
}

// Operators of a library that comes and goes.
class BoxedLibraryTest : public BoxedTest {
 protected:
  // The operator `op` of the library, in the place of the one before.
  void Define(const char* schema, torch::CppFunction kernel,
              const char* file = __FILE__) {
    library_.reset();
    library_ = std::make_unique<torch::Library>(torch::Library::DEF, name_,
                                                std::nullopt, file, __LINE__);
    library_->def(schema);
    library_->impl("op",
                   torch::dispatch(c10::DispatchKey::CPU, std::move(kernel)));
    b_.neg();  // hooks come with the next op
  }
  SeenOp SeenOf(torch::jit::Stack stack) {
    session_.Record();
    Call((name_ + "::op").c_str(), std::move(stack));
    EXPECT_EQ(session_.seen().size(), 1u);
    return session_.seen().empty() ? SeenOp() : session_.seen().front();
  }
  static torch::CppFunction Reads() {
    return torch::CppFunction([](const at::Tensor&, const at::Tensor&) {});
  }
  static torch::CppFunction Writes() {
    return torch::CppFunction(
        [](const at::Tensor& a, const at::Tensor& b) { a.add_(b); });
  }
  // Takes whatever is on the stack, and writes the last of it.
  static void Negate(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
    ++g_runs;
    torch::jit::pop(*stack).toTensor().neg_();
    torch::jit::drop(*stack, op.schema().arguments().size() - 1);
  }
  static torch::CppFunction Boxed() {
    return torch::CppFunction::makeFromBoxedFunction<&Negate>();
  }

  // An operator of its own for each test: hooks stay.
  const std::string name_ =
      ::testing::UnitTest::GetInstance()->current_test_info()->name();
  at::Tensor a_ = at::rand({3});
  at::Tensor b_ = at::rand({3});
  std::unique_ptr<torch::Library> library_;
};

TEST_F(BoxedLibraryTest, OperatorThatIsDefinedAnewIsWhatItIsNow) {
  Define("op(Tensor a, Tensor b) -> ()", Reads());
  EXPECT_FALSE(SeenOf({a_, b_}).operands[0].written);
  Define("op(Tensor(a!) a, Tensor b) -> ()", Writes());
  const SeenOp written = SeenOf({a_, b_});
  EXPECT_TRUE(written.operands[0].written);
  EXPECT_FALSE(written.operands[1].written);
  // Kernels of other C++ types torch does not take.
  Define("op(Tensor a, Tensor b, Tensor(c!) c) -> ()", Boxed());
  const SeenOp longer = SeenOf({a_, b_, b_});
  ASSERT_EQ(longer.operands.size(), 3u);
  EXPECT_FALSE(longer.operands[0].written);
  EXPECT_TRUE(longer.operands[2].written);
}

// What was recorded of the one before is nothing that it does.
TEST_F(BoxedLibraryTest, OperatorThatIsDefinedAnewIsAnotherOne) {
  Define("op(Tensor(a!) a, Tensor b) -> ()", Writes());
  const std::vector<uint64_t> words = SeenOf({a_, b_}).words;
  EXPECT_EQ(SeenOf({a_, b_}).words, words);
  Define("op(Tensor(a!) a, Tensor b) -> ()",
         torch::CppFunction(
             [](const at::Tensor& a, const at::Tensor& b) { a.sub_(b); }));
  EXPECT_NE(SeenOf({a_, b_}).words, words);
}

TEST_F(BoxedLibraryTest, OperatorThatIsDefinedForEverInterruptsInTheEnd) {
  for (int i = 0; i < 100; ++i) {
    Define("op(Tensor(a!) a, Tensor b) -> ()", Writes());
    session_.Record();
    Call((name_ + "::op").c_str(), {a_, b_});
    EXPECT_NE(session_.interrupts() == 0, session_.seen().empty());
  }
  EXPECT_GT(session_.interrupts(), 0u);
  EXPECT_TRUE(session_.seen().empty());
}

TEST_F(BoxedLibraryTest, CompiledKernelThatTakesAnythingIsACut) {
  Define("op(Tensor(a!) a) -> ()", Boxed());
  const SeenOp seen = SeenOf({a_});
  EXPECT_EQ(seen.name, name_ + "::op");
  EXPECT_EQ(seen.cut, "its kernel does not say what it takes");
  EXPECT_EQ(g_runs, 1);
}

TEST_F(BoxedLibraryTest, OfAKernelOfPythonsWhatItCallsIsSeen) {
  for (const char* file : {"/tmp/program.py", "<string>"}) {
    Define("op(Tensor(a!) a) -> ()", Boxed(), file);
    EXPECT_EQ(SeenOf({a_}).name, "aten::neg_");
  }
  // It was another one's before.
  Define("op(Tensor(a!) a, Tensor b) -> ()", Writes());
  EXPECT_EQ(SeenOf({a_, b_}).name, name_ + "::op");
  Define("op(Tensor(a!) a) -> ()", Boxed(), "/tmp/program.py");
  EXPECT_EQ(SeenOf({a_}).name, "aten::neg_");
}

// Each recorded call, run again on the same operands, gives eager's bytes.
class BoxedCallTest : public BoxedTest {
 protected:
  template <typename Program>
  void ExpectSameBytes(const Program& program) {
    session_.WantCalls();
    session_.Record();
    const std::vector<at::Tensor> eager = program();
    session_.Pass();
    ASSERT_EQ(session_.seen().size(), 1u);
    const auto bytes = session_.RunCall(0);
    ASSERT_EQ(bytes.size(), eager.size());
    for (size_t i = 0; i < bytes.size(); ++i) {
      if (!eager[i].defined()) continue;
      const c10::Storage& storage = eager[i].storage();
      ASSERT_EQ(bytes[i].size(), storage.nbytes());
      EXPECT_EQ(std::memcmp(bytes[i].data(), storage.data(), bytes[i].size()),
                0)
          << i;
    }
  }
};

TEST_F(BoxedCallTest, RunsOnOtherMemory) {
  const auto a = at::rand({3, 4}), b = at::rand({3, 4});
  ExpectSameBytes([&] { return std::vector{at::add(a, b, 2)}; });
  ExpectSameBytes([&] { return std::vector{at::mm(a.t(), b)}; });
  ExpectSameBytes([&] { return std::vector{at::mul(a, 2.5)}; });
  ExpectSameBytes([&] { return std::vector{at::cat({a, b}, 1)}; });
  ExpectSameBytes([&] { return std::vector{at::full({2, 3}, 4.0)}; });
  ExpectSameBytes([&] { return std::vector{at::gelu(a, "tanh")}; });
  ExpectSameBytes([&] { return at::_foreach_add({a, b}, 1.0); });
  const auto c = at::rand({4, 4}, at::kComplexFloat);
  ExpectSameBytes([&] { return std::vector{at::mm(c.conj(), c)}; });
}

// The numbers of a call and of its boxed form are the same ones in the same
// order: given those of another call, it does what the other one did.
TEST_F(BoxedCallTest, TakesTheNumbersOfAnotherCall) {
  const auto x = at::rand({3, 4}), y = at::rand({3, 4}), z = at::rand({3, 4});
  const auto mask = x > 0.5;
  using Program = std::function<std::vector<at::Tensor>(double, double)>;
  const auto expect_lists = [&](size_t numbers, const Program& program) {
    session_.WantCalls();
    session_.Record();
    const std::vector<at::Tensor> other = program(4.25, 5.75);
    session_.Pass();
    const std::vector<engine::Scalar> scalars = session_.seen()[0].scalars;
    const std::vector<uint64_t> words = session_.seen()[0].words;
    ASSERT_EQ(scalars.size(), numbers) << session_.seen()[0].name;
    for (const engine::Scalar& scalar : scalars) {
      EXPECT_EQ(words[scalar.word], scalar.bits);
    }
    session_.Record();
    program(0.3, 0.7);
    session_.Pass();
    ASSERT_EQ(session_.seen().size(), 1u);
    for (uint32_t i = 0; i < numbers; ++i) {
      session_.call(0)->SetScalar(i, scalars[i].bits);
    }
    const auto bytes = session_.RunCall(0);
    ASSERT_EQ(bytes.size(), other.size());
    for (size_t i = 0; i < other.size(); ++i) {
      const c10::Storage& storage = other[i].storage();
      ASSERT_EQ(bytes[i].size(), storage.nbytes());
      EXPECT_EQ(std::memcmp(bytes[i].data(), storage.data(), bytes[i].size()),
                0)
          << session_.seen()[0].name << " " << i;
    }
  };
  const auto expect = [&](size_t numbers, const auto& program) {
    expect_lists(numbers, [&program](double s, double t) {
      return std::vector{at::Tensor(program(s, t))};
    });
  };
  expect(1, [&](double s, double) { return at::mul(x, s); });
  expect(1, [&](double s, double) { return at::mul(x, int64_t(10 * s)); });
  expect(1, [&](double s, double) { return at::add(x, y, s); });
  expect(2, [&](double s, double t) { return at::add(x, s, t); });
  expect(2, [&](double s, double t) { return at::clamp(x, -s, t); });
  expect(1, [&](double, double t) { return at::clamp(x, std::nullopt, t); });
  expect(1, [&](double s, double) { return at::addcmul(x, y, z, s); });
  expect(1, [&](double s, double) { return at::lerp(x, y, s); });
  expect(1, [&](double s, double) { return at::pow(x, s); });
  expect(1, [&](double s, double) { return at::full({2, 3}, s); });
  expect(1, [&](double s, double) { return at::masked_fill(x, mask, s); });
  const std::vector<at::Tensor> xs = {x, y, z}, ys = {y, z, x};
  using Numbers = std::vector<at::Scalar>;
  expect_lists(1, [&](double s, double) { return at::_foreach_mul(xs, s); });
  expect_lists(1,
               [&](double s, double) { return at::_foreach_add(xs, ys, s); });
  expect_lists(3, [&](double s, double t) {
    return at::_foreach_div(xs, Numbers{s, t, s});
  });
  expect_lists(3, [&](double s, double t) {
    return at::_foreach_addcdiv(xs, ys, xs, Numbers{int64_t(10 * s), 1.5, t});
  });
}

TEST_F(BoxedCallTest, ListsOfNumbersMayBeLong) {
  const std::vector<at::Tensor> xs(200, at::rand({4}));
  session_.Record();
  at::_foreach_mul(xs, std::vector<at::Scalar>(200, 4.25));
  session_.Pass();
  ASSERT_EQ(session_.seen()[0].scalars.size(), 200u);
  for (const engine::Scalar& scalar : session_.seen()[0].scalars) {
    EXPECT_EQ(session_.seen()[0].words[scalar.word], scalar.bits);
  }
}

// Their numbers are attributes of type double.
TEST_F(BoxedCallTest, FusedOptimizersTakeTheNumbersOfAnotherCall) {
  const c10::InferenceMode uncounted;
  std::vector<std::vector<at::Tensor>> lists;
  const auto begin_anew = [&] {
    lists.assign(5, {});
    for (auto& list : lists) list = {at::ones({5}), at::ones({3})};
    lists[4] = {at::ones({}), at::ones({})};  // steps
  };
  const auto step = [&](double lr) {
    session_.WantCalls();
    session_.Record();
    at::_fused_adam_(lists[0], lists[1], lists[2], lists[3], {}, lists[4], lr,
                     0.875, 0.9375, 0.25, 1e-6, false, false);
    session_.Pass();
  };
  begin_anew();
  const std::vector<at::Tensor> other = lists[0];
  step(0.125);
  const std::vector<engine::Scalar> scalars = session_.seen()[0].scalars;
  ASSERT_EQ(scalars.size(), 5u);
  begin_anew();
  step(0.75);
  EXPECT_FALSE(at::equal(lists[0][0], other[0]));
  for (const auto& list : lists) {
    for (const at::Tensor& tensor : list) tensor.fill_(1);
  }
  for (uint32_t i = 0; i < scalars.size(); ++i) {
    session_.call(0)->SetScalar(i, scalars[i].bits);
  }
  session_.RunCall(0);
  EXPECT_TRUE(at::equal(lists[0][0], other[0]));
  EXPECT_TRUE(at::equal(lists[0][1], other[1]));
}

TEST_F(BoxedCallTest, NumbersByWhichMoreIsDecidedAreNoSlots) {
  const auto x = at::rand({3, 3}), c = at::rand({3}, at::kComplexFloat);
  const auto bytes = at::ones({3}, at::kByte);
  const auto numbers = [&](const std::function<void()>& program) {
    session_.Record();
    program();
    session_.Pass();
    size_t count = 0;
    for (const SeenOp& seen : session_.seen()) count += seen.scalars.size();
    return count;
  };
  EXPECT_EQ(numbers([&] { at::mul(x, 7); }), 1u);
  EXPECT_EQ(numbers([&] { at::mul(x, true); }), 0u);
  EXPECT_EQ(numbers([&] { at::arange(7); }), 0u);
  EXPECT_EQ(numbers([&] { at::linspace(0, 7, 5); }), 0u);
  EXPECT_EQ(numbers([&] { at::addmm(x, x, x, 0.25, 0.75); }), 0u);
  EXPECT_EQ(numbers([&] { at::mul(bytes, 7); }), 0u);
  EXPECT_EQ(numbers([&] { at::lt(bytes, 7.5); }), 0u);
  EXPECT_EQ(numbers([&] { at::mul(c, 7); }), 0u);
  EXPECT_EQ(numbers([&] { at::histc(x, 4, 0.25, 0.75); }), 0u);
}

TEST_F(BoxedCallTest, RunsWithAbsentTensors) {
  const auto x = at::rand({1, 2, 5, 5}), w = at::rand({3, 2, 3, 3});
  ExpectSameBytes([&] { return std::vector{at::conv2d(x, w)}; });
  const auto index = at::arange(2);
  ExpectSameBytes([&] {
    return std::vector{at::_unsafe_index(x[0][0], {std::nullopt, index})};
  });
}

TEST_F(BoxedCallTest, RunsInPlace) {
  auto a = at::ones({3});
  const auto b = at::ones({3});
  session_.WantCalls();
  session_.Record();
  a.add_(b);
  session_.Pass();
  session_.RunCall(0);
  EXPECT_EQ(a.sum().item<float>(), 9);
}

TEST_F(BoxedCallTest, HoldsNoTensorOfTheProgram) {
  auto a = at::rand({3, 4});
  session_.WantCalls();
  session_.Record();
  at::add(a, a);
  EXPECT_EQ(a.use_count(), 1u);
  EXPECT_EQ(a.storage().use_count(), 1u);
}

TEST_F(BoxedCallTest, FailsWithoutRaising) {
  const auto a = at::rand({3, 4});
  session_.WantCalls();
  session_.Record();
  at::add(a, a);
  session_.Pass();
  // One operand too few.
  EXPECT_FALSE(session_.call(0)->Run({}, {}).has_value());
}

}  // namespace
}  // namespace reprise::bindings
