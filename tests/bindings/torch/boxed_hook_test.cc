// Hooks for operators without a hook of their own.

#include "bindings/torch/hook/boxed_hook.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/library.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

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

class BoxedHookTest : public ::testing::Test {
 protected:
  void SetUp() override { g_runs = 0; }

  FakeSession session_;
};

TEST_F(BoxedHookTest, FollowsOperatorsOfOthers) {
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

TEST_F(BoxedHookTest, TellsArgumentsApart) {
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

TEST_F(BoxedHookTest, ReturnsWrittenArguments) {
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
TEST_F(BoxedHookTest, OthersAreToldOfOperatorsOfOthersBeforeTheyRun) {
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

TEST_F(BoxedHookTest, FollowsListsOfTensors) {
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

TEST_F(BoxedHookTest, LeavesViewsAlone) {
  const auto a = at::rand({3, 4});
  session_.Record();
  Call("reprise_test::shape", {a});
  EXPECT_TRUE(session_.seen().empty());
}

// Operators of a library that comes and goes.
class BoxedLibraryTest : public BoxedHookTest {
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

}  // namespace
}  // namespace reprise::bindings
