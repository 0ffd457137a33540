// What hooks make of a GPU's ops: which are the session's, what is an operand,
// what is an attribute, what cuts.

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <gtest/gtest.h>

#include <functional>
#include <thread>
#include <type_traits>

#include "tests/bindings/torch/fake_session.h"

namespace reprise::bindings {
namespace {

using Tensors = std::vector<at::Tensor>;

class CudaHookTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!at::hasCUDA()) GTEST_SKIP() << "no GPU here";
    session_ = std::make_unique<FakeSession>(scheduler::DeviceKind::kCuda);
  }

  SeenOp Last(const std::function<void()>& program) {
    session_->Record();
    program();
    session_->Pass();
    EXPECT_FALSE(session_->seen().empty());
    return session_->seen().empty() ? SeenOp() : session_->seen().back();
  }

  void ExpectFollowed(const std::function<Tensors()>& program, size_t ops = 1) {
    session_->Record();
    const Tensors recorded = program();
    EXPECT_EQ(session_->seen().size(), ops);
    for (const SeenOp& seen : session_->seen()) EXPECT_TRUE(seen.left);
    EXPECT_TRUE(session_->hidden_effects().empty());
    session_->Follow();
    const Tensors followed = program();
    EXPECT_EQ(session_->follows(), ops);
    session_->Pass();
    ASSERT_EQ(recorded.size(), followed.size());
    for (size_t i = 0; i < recorded.size(); ++i) {
      ASSERT_EQ(recorded[i].defined(), followed[i].defined());
      if (!recorded[i].defined()) continue;
      EXPECT_EQ(recorded[i].device(), followed[i].device());
      EXPECT_EQ(recorded[i].strides(), followed[i].strides());
      EXPECT_TRUE(recorded[i].equal(followed[i])) << i;
    }
  }

  static at::Tensor Rand(at::IntArrayRef sizes) {
    return at::rand(sizes, at::kCUDA);
  }

  std::unique_ptr<FakeSession> session_;
};

TEST_F(CudaHookTest, MakesTensors) {
  const auto a = Rand({8, 16}), b = Rand({8, 16});
  ExpectFollowed([&] { return Tensors{at::add(a, b)}; });
  ExpectFollowed([&] { return Tensors{at::mm(a, b.t())}; });
  ExpectFollowed([&] { return at::_foreach_mul({a, b}, 2.0); });
  ExpectFollowed([&] { return Tensors{at::empty({4}, at::kCUDA)}; });
  ExpectFollowed([&] { return Tensors{at::arange(9, at::kCUDA)}; });
  const auto x = Rand({2, 3, 8, 8}), w = Rand({4, 3, 3, 3});
  ExpectFollowed([&] { return Tensors{at::conv2d(x, w)}; });
}

TEST_F(CudaHookTest, MakesTheHostValuesOfAttention) {
  const auto q = Rand({2, 4, 32, 64}).to(at::kHalf);
  ExpectFollowed([&] {
    auto [out, logsumexp, cum_q, cum_k, max_q, max_k, seed, offset, mask] =
        at::_scaled_dot_product_flash_attention(q, q, q);
    EXPECT_EQ(max_q, 32);
    return Tensors{out, logsumexp, cum_q, cum_k, mask};
  });
}

TEST_F(CudaHookTest, LeavesTheHostsOpsAlone) {
  const auto host = at::rand({4});
  session_->Record();
  at::add(host, host);
  at::zeros({4});
  EXPECT_TRUE(session_->seen().empty());
}

TEST_F(CudaHookTest, TakesHostScalarsByValue) {
  const auto a = Rand({4});
  const auto two = at::scalar_tensor(2.0), three = at::scalar_tensor(3.0);
  const SeenOp seen = Last([&] { at::mul(a, two); });
  EXPECT_EQ(seen.cut, "");
  EXPECT_EQ(seen.operands.size(), 1u);
  EXPECT_EQ(seen.words, Last([&] { at::mul(a, two); }).words);
  EXPECT_NE(seen.words, Last([&] { at::mul(a, three); }).words);
  EXPECT_NE(seen.words, Last([&] { at::mul(a, 2.0); }).words);
}

