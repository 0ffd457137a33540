// Tensors as they come in calls, and the registers that stand for them.

#include "bindings/torch/region/tape_names.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <gtest/gtest.h>

#include <vector>

namespace reprise::bindings {
namespace {

using Origin = TapeRegister::Origin;

class TapeNamesTest : public testing::Test {
 protected:
  const TapeRegister& At(int32_t reg) {
    return record_.registers.at(static_cast<size_t>(reg));
  }

  // Of `fill_` on that tensor.
  bool Writes(const at::Tensor& tensor) {
    const auto op =
        c10::Dispatcher::singleton().findSchemaOrThrow("aten::fill_", "Scalar");
    const std::vector<c10::IValue> arguments = {tensor, at::Scalar(1)};
    return names_.NoteWrites(op, arguments);
  }

  TapeRecord record_;
  TapeFault fault_;
  LeafGradients gradients_;
  WatchedBefore watched_;
  TapeNames names_{record_, fault_, gradients_, watched_};
  const at::Tensor x_ = at::randn({4, 3});
};

TEST_F(TapeNamesTest, EachTensorHasOneRegister) {
  EXPECT_TRUE(names_.IsNew(x_));
  const int32_t input = names_.AddInput(x_, 0);
  EXPECT_EQ(names_.AddInput(x_, 1), input);
  EXPECT_EQ(names_.RegisterOf(x_), input);
  EXPECT_EQ(At(input).origin, Origin::kInput);
  EXPECT_FALSE(names_.IsNew(x_));
  EXPECT_EQ(names_.RegisterOf(at::Tensor()), TapeArgument::kUndefined);
}

TEST_F(TapeNamesTest, WhatNobodyHasMadeIsFromOutside) {
  const at::Tensor made = x_ + 1;
  const int32_t input = names_.AddInput(x_, 0);
  const int32_t result = names_.AddResult(made, 7);
  const at::Tensor weight = at::randn({3});
  const int32_t foreign = names_.RegisterOf(weight);
  EXPECT_EQ(At(result).origin, Origin::kResult);
  EXPECT_EQ(At(result).index, 7u);
  EXPECT_EQ(At(foreign).origin, Origin::kForeign);
  EXPECT_TRUE(At(foreign).content.defined()) << "a small one of the host";
  EXPECT_TRUE(names_.IsOutside(input));
  EXPECT_TRUE(names_.IsOutside(foreign));
  EXPECT_FALSE(names_.IsOutside(result));
  EXPECT_TRUE(names_.WasMade(names_.StorageOf(result)));
  EXPECT_FALSE(names_.WasMade(names_.StorageOf(input)));
}

TEST_F(TapeNamesTest, DataOfATensorStandsForIt) {
  const int32_t input = names_.AddInput(x_, 0);
  const at::Tensor data = x_.detach();
  EXPECT_TRUE(names_.IsDataOfOutside(data));
  EXPECT_EQ(names_.RegisterOf(data), input);
  EXPECT_TRUE(names_.IsDataOfOutside(data)) << "though it is known now";
  EXPECT_FALSE(names_.IsDataOfOutside(x_));
  names_.CheckAliases(std::vector<at::Tensor>{data});
  EXPECT_FALSE(fault_.refused()) << "it is handed out";
  names_.CheckAliases({});
  EXPECT_EQ(fault_.reason(), SentenceOf(Refusal::kOutsideInOnePlace));
}

TEST_F(TapeNamesTest, AGradientIsNamedByItsLeaf) {
  at::Tensor leaf = at::zeros({3}).requires_grad_();
  leaf.mutable_grad() = at::ones({3});
  gradients_.Add(leaf);
  const int32_t gradient = names_.RegisterOf(leaf.grad());
  EXPECT_EQ(At(gradient).origin, Origin::kGradient);
  EXPECT_EQ(static_cast<int32_t>(At(gradient).index), names_.RegisterOf(leaf));
}

TEST_F(TapeNamesTest, OtherMemoryIsRefused) {
  at::Tensor x = at::randn({3});
  names_.AddInput(x, 0);
  x.set_data(at::randn({3}));
  names_.RegisterOf(x);
  EXPECT_EQ(fault_.reason(), SentenceOf(Refusal::kOtherMemory));
}

TEST_F(TapeNamesTest, ResultsThatAreTurnedStayWhatTheyAre) {
  at::Tensor made = at::randn({4, 3});
  const int32_t reg = names_.AddResult(made, 0);
  made.transpose_(0, 1);
  EXPECT_EQ(names_.AddResult(made, 1), reg);
  EXPECT_EQ(names_.RegisterOf(made), reg);
  EXPECT_FALSE(fault_.refused()) << fault_.reason();
}

TEST_F(TapeNamesTest, SparseTensorsAreRefused) {
  const at::Tensor sparse = at::eye(3).to_sparse();
  EXPECT_EQ(names_.RegisterOf(sparse), TapeArgument::kUndefined);
  EXPECT_EQ(fault_.reason(), SentenceOf(Refusal::kNotOrdinaryUsed));
}

TEST_F(TapeNamesTest, AHistoryThatNoCallGaveIsRefusedAboveAutograd) {
  record_.level = TapeLevel::kAboveAutograd;
  at::Tensor made = at::randn({3});
  names_.AddResult(made, 0);
  made.requires_grad_();
  names_.RegisterOf(made);
  EXPECT_EQ(fault_.reason(), SentenceOf(Refusal::kOtherHistory));
}

TEST_F(TapeNamesTest, WhatTheHostWritesIsAConstant) {
  const at::Tensor empty = at::empty({3});
  const int32_t result = names_.AddResult(empty, 0);
  names_.NoteUnwritten(empty);
  empty.fill_(2);  // unseen
  const int32_t constant = names_.RegisterOf(empty);
  EXPECT_NE(constant, result);
  EXPECT_TRUE(At(constant).content.defined());

  const at::Tensor other = at::empty({3});
  const int32_t written = names_.AddResult(other, 1);
  names_.NoteUnwritten(other);
  EXPECT_FALSE(Writes(other));  // by a call
  EXPECT_EQ(names_.RegisterOf(other), written);
}

TEST_F(TapeNamesTest, WhatIsLookedAtForItsFormIsUnread) {
  const at::Tensor host = at::empty({2});
  names_.AddResult(host, 0);
  names_.NoteUnwritten(host);
  const int32_t constant = names_.RegisterOf(host, TapeNames::LookAt::kForm);
  EXPECT_EQ(At(constant).origin, Origin::kForeign);
  EXPECT_TRUE(At(constant).unread);
  const at::Tensor view = host.view({2, 1});
  names_.AddResult(view, 1);
  names_.RegisterOf(view, TapeNames::LookAt::kForm);
  EXPECT_TRUE(At(constant).unread);
  host.mutable_data_ptr<float>()[0] = 3;
  names_.RegisterOf(view);
  EXPECT_FALSE(At(constant).unread);
  EXPECT_EQ(At(constant).content[0].item<float>(), 3);
}

TEST_F(TapeNamesTest, WritesByDataAreToldFromOthers) {
  names_.AddInput(x_, 0);
  const at::Tensor data = x_.variable_data();
  names_.RegisterOf(data);
  EXPECT_FALSE(Writes(x_));
  EXPECT_TRUE(Writes(data));
  EXPECT_FALSE(fault_.refused());
}

TEST_F(TapeNamesTest, WritesByViewsOfDataAreRefused) {
  names_.AddInput(x_, 0);
  const at::Tensor data = x_.variable_data();
  names_.RegisterOf(data);
  const at::Tensor row = data.select(0, 0);
  names_.AddResult(row, 0);
  EXPECT_FALSE(Writes(row));
  names_.CheckDataWrites();
  EXPECT_TRUE(fault_.refused());
}

// `detach` has the count of writes of what it is of, or another one's.
TEST_F(TapeNamesTest, WritesByDataWithACountOfOthersAreRefused) {
  names_.AddInput(x_, 0);
  const at::Tensor data = x_.detach();
  names_.RegisterOf(data);
  EXPECT_FALSE(Writes(data));
  names_.CheckDataWrites();
  EXPECT_TRUE(fault_.refused());
}

TEST_F(TapeNamesTest, WhatGoesWithTheCallIsNoLastingTensor) {
  const at::Tensor lasting = at::randn({3});
  const int32_t stays = names_.RegisterOf(lasting);
  const int32_t goes = names_.RegisterOf(at::randn({3}));
  names_.CheckConstants({});
  EXPECT_FALSE(At(stays).content.defined());
  EXPECT_TRUE(At(goes).content.defined());
  EXPECT_FALSE(fault_.refused());

  names_.RegisterOf(at::randn({1 << 16}));  // too large to be compared
  names_.CheckConstants({});
  EXPECT_EQ(fault_.reason(), SentenceOf(Refusal::kNewAtEachCall));
}

TEST_F(TapeNamesTest, AliasesOfSeveralInputsAreNoted) {
  const at::Tensor same = x_.detach();
  names_.AddInput(x_, 0);
  names_.AddInput(same, 1);
  names_.RegisterOf(x_.detach());
  EXPECT_EQ(record_.placement.in_one_place.size(), 1u);
  EXPECT_FALSE(record_.placement.fixed_distances);
}

}  // namespace
}  // namespace reprise::bindings
