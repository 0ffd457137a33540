// What calls change that stays: memory from outside, the random generator.

#include "bindings/torch/region/tape_effects.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace reprise::bindings {
namespace {

using Values = std::vector<c10::IValue>;

class TapeEffectsTest : public testing::Test {
 protected:
  // A call on that tensor, and what else it is given.
  size_t Call(const char* name, const char* overload, const at::Tensor& self,
              const Values& others = {}) {
    Values arguments = {self};
    arguments.insert(arguments.end(), others.begin(), others.end());
    TapeCall& call = record_.calls.emplace_back(TapeCall{
        .op = c10::Dispatcher::singleton().findSchemaOrThrow(name, overload)});
    call.arguments.resize(arguments.size());
    call.arguments[0].kind = TapeArgument::Kind::kTensor;
    call.arguments[0].registers = {names_.RegisterOf(self)};
    effects_.Note(record_.calls.size() - 1, arguments);
    return record_.calls.size() - 1;
  }

  TapeRecord record_;
  TapeFault fault_;
  LeafGradients gradients_;
  WatchedBefore watched_;
  TapeNames names_{record_, fault_, gradients_, watched_};
  TapeEffects effects_{record_, names_};
  const at::Tensor x_ = at::randn({3});
};

TEST_F(TapeEffectsTest, ReadsHaveNone) {
  Call("aten::sin", "", x_);
  EXPECT_TRUE(effects_.none());
  EXPECT_FALSE(effects_.draws());
  EXPECT_EQ(record_.first_effect, SIZE_MAX);
}

TEST_F(TapeEffectsTest, WritesOfResultsHaveNone) {
  const at::Tensor made = x_ + 1;
  names_.AddResult(made, 0);
  Call("aten::sin_", "", made);
  EXPECT_TRUE(effects_.none());
  EXPECT_FALSE(effects_.WritesTo(made.storage().unsafeGetStorageImpl()));
}

TEST_F(TapeEffectsTest, TheFirstWriteOutsideIsNoted) {
  Call("aten::sin", "", x_);
  const size_t first = Call("aten::sin_", "", x_);
  Call("aten::sin_", "", x_);
  EXPECT_FALSE(effects_.none());
  EXPECT_EQ(record_.first_effect, first);
  EXPECT_TRUE(effects_.WritesTo(x_.storage().unsafeGetStorageImpl()));
}

TEST_F(TapeEffectsTest, WhatIsDrawnDoesNotStay) {
  Call("aten::bernoulli", "", x_, {c10::IValue()});
  EXPECT_TRUE(effects_.draws());
  EXPECT_TRUE(effects_.none());
  EXPECT_EQ(record_.first_effect, SIZE_MAX);
}

TEST_F(TapeEffectsTest, WhatALibraryDrawsByItselfStays) {
  Call("aten::_cudnn_init_dropout_state", "", x_);
  EXPECT_FALSE(effects_.none());
  EXPECT_EQ(record_.first_effect, 0u);
}

TEST_F(TapeEffectsTest, HooksOfTheProgramAreEffects) {
  effects_.NoteHooks(2);
  EXPECT_FALSE(effects_.none());
  EXPECT_FALSE(effects_.writes_outside());
  EXPECT_EQ(record_.first_effect, 2u);
}

TEST_F(TapeEffectsTest, FunctionsOfTheProgramAreEffects) {
  effects_.NotePython(3);
  EXPECT_TRUE(effects_.calls_python());
  EXPECT_TRUE(effects_.draws()) << "it may";
  EXPECT_FALSE(effects_.none());
  EXPECT_EQ(record_.first_effect, 3u);
}

}  // namespace
}  // namespace reprise::bindings
