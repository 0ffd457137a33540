// Operators have ids that stay, and names by them.

#include "bindings/torch/runtime/op_table.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "bindings/torch/runtime/op_policy.h"

namespace reprise::bindings {
namespace {

OpInfo Described(const char* name, const char* overload = "") {
  return DescribeOp(
      c10::Dispatcher::singleton().findSchemaOrThrow(name, overload),
      /*factory=*/false);
}

TEST(OpTableTest, EachOperatorHasAnIdAndANameByIt) {
  const size_t before = HookedOps().size();
  const OpInfo* const add = AddToOpTable(Described("aten::add", "Tensor"));
  const OpInfo* const mm = AddToOpTable(Described("aten::mm"));
  EXPECT_NE(add->id, mm->id);
  EXPECT_EQ(OpName(add->id), "aten::add.Tensor");
  EXPECT_EQ(OpName(mm->id), "aten::mm");
  EXPECT_EQ(HookedOps().size(), before + 2);
}

TEST(OpTableTest, OneThatIsDefinedAnewIsAnotherOne) {
  EXPECT_NE(AddToOpTable(Described("aten::mm"))->id,
            AddToOpTable(Described("aten::mm"))->id);
}

TEST(OpTableTest, WhatNoHookHasShownHasNoName) {
  EXPECT_EQ(OpName(engine::kNoOp), "");
  EXPECT_EQ(OpName(static_cast<engine::OpId>(HookedOps().size())), "");
}

TEST(OpTableTest, WhatIsReturnedNeverMoves) {
  std::vector<std::thread> threads;
  const OpInfo* const first = AddToOpTable(Described("aten::sin"));
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 500; ++i) AddToOpTable(Described("aten::cos"));
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::vector<const OpInfo*> all = HookedOps();
  EXPECT_EQ(all[first->id], first);
  EXPECT_EQ(first->name, "aten::sin");
  for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i]->id, i);
}

}  // namespace
}  // namespace reprise::bindings
