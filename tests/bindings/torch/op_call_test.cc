// Equal words mean equal calls: what changes a kernel changes the words, what
// does not (addresses, storage offsets, identities) leaves them alone.

#include "bindings/torch/hook/op_call.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <functional>

#include "tests/bindings/torch/fake_session.h"

namespace reprise::bindings {
namespace {

class OpCallTest : public ::testing::Test {
 protected:
  // The outermost op that `program` issues last.
  SeenOp Last(const std::function<void()>& program) {
    session_.Record();
    program();
    session_.Pass();
    EXPECT_FALSE(session_.seen().empty());
    return session_.seen().empty() ? SeenOp() : session_.seen().back();
  }
  std::vector<uint64_t> Words(const std::function<void()>& program) {
    return Last(program).words;
  }

  FakeSession session_;
};

TEST_F(OpCallTest, SaysTheSameOfCallsOnOtherTensorsOfOneKind) {
  const auto a = at::rand({3, 4}), b = at::rand({3, 4});
  const auto c = at::rand({3, 4}), d = at::rand({3, 4});
  EXPECT_EQ(Words([&] { at::add(a, b); }), Words([&] { at::add(c, d); }));
  EXPECT_EQ(Words([&] { at::add(a, b); }), Words([&] { at::add(a, a); }));
}

TEST_F(OpCallTest, LeavesStorageOffsetsOut) {
  const auto base = at::rand({256});
  const auto a = base.narrow(0, 0, 64), b = base.narrow(0, 64, 64);
  EXPECT_EQ(Words([&] { at::neg(a); }), Words([&] { at::neg(b); }));
  const SeenOp seen = Last([&] { at::neg(b); });
  ASSERT_EQ(seen.operands.size(), 1u);
  EXPECT_EQ(seen.operands[0].offset_bytes, 256u);
  EXPECT_EQ(seen.operands[0].address(),
            reinterpret_cast<uint64_t>(b.const_data_ptr()));
}

TEST_F(OpCallTest, TellsAlignmentsApart) {
  const auto base = at::rand({256});
  const auto a = base.narrow(0, 0, 64), b = base.narrow(0, 1, 64);
  EXPECT_NE(Words([&] { at::neg(a); }), Words([&] { at::neg(b); }));
}

TEST_F(OpCallTest, TellsOperatorsApart) {
  const auto a = at::rand({3, 4});
  EXPECT_NE(Words([&] { at::neg(a); }), Words([&] { at::sin(a); }));
}

TEST_F(OpCallTest, TellsShapesDtypesAndStridesApart) {
  const auto a = at::rand({4, 4});
  const auto words = Words([&] { at::neg(a); });
  EXPECT_NE(words, Words([&] { at::neg(at::rand({4, 5})); }));
  EXPECT_NE(words, Words([&] { at::neg(at::rand({4, 4, 1})); }));
  const auto half = a.to(at::kHalf), transposed = a.t();
  EXPECT_NE(words, Words([&] { at::neg(half); }));
  EXPECT_NE(words, Words([&] { at::neg(transposed); }));
}

TEST_F(OpCallTest, TellsKeySetsApart) {
  const auto a = at::rand({4, 4}, at::kComplexFloat);
  const auto lazy = a.conj();
  EXPECT_NE(Words([&] { at::mm(a, a); }), Words([&] { at::mm(lazy, a); }));
  const auto real = at::rand({4});
  at::Tensor inference;
  {
    const c10::InferenceMode guard;
    inference = at::rand({4});
  }
  const c10::InferenceMode guard;
  EXPECT_NE(Words([&] { at::neg(real); }), Words([&] { at::neg(inference); }));
}

TEST_F(OpCallTest, TellsAttributesApart) {
  const auto a = at::rand({4, 4}), b = at::rand({4, 4});
  EXPECT_NE(Words([&] { at::add(a, b, 1); }), Words([&] { at::add(a, b, 2); }));
  EXPECT_NE(Words([&] { at::add(a, b, 1); }),
            Words([&] { at::add(a, b, 1.0); }));
  EXPECT_NE(Words([&] { at::sum(a, {0}); }), Words([&] { at::sum(a, {1}); }));
  EXPECT_NE(Words([&] { at::sum(a, {0}, false); }),
            Words([&] { at::sum(a, {0}, true); }));
  EXPECT_NE(Words([&] { at::gelu(a, "none"); }),
            Words([&] { at::gelu(a, "tanh"); }));
  EXPECT_NE(Words([&] { at::sum(a, {0}, false); }),
            Words([&] { at::sum(a, {0}, false, at::kDouble); }));
  EXPECT_NE(Words([&] { at::clamp(a, 0.5); }),
            Words([&] { at::clamp(a, std::nullopt, 0.5); }));
  EXPECT_NE(Words([&] {
              at::empty_strided({2, 3}, {3, 1});
            }),
            Words([&] {
              at::empty_strided({2, 3}, {1, 2});
            }));
  EXPECT_NE(Words([&] {
              at::constant_pad_nd(a, {1, 1});
            }),
            Words([&] {
              at::constant_pad_nd(a, {1, 1, 0, 0});
            }));
}

TEST_F(OpCallTest, KeepsWrappedNumbersByValue) {
  const auto a = at::rand({4, 4});
  const SeenOp two = Last([&] { at::mul(a, 2.0); });
  EXPECT_EQ(two.operands.size(), 1u);
  EXPECT_EQ(two.words, Words([&] { at::mul(a, 2.0); }));
  EXPECT_NE(two.words, Words([&] { at::mul(a, 3.0); }));
  // On the host a scalar tensor is an operand like any other.
  const auto scalar = at::scalar_tensor(2.0);
  EXPECT_EQ(Last([&] { at::mul(a, scalar); }).operands.size(), 2u);
}

TEST_F(OpCallTest, HoldsListsOfTensorsInOrder) {
  const auto a = at::rand({2, 2}), b = at::rand({2, 3});
  const SeenOp ab = Last([&] { at::cat({a, b}, 1); });
  EXPECT_EQ(ab.operands.size(), 2u);
  EXPECT_NE(ab.words, Words([&] { at::cat({b, a}, 1); }));
  EXPECT_NE(Words([&] {
              at::cat({a, a}, 1);
            }),
            Words([&] {
              at::cat({a, a, a}, 1);
            }));
}

TEST_F(OpCallTest, MarksAbsentAndUndefinedTensors) {
  const auto x = at::rand({1, 2, 4, 4}), w = at::rand({3, 2, 3, 3});
  const auto bias = at::rand({3});
  const SeenOp with = Last([&] { at::conv2d(x, w, bias); });
  const SeenOp without = Last([&] { at::conv2d(x, w); });
  EXPECT_EQ(with.name, without.name);
  EXPECT_EQ(with.operands.size(), 3u);
  EXPECT_EQ(without.operands.size(), 2u);
  EXPECT_NE(with.words, without.words);
  const auto index = at::arange(2);
  const SeenOp row = Last([&] { at::index(x[0], {index}); });
  const SeenOp column = Last([&] { at::index(x[0], {at::Tensor(), index}); });
  EXPECT_EQ(row.operands.size(), column.operands.size());
  EXPECT_NE(row.words, column.words);
}

TEST_F(OpCallTest, GrowsBeyondItsInlineRoom) {
  std::vector<at::Tensor> tensors;
  for (int i = 0; i < 148; ++i) tensors.push_back(at::rand({2, 3}));
  const SeenOp seen = Last([&] { at::_foreach_add(tensors, 1.0); });
  EXPECT_EQ(seen.operands.size(), 148u);
  EXPECT_EQ(seen.results.size(), 148u);
  EXPECT_EQ(seen.words, Words([&] { at::_foreach_add(tensors, 1.0); }));
}

TEST_F(OpCallTest, NumbersOfMixedListsAreNoSlots) {
  const auto a = at::rand({4}), b = at::rand({4});
  const auto narrow = at::rand({4}, at::kBFloat16);
  const auto numbers = [&](const std::vector<at::Tensor>& tensors,
                           const std::vector<at::Tensor>& others) {
    return Last([&] { at::_foreach_add(tensors, others, 0.7); }).scalars.size();
  };
  EXPECT_EQ(numbers({a, b}, {b, a}), 1u);
  EXPECT_EQ(numbers({a, narrow}, {b, narrow}), 0u);
  EXPECT_EQ(numbers({a, b}, {narrow, narrow}), 0u);
  EXPECT_EQ(Last([&] { at::mul(a, narrow).mul(0.7); }).scalars.size(), 1u);
  EXPECT_EQ(Last([&] { at::add(a, narrow, 0.7); }).scalars.size(), 1u);
}

TEST_F(OpCallTest, MarksWrittenOperands) {
  auto a = at::rand({4});
  const auto b = at::rand({4});
  SeenOp seen = Last([&] { a.add_(b); });
  ASSERT_EQ(seen.operands.size(), 2u);
  EXPECT_TRUE(seen.operands[0].written);
  EXPECT_FALSE(seen.operands[1].written);
  EXPECT_TRUE(seen.results.empty());
  auto out = at::empty({4});
  seen = Last([&] { at::add_out(out, b, b); });
  ASSERT_EQ(seen.operands.size(), 3u);
  EXPECT_FALSE(seen.operands[0].written);
  EXPECT_TRUE(seen.operands[2].written);
  std::vector<at::Tensor> list = {at::rand({2}), at::rand({3})};
  seen = Last([&] { at::_foreach_mul_(list, 2.0); });
  ASSERT_EQ(seen.operands.size(), 2u);
  EXPECT_TRUE(seen.operands[0].written);
  EXPECT_TRUE(seen.operands[1].written);
}

TEST_F(OpCallTest, KnowsTheWritesThatBatchNormHides) {
  const auto x = at::rand({2, 3, 4, 4}), w = at::rand({3}), b = at::rand({3});
  const auto mean = at::zeros({3}), var = at::ones({3});
  SeenOp seen =
      Last([&] { at::native_batch_norm(x, w, b, mean, var, true, 0.1, 1e-5); });
  ASSERT_EQ(seen.operands.size(), 5u);
  EXPECT_FALSE(seen.operands[0].written);
  EXPECT_TRUE(seen.operands[3].written);
  EXPECT_TRUE(seen.operands[4].written);
  seen = Last(
      [&] { at::native_batch_norm(x, w, b, mean, var, false, 0.1, 1e-5); });
  EXPECT_FALSE(seen.operands[3].written);
}

TEST_F(OpCallTest, ShowsSwitchesToTheirClass) {
  const auto a = at::rand({4, 4});
  const auto words = Words([&] { at::mm(a, a); });
  at::globalContext().setUserEnabledMkldnn(false);
  EXPECT_NE(words, Words([&] { at::mm(a, a); }));
  at::globalContext().setUserEnabledMkldnn(true);
  EXPECT_EQ(words, Words([&] { at::mm(a, a); }));
  const auto sine = Words([&] { at::sin(a); });
  at::globalContext().setUserEnabledCuDNN(false);
  EXPECT_EQ(sine, Words([&] { at::sin(a); }));
  at::globalContext().setUserEnabledCuDNN(true);
  at::globalContext().setDeterministicAlgorithms(true, true);
  EXPECT_NE(sine, Words([&] { at::sin(a); }));
  at::globalContext().setDeterministicAlgorithms(false, false);
}

TEST_F(OpCallTest, CutsWhatCannotBeReplayed) {
  auto a = at::rand({4});
  EXPECT_EQ(Last([&] { a.sum().item(); }).cut, "hands data to the host");
  EXPECT_EQ(Last([&] { at::nonzero(a); }).cut,
            "the shape of its result depends on data");
  EXPECT_EQ(Last([&] { at::equal(a, a); }).cut, "hands data to the host");
  EXPECT_EQ(Last([&] { at::empty({0}).resize_({4}); }).cut,
            "changes a storage");
  EXPECT_EQ(Last([&] { a.set_(at::rand({4})); }).cut, "changes a storage");
  const auto generator = at::detail::createCPUGenerator(1);
  EXPECT_EQ(Last([&] { a.normal_(0, 1, generator); }).cut,
            "explicit generator");
  EXPECT_EQ(Last([&] { at::neg(a); }).cut, "");
}

TEST_F(OpCallTest, SaysWhichOpsMayDrawRandomNumbers) {
  auto a = at::rand({4});
  EXPECT_TRUE(Last([&] { a.normal_(); }).may_use_generator);
  EXPECT_TRUE(
      Last([&] { at::native_dropout(a, 0.5, true); }).may_use_generator);
  EXPECT_TRUE(Last([&] { at::randn({4}); }).may_use_generator);
  EXPECT_FALSE(Last([&] { at::neg(a); }).may_use_generator);
}

TEST_F(OpCallTest, SaysWhichOpsMayStopTheDeviceByTheirData) {
  const auto may_trap = [&](const std::function<void()>& program) {
    return Last(program).may_trap;
  };
  const auto a = at::rand({4, 4}), p = at::full({4, 4}, 0.5);
  const auto places = at::zeros({4}, at::kLong);
  EXPECT_TRUE(may_trap([&] { at::index_select(a, 0, places); }));
  EXPECT_TRUE(may_trap([&] { at::repeat_interleave(places); }));
  EXPECT_TRUE(may_trap([&] { at::poisson(p); }));
  EXPECT_TRUE(may_trap([&] { at::bernoulli(p); }));
  EXPECT_TRUE(may_trap([&] { at::empty_like(a).bernoulli_(p); }));
  EXPECT_TRUE(may_trap([&] { at::normal(0.0, p); }));
  EXPECT_TRUE(may_trap([&] { at::normal(a, p); }));
  EXPECT_FALSE(may_trap([&] { at::empty_like(a).bernoulli_(0.5); }));
  EXPECT_FALSE(may_trap([&] { at::normal(a, 1.0); }));
  EXPECT_FALSE(may_trap([&] { at::add(a, p); }));
}

// Kernels of the host are chosen by it, and few know which.
TEST_F(OpCallTest, TellsSwitchesOfTheHostApartWhateverTheOperator) {
  const auto a = at::rand({3, 4});
  const auto program = [&] { at::gelu(a); };
  const std::vector<uint64_t> plain = Words(program);
  at::globalContext().setUserEnabledMkldnn(false);
  EXPECT_NE(Words(program), plain);
  at::globalContext().setUserEnabledMkldnn(true);
  EXPECT_EQ(Words(program), plain);
}

TEST_F(OpCallTest, TellsPrecisionsOfTheHostApart) {
  using at::Float32Backend;
  using at::Float32Op;
  at::Context& context = at::globalContext();
  const auto a = at::rand({3, 4});
  const auto words = [&] { return Words([&] { at::gelu(a); }); };
  const std::vector<uint64_t> plain = words();
  for (const auto& [backend, op] :
       {std::pair{Float32Backend::MKLDNN, Float32Op::MATMUL},
        {Float32Backend::MKLDNN, Float32Op::CONV},
        {Float32Backend::MKLDNN, Float32Op::RNN},
        {Float32Backend::MKLDNN, Float32Op::ALL},
        {Float32Backend::GENERIC, Float32Op::ALL}}) {
    const at::Float32Precision before = context.float32Precision(backend, op);
    context.setFloat32Precision(backend, op, at::Float32Precision::TF32);
    const std::vector<uint64_t> reduced = words();
    EXPECT_NE(reduced, plain);
    context.setFloat32Precision(backend, op, at::Float32Precision::IEEE);
    EXPECT_NE(words(), reduced);
    context.setFloat32Precision(backend, op, before);
    EXPECT_EQ(words(), plain);
  }
}

TEST_F(OpCallTest, SaysOfWhichOperandsTheContentDoesNotMatter) {
  const auto a = at::rand({3, 3});
  const auto unread = [&](const std::function<void()>& program) {
    std::vector<bool> unread;
    for (const engine::Operand& operand : Last(program).operands) {
      unread.push_back(operand.unread);
    }
    return unread;
  };
  using Each = std::vector<bool>;
  EXPECT_EQ(unread([&] { at::zeros_like(a); }), (Each{true}));
  EXPECT_EQ(unread([&] { at::neg(a); }), (Each{false}));
  EXPECT_EQ(unread([&] { at::addmm(a, a, a, 1); }),
            (Each{false, false, false}));
  EXPECT_EQ(unread([&] { at::addmm(a, a, a, 0); }), (Each{true, false, false}));
  EXPECT_EQ(unread([&] { at::addmm(a, a, a, 0.0); }),
            (Each{true, false, false}));
  EXPECT_EQ(unread([&] { at::add(a, a, 0); }), (Each{false, false}));
}

}  // namespace
}  // namespace reprise::bindings
