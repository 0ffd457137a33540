// What a followed op returns: tensors over memory of the session's, its own
// operands and views of them, and values of the host.

#include "bindings/torch/hook/result_maker.h"

#include <ATen/ATen.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/torch/hook/encode.h"
#include "bindings/torch/hook/results.h"
#include "bindings/torch/runtime/op_policy.h"
#include "bindings/torch/runtime/torch_frontend.h"
#include "engine/replay/ledger.h"
#include "tests/bindings/torch/scripted_session.h"

namespace reprise::bindings {
namespace {

using engine::ResultSpec;
using scheduler::DeviceKind;

constexpr DeviceKind kHost = DeviceKind::kHost;

// Of a tensor like that one, over the value.
ResultSpec Over(engine::ValueId value, const at::Tensor& like) {
  ResultSpec spec;
  spec.kind = ResultSpec::Kind::kValue;
  spec.value = value;
  spec.element_bytes = static_cast<uint32_t>(like.element_size());
  spec.offset_bytes =
      static_cast<uint64_t>(like.storage_offset()) * spec.element_bytes;
  spec.storage_bytes = like.storage().nbytes();
  spec.key_set = like.key_set().raw_repr();
  spec.dtype = static_cast<int32_t>(like.scalar_type());
  spec.sizes = like.sizes().vec();
  spec.strides = like.strides().vec();
  return spec;
}

ResultSpec OfHost(c10::IValue value) {
  ResultSpec spec;
  spec.kind = ResultSpec::Kind::kHost;
  spec.host = KeepHostValue(std::move(value));
  return spec;
}

ResultSpec Operand(uint32_t operand) {
  ResultSpec spec;
  spec.kind = ResultSpec::Kind::kOperand;
  spec.operand = operand;
  return spec;
}

class ResultMakerTest : public ::testing::Test {
 protected:
  ResultMakerTest() {
    session_.block = [this](engine::ValueId value) {
      return ledger_->Lease(value, AddressOf(value));
    };
    for (const at::Tensor& operand : {a_, b_}) {
      call_.NextArgument();
      Encode(call_, operand);
    }
    call_.Finish();
    for (const engine::Operand& operand : call_.operands()) {
      session_.op.operands.push_back(
          {.value =
               kOperands + static_cast<uint32_t>(session_.op.operands.size()),
           .offset_bytes = operand.offset_bytes});
    }
  }
  uint64_t AddressOf(engine::ValueId value) const {
    return reinterpret_cast<uint64_t>(arena_.const_data_ptr()) + 512 * value;
  }
  static uint64_t PlaceOf(const at::Tensor& tensor) {
    return reinterpret_cast<uint64_t>(tensor.storage().data());
  }
  // Makes, without what comes late.
  template <typename R>
  R MakeAll() {
    ResultMaker maker(session_, call_);
    R made = maker.Make<R>();
    EXPECT_TRUE(maker.complete());
    return made;
  }

