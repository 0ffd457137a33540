// Which tensors are ordinary ones, and that those made here are as torch makes
// them.

#include "bindings/torch/base/plain_tensor.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/bindings/torch/named_tensor.h"

namespace reprise::bindings {
namespace {

bool IsPlain(const at::Tensor& tensor) {
  return IsPlainTensor(*tensor.unsafeGetTensorImpl());
}

TEST(PlainTensorTest, DenseTensorsOfTheHostAreOrdinary) {
  EXPECT_TRUE(IsPlain(at::ones({2})));
  EXPECT_TRUE(IsPlain(at::ones({2, 3}).t().requires_grad_()));
  EXPECT_TRUE(IsPlain(at::ones({2}, at::kComplexFloat).conj()));
  const c10::InferenceMode inference;
  EXPECT_TRUE(IsPlain(at::ones({2})));
}

TEST(PlainTensorTest, OthersAreNot) {
  EXPECT_FALSE(IsPlain(at::ones({2}).to_sparse()));
  EXPECT_FALSE(IsPlain(at::empty({2}, at::kMeta)));
  EXPECT_FALSE(
      IsPlain(at::quantize_per_tensor(at::ones({2}), 0.1, 0, at::kQInt8)));
  if (const auto named = NamedTensor()) {
    EXPECT_FALSE(IsPlain(*named));
  }
}

TEST(PlainTensorTest, VersionsCountWrites) {
  at::Tensor tensor = at::ones({2});
  const uint32_t before = VersionOf(*tensor.unsafeGetTensorImpl());
  tensor.add_(1);
  EXPECT_EQ(VersionOf(*tensor.unsafeGetTensorImpl()), before + 1);
  const c10::InferenceMode inference;
  EXPECT_EQ(VersionOf(*at::ones({2}).add_(1).unsafeGetTensorImpl()), 0u);
}

TEST(PlainTensorTest, NumbersThatAreSlotsHaveTypes) {
  EXPECT_EQ(NumberTypeOf(at::kDouble), engine::NumberType::kFloat64);
  EXPECT_EQ(NumberTypeOf(at::kFloat), engine::NumberType::kFloat32);
  EXPECT_EQ(NumberTypeOf(at::kHalf), engine::NumberType::kFloat16);
  EXPECT_EQ(NumberTypeOf(at::kBFloat16), engine::NumberType::kBFloat16);
  EXPECT_EQ(NumberTypeOf(at::kLong), engine::NumberType::kInt64);
  EXPECT_EQ(NumberTypeOf(at::kInt), engine::NumberType::kInt32);
  EXPECT_EQ(NumberTypeOf(at::kBool), std::nullopt);
  EXPECT_EQ(NumberTypeOf(at::kComplexFloat), std::nullopt);
}

TEST(PlainTensorTest, CopiesAreContiguousAndOfTheElementsAlone) {
  const at::Tensor whole = at::randn({4, 5, 6});
  for (const at::Tensor& tensor :
       {whole, whole.transpose(0, 2), whole.narrow(1, 2, 2),
        whole.slice(2, 0, 6, 2), whole[1][2][3], whole.narrow(0, 0, 0),
        whole[0].expand({3, 5, 6})}) {
    const at::Tensor copy = CopyHostTensor(*tensor.unsafeGetTensorImpl());
    EXPECT_TRUE(copy.equal(tensor)) << tensor.sizes();
    EXPECT_TRUE(copy.is_contiguous());
    EXPECT_FALSE(copy.is_alias_of(tensor));
    EXPECT_EQ(copy.storage().nbytes(), tensor.nbytes());
  }
}

TEST(PlainTensorTest, CopiesAreConjugatedAndNegatedAsTheirOriginalIs) {
  const at::Tensor complex = at::randn({3}, at::kComplexFloat);
  for (const at::Tensor& tensor : {complex.conj(), at::imag(complex.conj())}) {
    const at::Tensor copy = CopyHostTensor(*tensor.unsafeGetTensorImpl());
    EXPECT_EQ(copy.is_conj(), tensor.is_conj());
    EXPECT_EQ(copy.is_neg(), tensor.is_neg());
    EXPECT_TRUE(copy.equal(tensor));
  }
}

TEST(PlainTensorTest, MadeTensorsLieAsTheyAreToldTo) {
  const at::Tensor complex = at::randn({4, 6}, at::kComplexFloat);
  for (const at::Tensor& like : {complex, complex.slice(1, 2, 5).t(),
                                 complex.conj(), at::imag(complex.conj())}) {
    const at::Tensor made =
        MakeTensor(like.storage(), c10::DispatchKey::CPU,
                   {.keys = like.key_set(),
                    .dtype = like.scalar_type(),
                    .storage_offset = like.storage_offset(),
                    .sizes = {like.sizes().data(), like.sizes().size()},
                    .strides = {like.strides().data(), like.strides().size()}});
    EXPECT_EQ(made.key_set(), like.key_set());
    EXPECT_EQ(made.strides(), like.strides());
    EXPECT_TRUE(made.is_alias_of(like));
    EXPECT_TRUE(made.equal(like));
  }
}

TEST(PlainTensorTest, MadeTensorsAreOfTheThreadsMode) {
  const at::Tensor like = at::ones({2});
  const auto make = [&like] {
    const std::vector<int64_t> sizes = {2}, strides = {1};
    return MakeTensor(
        like.storage(), c10::DispatchKey::CPU,
        {.keys = {}, .dtype = at::kFloat, .sizes = sizes, .strides = strides});
  };
  EXPECT_FALSE(make().is_inference());
  const c10::InferenceMode inference;
  EXPECT_TRUE(make().is_inference());
}

}  // namespace
}  // namespace reprise::bindings
