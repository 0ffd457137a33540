// Calls that are boxed for the host executor, run again.

#include "bindings/torch/hook/boxed_call.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/bindings/torch/fake_session.h"

namespace reprise::bindings {
namespace {

// Each recorded call, run again on the same operands, gives eager's bytes.
class BoxedCallTest : public ::testing::Test {
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

  FakeSession session_;
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
  // And one too many.
  const std::vector<uint64_t> operands(
      3, reinterpret_cast<uint64_t>(a.const_data_ptr()));
  EXPECT_FALSE(session_.call(0)->Run(operands, {}).has_value());
}

TEST_F(BoxedCallTest, RunsInTheModesOfTheThreadThatMadeIt) {
  const auto tiny = at::full({4}, 1e-39);
  const auto first = [this] {
    std::vector<std::vector<char>> bytes;
    std::thread([&] { bytes = session_.RunCall(0); }).join();
    float found = 0;
    std::memcpy(&found, bytes[0].data(), sizeof found);
    return found;
  };
  session_.WantCalls();
  for (const bool flushes : {false, true}) {
    ASSERT_TRUE(at::globalContext().setFlushDenormal(flushes));
    session_.Record();
    at::mul(tiny, 0.5);
    session_.Pass();
    ASSERT_EQ(session_.seen().size(), 1u);
    ASSERT_TRUE(at::globalContext().setFlushDenormal(!flushes));
    const float found = first();
    at::globalContext().setFlushDenormal(false);
    EXPECT_EQ(found > 0, !flushes);
  }
}

TEST_F(BoxedCallTest, AnotherResultThanWasRecordedIsAnError) {
  const auto a = at::rand({3, 4});
  session_.WantCalls();
  session_.Record();
  at::neg(a);
  session_.Pass();
  auto* const call = static_cast<BoxedCall*>(session_.call(0));
  const std::vector<uint64_t> operands = {
      reinterpret_cast<uint64_t>(a.const_data_ptr())};
  std::vector<float> result(12);
  const std::vector<uint64_t> results = {
      reinterpret_cast<uint64_t>(result.data())};
  EXPECT_TRUE(call->Run(operands, results).has_value());
  engine::ResultView smaller;
  smaller.storage_bytes = 4;
  call->Expect({&smaller, 1});
  const base::Status status = call->Run(operands, results);
  ASSERT_FALSE(status.has_value());
  EXPECT_NE(status.error().message().find("not what was recorded"),
            std::string::npos);
}

}  // namespace
}  // namespace reprise::bindings
