// What sessions are shown of an op's results, and what cannot be shown.

#include "bindings/torch/hook/results.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/torch/hook/encode.h"
#include "bindings/torch/runtime/op_policy.h"
#include "bindings/torch/runtime/torch_frontend.h"

namespace reprise::bindings {
namespace {

using engine::ResultView;
using scheduler::DeviceKind;
using Kind = ResultView::Kind;

class ResultsTest : public ::testing::Test {
 protected:
  // Of a call that is given these.
  std::unique_ptr<OpCall> Call(DeviceKind kind,
                               const std::vector<at::Tensor>& operands = {}) {
    auto call = std::make_unique<OpCall>(info_, kind);
    call->NextArgument();
    Encode(*call, at::TensorList(operands));
    call->Finish();
    return call;
  }
  // Those of a call of that kind of device that returns the value.
  template <typename T>
  std::vector<ResultView> Views(const T& value, DeviceKind kind) {
    const auto call = Call(kind);
    ResultList list(*call);
    list.Add(value);
    EXPECT_TRUE(list.describable());
    return {list.views().begin(), list.views().end()};
  }
  template <typename T>
  bool Describable(const T& value, DeviceKind kind = DeviceKind::kHost) {
    const auto call = Call(kind);
    ResultList list(*call);
    list.Add(value);
    return list.describable();
  }
  static std::vector<Kind> KindsOf(const ResultList& list) {
    std::vector<Kind> kinds;
    for (const ResultView& view : list.views()) kinds.push_back(view.kind);
    return kinds;
  }