TEST_F(CudaHookTest, CutsCopiesThatTouchTheHost) {
  const auto a = Rand({4}), host = at::rand({4});
  EXPECT_EQ(Last([&] { a.to(at::kCPU); }).cut, "copies to the host");
  const SeenOp brought = Last([&] { host.to(at::kCUDA); });
  EXPECT_EQ(brought.cut, "");
  EXPECT_TRUE(brought.by_eager);
  EXPECT_EQ(Last([&] { a.copy_(host); }).cut, "host operand");
  EXPECT_EQ(Last([&] { host.copy_(a); }).cut, "host operand");
  EXPECT_EQ(Last([&] { a.sum().item(); }).cut, "hands data to the host");
  EXPECT_EQ(Last([&] { at::index(a, {at::arange(2)}); }).cut, "host operand");
}

// Each thread has its own choices.
TEST_F(CudaHookTest, WhatCudnnPicksByBenchmarkIsTheThreads) {
  const auto x = Rand({2, 3, 8, 8}), w = Rand({4, 3, 3, 3});
  const auto mean = Rand({3}), var = Rand({3});
  const auto convolve = [&] { return Last([&] { at::conv2d(x, w); }); };
  const auto normalize = [&] {
    return Last([&] {
             at::batch_norm(x, {}, {}, mean, var, false, 0.1, 1e-5, true);
           })
        .words;
  };
  const auto elsewhere = [](const auto& work) {
    std::remove_cvref_t<decltype(work())> result;
    std::thread([&] { result = work(); }).join();
    return result;
  };
  const auto before = normalize();
  at::globalContext().setBenchmarkCuDNN(true);
  const SeenOp here = convolve();
  EXPECT_EQ(here.cut, "");
  EXPECT_TRUE(here.may_try_kernels);
  EXPECT_EQ(here.words, convolve().words);
  EXPECT_NE(here.words, elsewhere(convolve).words);
  EXPECT_EQ(before, normalize());
  EXPECT_EQ(before, elsewhere(normalize));
  at::globalContext().setBenchmarkCuDNN(false);
  // Choices outlast the switch.
  EXPECT_FALSE(convolve().may_try_kernels);
  EXPECT_NE(convolve().words, elsewhere(convolve).words);
  ExpectFollowed([&] { return Tensors{at::conv2d(x, w)}; });
}

TEST_F(CudaHookTest, ShowsPrecisionsToMatmuls) {
  const auto a = Rand({8, 8});
  at::globalContext().setFloat32MatmulPrecision("highest");
  const auto mm = Last([&] { at::mm(a, a); }).words;
  const auto sine = Last([&] { at::sin(a); }).words;
  at::globalContext().setFloat32MatmulPrecision("high");
  EXPECT_NE(mm, Last([&] { at::mm(a, a); }).words);
  EXPECT_EQ(sine, Last([&] { at::sin(a); }).words);
  at::globalContext().setFloat32MatmulPrecision("highest");
  EXPECT_EQ(mm, Last([&] { at::mm(a, a); }).words);
}

TEST_F(CudaHookTest, KnowsTheWritesThatBatchNormHides) {
  const auto x = Rand({4, 3, 8, 8}), w = Rand({3}), b = Rand({3});
  const auto mean = Rand({3}), var = Rand({3});
  for (const bool training : {true, false}) {
    session_->Record();
    at::cudnn_batch_norm(x, w, b, mean, var, training, 0.1, 1e-5);
    at::native_batch_norm(x, w, b, mean, var, training, 0.1, 1e-5);
    session_->Pass();
    ASSERT_EQ(session_->seen().size(), 2u);
    for (const SeenOp& seen : session_->seen()) {
      EXPECT_EQ(seen.operands[3].written, training) << seen.name;
      EXPECT_EQ(seen.operands[4].written, training) << seen.name;
    }
    EXPECT_TRUE(session_->hidden_effects().empty());
  }
}

TEST_F(CudaHookTest, LetsStoragesOfResultsGrow) {
  const auto a = at::ones({4}, at::kCUDA);
  session_->Record();
  at::add(a, a);
  session_->Follow();
  auto result = at::add(a, a);
  ASSERT_EQ(session_->follows(), 1u);
  session_->Pass();
  result.resize_({64});
  EXPECT_EQ(result.narrow(0, 0, 4).sum().item<float>(), 8);
}

}  // namespace
}  // namespace reprise::bindings
