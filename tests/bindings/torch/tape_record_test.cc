// What a record says of its calls: who makes what, and who uses it last.

#include "bindings/torch/region/tape_record.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace reprise::bindings {
namespace {

TapeArgument Tensor(int32_t reg) {
  TapeArgument argument;
  argument.kind = TapeArgument::Kind::kTensor;
  argument.registers = {reg};
  return argument;
}

// Registers: 0 an input; 1 to 3 one call's result each, of the one before.
class TapeRecordTest : public testing::Test {
 protected:
  TapeRecordTest() {
    record_.registers.resize(4);
    record_.registers[0].origin = TapeRegister::Origin::kInput;
    const auto op =
        c10::Dispatcher::singleton().findSchemaOrThrow("aten::sin", "");
    for (int32_t c = 0; c < 3; ++c) {
      record_.registers[static_cast<size_t>(c) + 1].index =
          static_cast<uint32_t>(c);
      record_.calls.push_back(
          {.op = op, .arguments = {Tensor(c)}, .results = {c + 1}});
    }
    record_.outputs = {3};
  }

  TapeRecord record_;
};

TEST_F(TapeRecordTest, ResultsHaveMakers) {
  EXPECT_EQ(record_.MakerOf(0), nullptr);
  EXPECT_EQ(record_.MakerOf(2), &record_.calls[1]);
}

TEST_F(TapeRecordTest, ARegisterIsDroppedBehindItsLastUse) {
  record_.NoteUses();
  EXPECT_EQ(record_.calls[0].last_uses, std::vector<int32_t>{0});
  EXPECT_EQ(record_.calls[1].last_uses, std::vector<int32_t>{1});
  // The last result is handed out.
  EXPECT_EQ(record_.calls[2].last_uses, std::vector<int32_t>{2});
}

TEST_F(TapeRecordTest, GradientsAreKept) {
  record_.gradients = {{.of = 0, .after = 1}};
  record_.NoteUses();
  EXPECT_TRUE(record_.calls[0].last_uses.empty());
  EXPECT_TRUE(record_.calls[1].last_uses.empty());
}

TEST_F(TapeRecordTest, OnlyWhatIsUsedBehindIsUsedBehind) {
  const TapeRecord::Used used = record_.UsedBehind(0, 2);
  EXPECT_EQ(used.results, std::unordered_set<int32_t>{2});
  EXPECT_TRUE(used.views.empty());
}

TEST_F(TapeRecordTest, AViewIsUsedWithWhatItIsAViewOf) {
  record_.calls[1].views = true;
  const TapeRecord::Used used = record_.UsedBehind(0, 2);
  EXPECT_EQ(used.results, std::unordered_set<int32_t>{1});
  EXPECT_EQ(used.views, std::vector<size_t>{1});
}

TEST_F(TapeRecordTest, BothKindsOfFloatsAreNoted) {
  record_.numbers.NoteComputed({});
  EXPECT_TRUE(record_.numbers.with_plain_floats);
  EXPECT_FALSE(record_.numbers.with_noting_floats);
  record_.numbers.NoteComputed({true, false});
  record_.numbers.NoteComputed({false, false});
  EXPECT_TRUE(record_.numbers.with_noting_floats);
  EXPECT_EQ(record_.numbers.computed, (std::vector<bool>{true, false}));
}

TEST_F(TapeRecordTest, GradientsThatAreThereBeforeAreRead) {
  EXPECT_FALSE(record_.ReadsGradients());
  record_.registers[1].origin = TapeRegister::Origin::kGradient;
  EXPECT_TRUE(record_.ReadsGradients());
}

TEST_F(TapeRecordTest, WhatAnotherRecordingHasShownHolds) {
  record_.numbers.decides = {true, true, false};
  TapeRecord other;
  other.numbers.decides = {true, false, true};
  other.placement.fixed_offsets = true;
  record_.Join(std::move(other));
  EXPECT_EQ(record_.numbers.decides, (std::vector<bool>{true, false, false}));
  EXPECT_TRUE(record_.placement.fixed_offsets);
  EXPECT_FALSE(record_.placement.fixed_distances);
}

TEST_F(TapeRecordTest, ANameThatWasClearOnceStaysSo) {
  record_.registers[1] = record_.registers[0];
  record_.registers[1].index = 1;
  TapeRecord other = record_;
  other.NoteAlias(0, 1);
  other.NoteAlias(0, 2);  // a view
  EXPECT_EQ(other.placement.in_one_place.size(), 1u);
  EXPECT_TRUE(other.placement.fixed_distances);

  TapeRecord apart = record_;
  apart.registers[1].form.storage_offset = 4;
  apart.registers[2].form.storage_offset = 8;
  EXPECT_TRUE(apart.LieApart(0, 1));
  apart.Join(TapeRecord(other));
  EXPECT_TRUE(apart.placement.in_one_place.empty());
  EXPECT_FALSE(apart.placement.fixed_distances);

  EXPECT_FALSE(record_.LieApart(0, 1));
  record_.Join(std::move(other));
  EXPECT_EQ(record_.placement.in_one_place.size(), 1u);
  EXPECT_TRUE(record_.placement.fixed_distances);
}

}  // namespace
}  // namespace reprise::bindings