  const OpInfo info_ = DescribeOp(
      c10::Dispatcher::singleton().findSchemaOrThrow("aten::cat", ""),
      /*factory=*/false);
};

TEST_F(ResultsTest, ATensorIsShownAsItLies) {
  const at::Tensor tensor = at::randn({6, 4}, at::kDouble).slice(0, 1, 4).t();
  tensor.add_(1);
  const auto views = Views(tensor, DeviceKind::kHost);
  ASSERT_EQ(views.size(), 1u);
  const ResultView& view = views[0];
  EXPECT_EQ(view.kind, Kind::kTensor);
  EXPECT_EQ(view.operand, -1);
  EXPECT_EQ(view.storage, TokenOf(*tensor.storage().unsafeGetStorageImpl()));
  EXPECT_EQ(view.base, reinterpret_cast<uint64_t>(tensor.storage().data()));
  EXPECT_EQ(view.element_bytes, 8u);
  EXPECT_EQ(view.offset_bytes, 32u);
  EXPECT_EQ(view.storage_bytes, 6u * 4u * 8u);
  EXPECT_EQ(view.key_set, tensor.key_set().raw_repr());
  EXPECT_EQ(view.dtype, static_cast<int32_t>(at::kDouble));
  EXPECT_EQ(view.version, tensor._version());
  EXPECT_EQ(std::vector<int64_t>(view.sizes.begin(), view.sizes.end()),
            tensor.sizes().vec());
  EXPECT_EQ(std::vector<int64_t>(view.strides.begin(), view.strides.end()),
            tensor.strides().vec());
}

TEST_F(ResultsTest, AnOperandIsKnownByItsObject) {
  const at::Tensor a = at::ones({2});
  const at::Tensor b = at::ones({2});
  const auto call = Call(DeviceKind::kHost, {a, b});
  ResultList list(*call);
  list.Add(b);
  list.Add(b.view({2}));
  list.Add(a);
  ASSERT_EQ(list.views().size(), 3u);
  EXPECT_EQ(list.views()[0].operand, 1);
  EXPECT_EQ(list.views()[1].operand, -1);
  EXPECT_EQ(list.views()[2].operand, 0);
}

TEST_F(ResultsTest, AListWithinATupleIsPrecededByItsLength) {
  const std::vector<at::Tensor> tensors = {at::ones({1}), at::Tensor()};
  const auto call = Call(DeviceKind::kHost);
  ResultList alone(*call);
  alone.Add(tensors);
  EXPECT_EQ(KindsOf(alone), (std::vector{Kind::kTensor, Kind::kUndefined}));
  ResultList within(*call);
  within.Add(std::tuple(tensors, int64_t{7}));
  EXPECT_EQ(KindsOf(within), (std::vector{Kind::kHost, Kind::kTensor,
                                          Kind::kUndefined, Kind::kHost}));
  const auto number = [&within](size_t i) {
    return static_cast<const c10::IValue*>(within.views()[i].host.get())
        ->toInt();
  };
  EXPECT_EQ(number(0), 2);
  EXPECT_EQ(number(3), 7);
}

TEST_F(ResultsTest, BoxedResultsAreShownAsOthersAre) {
  const at::Tensor tensor = at::ones({1});
  const std::vector<at::Tensor> tensors = {tensor, tensor};
  const auto call = Call(DeviceKind::kHost);
  ResultList boxed(*call);
  boxed.AddBoxed(c10::List<at::Tensor>(tensors), /*alone=*/false);
  boxed.AddBoxed(tensor, /*alone=*/false);
  boxed.AddBoxed(3, /*alone=*/false);
  boxed.AddBoxed(true, /*alone=*/false);
  EXPECT_TRUE(boxed.describable());
  ResultList plain(*call);
  plain.Add(std::tuple(tensors, tensor, int64_t{3}, true));
  EXPECT_EQ(KindsOf(boxed), KindsOf(plain));
  for (size_t i = 0; i < plain.views().size(); ++i) {
    EXPECT_EQ(boxed.views()[i].host_hash, plain.views()[i].host_hash) << i;
    EXPECT_EQ(boxed.views()[i].storage, plain.views()[i].storage) << i;
  }
  ResultList alone(*call);
  alone.AddBoxed(c10::List<at::Tensor>(tensors), /*alone=*/true);
  EXPECT_EQ(KindsOf(alone), (std::vector{Kind::kTensor, Kind::kTensor}));
  ResultList text(*call);
  text.AddBoxed("a string", /*alone=*/false);
  EXPECT_FALSE(text.describable());
}

TEST_F(ResultsTest, WhatTracesCannotHoldIsNotDescribable) {
  EXPECT_TRUE(Describable(at::ones({2})));
  EXPECT_TRUE(Describable(c10::SymInt(3)));
  EXPECT_FALSE(Describable(at::Scalar(1.5)));
  EXPECT_FALSE(Describable(at::ones({2}).to_sparse()));
  EXPECT_FALSE(Describable(at::empty({2}, at::kMeta)));
  at::Tensor number = at::ones({});
  number.unsafeGetTensorImpl()->set_wrapped_number(true);
  EXPECT_FALSE(Describable(number));
  // Of one result, of all.
  EXPECT_FALSE(Describable(std::tuple(at::ones({2}), at::Scalar(1))));
}

TEST_F(ResultsTest, NumbersOfTwoRecordingsAgreeByTheirHash) {
  const auto hash = [this](int64_t number) {
    return Views(number, DeviceKind::kHost)[0].host_hash;
  };
  EXPECT_EQ(hash(7), hash(7));
  EXPECT_NE(hash(7), hash(8));
}

// While a GPU is served its results alone are memory of the session.
TEST_F(ResultsTest, TensorsOfTheHostAreKeptByValue) {
  at::Tensor tensor = at::arange(6).view({2, 3}).t();
  const auto views = Views(tensor, DeviceKind::kCuda);
  ASSERT_EQ(views.size(), 1u);
  EXPECT_EQ(views[0].kind, Kind::kHost);
  EXPECT_FALSE(views[0].host_integer.has_value());
  const at::Tensor before = tensor.clone();
  tensor.fill_(0);
  const auto& kept =
      static_cast<const c10::IValue*>(views[0].host.get())->toTensor();
  EXPECT_TRUE(kept.equal(before)) << "it is a copy";
}

TEST_F(ResultsTest, TensorsOfTheHostAgreeByFormAndContent) {
  const auto hash = [this](const at::Tensor& tensor) {
    return Views(tensor, DeviceKind::kCuda)[0].host_hash;
  };
  const uint64_t one = hash(at::ones({2, 3}));
  EXPECT_EQ(hash(at::ones({2, 3})), one);
  EXPECT_EQ(hash(at::ones({3, 2}).t()), one) << "strides are nothing";
  EXPECT_NE(hash(at::ones({3, 2})), one);
  EXPECT_NE(hash(at::full({2, 3}, 2)), one);
  EXPECT_NE(hash(at::zeros({2, 3}, at::kInt)), hash(at::zeros({2, 3})));
  EXPECT_NE(hash(at::zeros({2, 3})), hash(at::zeros({2, 3}).neg()));
}

TEST_F(ResultsTest, AnIntegerOfTheHostIsTold) {
  EXPECT_EQ(
      Views(at::full({}, 9, at::kLong), DeviceKind::kCuda)[0].host_integer, 9);
  EXPECT_EQ(Views(at::full({}, 9, at::kInt), DeviceKind::kCuda)[0].host_integer,
            std::nullopt);
}

TEST_F(ResultsTest, MuchDataOfTheHostIsNotForeseen) {
  EXPECT_TRUE(Describable(at::ones({64}), DeviceKind::kCuda));
  EXPECT_FALSE(Describable(at::ones({65}), DeviceKind::kCuda));
  EXPECT_TRUE(Describable(at::ones({65}), DeviceKind::kHost));
}

TEST_F(ResultsTest, ReferencesAreNoResults) {
  EXPECT_TRUE(ReturnsReferences<at::Tensor&>::value);
  EXPECT_FALSE(ReturnsReferences<at::Tensor>::value);
  using Two = std::tuple<at::Tensor&, at::Tensor&>;
  EXPECT_TRUE(ReturnsReferences<Two>::value);
  using Mixed = std::tuple<at::Tensor&, at::Tensor>;
  EXPECT_FALSE(ReturnsReferences<Mixed>::value);
}

}  // namespace
}  // namespace reprise::bindings