  static constexpr engine::ValueId kOperands = 100;
  const at::Tensor arena_ = at::zeros({4096}, at::kByte);
  const engine::Ledger::Handle ledger_ = engine::Ledger::Create(
      engine::Block(AddressOf(0), nullptr, [](void*) {}), /*places=*/8);
  // Each lies within its storage.
  const at::Tensor a_ = at::randn({8}).narrow(0, 4, 4);
  const at::Tensor b_ = at::randn({4});
  const OpInfo info_ = DescribeOp(
      c10::Dispatcher::singleton().findSchemaOrThrow("aten::add", "Tensor"),
      /*factory=*/false);
  OpCall call_{info_, kHost};
  ScriptedSession session_;
};

TEST_F(ResultMakerTest, ATensorLiesInTheMemoryOfTheSession) {
  const at::Tensor like = at::empty({6, 4}, at::kDouble).slice(0, 1, 4).t();
  session_.op.results = {Over(2, like)};
  {
    const at::Tensor made = MakeAll<at::Tensor>();
    EXPECT_EQ(PlaceOf(made), AddressOf(2));
    EXPECT_EQ(made.sizes(), like.sizes());
    EXPECT_EQ(made.strides(), like.strides());
    EXPECT_EQ(made.storage_offset(), like.storage_offset());
    EXPECT_EQ(made.scalar_type(), at::kDouble);
    EXPECT_EQ(made.key_set(), like.key_set());
    EXPECT_EQ(made.storage().nbytes(), like.storage().nbytes());
    EXPECT_TRUE(ledger_->leased(2));
  }
  EXPECT_FALSE(ledger_->leased(2)) << "with the tensor its lease ends";
}

TEST_F(ResultMakerTest, ConjugatesAreMadeAsSuch) {
  const at::Tensor like = at::empty({2}, at::kComplexFloat).conj();
  session_.op.results = {Over(0, like)};
  EXPECT_TRUE(MakeAll<at::Tensor>().is_conj());
}

TEST_F(ResultMakerTest, TwoOverOneValueShareItsStorage) {
  session_.op.results = {Over(1, at::empty({4})), Over(2, at::empty({4})),
                         Over(1, at::empty({4}).narrow(0, 2, 2))};
  auto [first, other, second] =
      MakeAll<std::tuple<at::Tensor, at::Tensor, at::Tensor>>();
  EXPECT_EQ(session_.taken, 2u);
  EXPECT_TRUE(first.is_alias_of(second));
  EXPECT_FALSE(first.is_alias_of(other));
  EXPECT_EQ(second.storage_offset(), 2);
  first.reset();
  EXPECT_TRUE(ledger_->leased(1));
  second.reset();
  EXPECT_FALSE(ledger_->leased(1));
}

TEST_F(ResultMakerTest, WhatIsNoLeaseIsOwnedByItsStorage) {
  session_.op.results = {Over(1, at::empty({4})), Over(2, at::empty({4}))};
  session_.block = [this](engine::ValueId value) {
    return value == 1 ? ledger_->Lease(value, AddressOf(value))
                      : engine::Block(AddressOf(value), nullptr, [](void*) {});
  };
  const auto [leased, own] = MakeAll<std::tuple<at::Tensor, at::Tensor>>();
  ASSERT_EQ(session_.owned.size(), 1u);
  EXPECT_EQ(session_.owned[0].first, 2u);
  EXPECT_EQ(session_.owned[0].second,
            TokenOf(*own.storage().unsafeGetStorageImpl()));
}

TEST_F(ResultMakerTest, OperandsComeLate) {
  session_.op.results = {Operand(1), Over(1, at::empty({4})), Operand(0)};
  using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
  const size_t before = a_.use_count();
  ResultMaker maker(session_, call_);
  auto made = maker.Make<Three>();
  EXPECT_FALSE(maker.complete());
  EXPECT_FALSE(std::get<0>(made).defined());
  EXPECT_TRUE(std::get<1>(made).defined());
  EXPECT_EQ(a_.use_count(), before) << "none is referenced under the lock";
  maker.Complete(made);
  EXPECT_TRUE(std::get<0>(made).is_same(b_));
  EXPECT_EQ(PlaceOf(std::get<1>(made)), AddressOf(1));
  EXPECT_TRUE(std::get<2>(made).is_same(a_));
}

// The operand lies elsewhere in its storage than it was recorded.
TEST_F(ResultMakerTest, ViewsOfOperandsMoveWithThem) {
  session_.op.operands[0].offset_bytes = 0;
  session_.op.results = {Over(kOperands, at::empty({8}).narrow(0, 1, 2))};
  ResultMaker maker(session_, call_);
  auto made = maker.Make<at::Tensor>();
  EXPECT_FALSE(made.defined());
  EXPECT_EQ(session_.taken, 0u);
  maker.Complete(made);
  EXPECT_TRUE(made.is_alias_of(a_));
  EXPECT_EQ(made.storage_offset(), 5);
  EXPECT_TRUE(made.equal(a_.narrow(0, 1, 2)));
}

TEST_F(ResultMakerTest, ListsWithinTuplesSayHowLongTheyAre) {
  session_.op.results = {ResultSpec(),
                         OfHost(2),
                         Over(1, at::empty({1})),
                         Over(2, at::empty({2})),
                         OfHost(7),
                         OfHost(true)};
  const auto [none, list, number, flag] =
      MakeAll<std::tuple<at::Tensor, std::vector<at::Tensor>, int64_t, bool>>();
  EXPECT_FALSE(none.defined());
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[1].numel(), 2);
  EXPECT_EQ(number, 7);
  EXPECT_TRUE(flag);
}

TEST_F(ResultMakerTest, AListAloneIsAllThereIs) {
  session_.op.results = {Over(1, at::empty({1})), Operand(0),
                         Over(2, at::empty({2}))};
  ResultMaker maker(session_, call_);
  auto list = maker.Make<std::vector<at::Tensor>>();
  maker.Complete(list);
  ASSERT_EQ(list.size(), 3u);
  EXPECT_EQ(list[0].numel(), 1);
  EXPECT_TRUE(list[1].is_same(a_));
  EXPECT_EQ(list[2].numel(), 2);
}

TEST_F(ResultMakerTest, ValuesOfTheHostAreTheProgramsOwn) {
  session_.op.results = {OfHost(at::ones({2}, at::kLong))};
  const at::Tensor first = MakeAll<at::Tensor>();
  first.fill_(5);
  EXPECT_TRUE(MakeAll<at::Tensor>().equal(at::ones({2}, at::kLong)));
}

TEST_F(ResultMakerTest, SeedsAndOffsetsAreThoseOfToday) {
  session_.op.results = {OfHost(at::full({}, 1, at::kLong)),
                         OfHost(at::full({}, 2, at::kLong)),
                         OfHost(at::full({}, 3, at::kLong))};
  session_.op.results[0].tells = ResultSpec::Tells::kSeed;
  session_.op.results[1].tells = ResultSpec::Tells::kOffset;
  session_.state = {.seed = 42, .offset = 8};
  const auto made = MakeAll<std::vector<at::Tensor>>();
  EXPECT_EQ(made[0].item<int64_t>(), 42);
  EXPECT_EQ(made[1].item<int64_t>(), 8);
  EXPECT_EQ(made[2].item<int64_t>(), 3);
}

TEST_F(ResultMakerTest, VersionsAreEagersWhereWritesAreCounted) {
  session_.op.results = {Over(1, at::empty({1}))};
  session_.op.results[0].version = 3;
  EXPECT_EQ(MakeAll<at::Tensor>()._version(), 3);
  const c10::impl::ExcludeDispatchKeyGuard below(
      c10::DispatchKey::ADInplaceOrView);
  EXPECT_EQ(MakeAll<at::Tensor>()._version(), 0);
}

TEST_F(ResultMakerTest, MoreResultsThanWereRecordedAreAnError) {
  session_.op.results = {Over(1, at::empty({1}))};
  ResultMaker maker(session_, call_);
  EXPECT_EQ(maker.count(), 1u);
  EXPECT_EQ(maker.left(), 1u);
  EXPECT_TRUE(maker.TakeTensor().defined());
  EXPECT_EQ(maker.left(), 0u);
  EXPECT_THROW(maker.TakeTensor(), c10::Error);
}

// Storages of results may grow, as those of torch's own do.
TEST_F(ResultMakerTest, StoragesHaveTorchsAllocator) {
  const c10::Storage storage =
      TakeStorage(session_, Over(3, at::empty({4})), kHost, 0);
  EXPECT_TRUE(storage.resizable());
  EXPECT_NE(storage.allocator(), nullptr);
  EXPECT_EQ(storage.device(), c10::Device(at::kCPU));
  const at::Tensor made = MakeResult(Over(3, at::empty({4})), storage, kHost);
  made.resize_({1024});
  EXPECT_FALSE(ledger_->leased(3)) << "it has moved out";
}

}  // namespace
}  // namespace reprise::bindings
