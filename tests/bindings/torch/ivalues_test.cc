// Values of calls, compared bit by bit and gone through.

#include "bindings/torch/base/ivalues.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace reprise::bindings {
namespace {

TEST(IValuesTest, NumbersAreEqualInEveryBit) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(SameBits(0.5, 0.5));
  EXPECT_TRUE(SameBits(nan, nan));
  EXPECT_FALSE(SameBits(nan, -nan));
  EXPECT_FALSE(SameBits(0.0, -0.0));
}

TEST(IValuesTest, ContentIsEqualInEveryBit) {
  const at::Tensor zeros = at::zeros({2});
  EXPECT_TRUE(SameContent(zeros, at::zeros({2})));
  EXPECT_FALSE(SameContent(zeros, -zeros));
  EXPECT_FALSE(SameContent(zeros, at::zeros({3})));
  const at::Tensor nan = at::full({2}, NAN);
  EXPECT_TRUE(SameContent(nan, nan.clone()));
}

TEST(IValuesTest, ValuesAreOfOneKind) {
  const std::vector<c10::IValue> values = {
      c10::IValue(),
      1,
      2,
      1.0,
      0.0,
      -0.0,
      true,
      false,
      std::string("a"),
      std::string("b"),
      c10::complex<double>(1, 0),
      c10::complex<double>(1, -0.0),
      c10::Device(at::kCPU),
      c10::Device(at::kCUDA, 1),
      c10::List<int64_t>({int64_t{1}, int64_t{2}}),
      c10::List<int64_t>({int64_t{1}, int64_t{3}}),
      c10::List<int64_t>({int64_t{1}}),
      c10::List<double>({1.0, 2.0})};
  for (size_t i = 0; i < values.size(); ++i) {
    for (size_t k = 0; k < values.size(); ++k) {
      EXPECT_EQ(SameValue(values[i], values[k]), i == k) << i << " " << k;
    }
  }
  // Equal ones need not be the same object.
  EXPECT_TRUE(SameValue(std::string("ab"), std::string("ab")));
  EXPECT_TRUE(SameValue(c10::List<double>({0.5}), c10::List<double>({0.5})));
}

TEST(IValuesTest, TensorsAreTheSameObjects) {
  const at::Tensor a = at::ones({2});
  EXPECT_TRUE(SameValue(a, a));
  EXPECT_FALSE(SameValue(a, a.clone()));
}

TEST(IValuesTest, TensorsAreFoundInOrderAndInLists) {
  const at::Tensor a = at::ones({1});
  const at::Tensor b = at::ones({2});
  const at::Tensor c = at::ones({3});
  const at::Tensor d = at::ones({4});
  const std::vector<c10::IValue> values = {
      a,
      1,
      c10::List<at::Tensor>({b, at::Tensor()}),
      c10::IValue(),
      c10::List<std::optional<at::Tensor>>({std::nullopt, c}),
      c10::List<int64_t>({int64_t{1}}),
      d};
  std::vector<int64_t> found;
  ForTensors(values, [&](const at::Tensor& tensor) {
    found.push_back(tensor.defined() ? tensor.numel() : 0);
  });
  EXPECT_EQ(found, (std::vector<int64_t>{1, 2, 0, 3, 4}));
}

}  // namespace
}  // namespace reprise::bindings
