// States that are taken from random generators, and set again, in tapes.

#include "bindings/torch/region/generator_states.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "bindings/torch/region/tape_run.h"
#include "tests/bindings/torch/recording.h"

namespace reprise::bindings {
namespace {

// Python has done what its observers tell of.
class GeneratorStatesTest : public testing::Test {
 protected:
  static at::Tensor Take(TapeWriter& writer, const at::Generator& generator) {
    const at::Tensor state = at::Tensor(generator.get_state());
    const c10::IValue arguments[] = {generator};
    const c10::IValue results[] = {state};
    writer.NoteState(GeneratorStates::Take(), arguments, results);
    return state;
  }
  static void NoteSet(TapeWriter& writer, const at::Generator& generator,
                      const at::Tensor& state) {
    const c10::IValue arguments[] = {generator, state, /*leaves=*/false};
    writer.NoteState(GeneratorStates::Set(), arguments, {});
  }
  static void Set(TapeWriter& writer, at::Generator generator,
                  const at::Tensor& state) {
    generator.set_state(state);
    NoteSet(writer, generator, state);
  }
  // Why it is no tape; empty: it is one.
  static std::string Refused(const std::function<void(TapeWriter&)>& callable,
                             TapePass pass = TapePass::kWhole) {
    TapeWriter writer({.pass = pass});
    callable(writer);
    const auto outcome =
        writer.End({}, {}, pass == TapePass::kForward ? 0 : SIZE_MAX);
    return outcome.tape == nullptr ? outcome.reason : "";
  }

  const at::NoGradGuard no_grad_;
  at::Generator own_ = at::make_generator<at::CPUGeneratorImpl>(7);
  at::Generator other_ = at::make_generator<at::CPUGeneratorImpl>(8);
};

TEST_F(GeneratorStatesTest, ARunTakesAndSetsAgain) {
  TapeWriter writer({});
  const at::Tensor state = Take(writer, own_);
  (void)at::rand({3}, own_);
  Set(writer, own_, state);
  const auto outcome = writer.End(std::vector{state}, {}, SIZE_MAX);
  ASSERT_NE(outcome.tape, nullptr) << outcome.reason;
  EXPECT_EQ(outcome.tape->calls(), 2u);
  EXPECT_FALSE(outcome.tape->calls_others());
  ASSERT_EQ(outcome.tape->moves().size(), 1u);
  EXPECT_EQ(outcome.tape->moves()[0], own_);
  (void)at::rand({5}, own_);
  const at::Tensor before = at::Tensor(own_.get_state());
  std::vector<at::Tensor> outputs;
  ASSERT_EQ(RunTape(*outcome.tape, {}, outputs), TapeRan::kDone);
  EXPECT_TRUE(outputs[0].equal(before));
  EXPECT_TRUE(at::Tensor(own_.get_state()).equal(before));
}

TEST_F(GeneratorStatesTest, OnlyItsOwnStateOfTheCallIsSet) {
  const char* const reason = SentenceOf(Refusal::kSetsToOther);
  const at::Tensor older = at::Tensor(own_.get_state());
  EXPECT_EQ(Refused([&](TapeWriter& writer) { Set(writer, own_, older); }),
            reason);
  EXPECT_EQ(Refused([&](TapeWriter& writer) {
              Set(writer, other_, Take(writer, own_));
            }),
            reason);
  EXPECT_EQ(Refused([&](TapeWriter& writer) {
              const at::Tensor state = Take(writer, own_);
              Set(writer, own_, state.clone());
            }),
            reason);
}

TEST_F(GeneratorStatesTest, NoStateIsSetThatWasWritten) {
  const auto write =
      c10::Dispatcher::singleton().findSchemaOrThrow("aten::zero_", "");
  EXPECT_EQ(Refused([&](TapeWriter& writer) {
              const at::Tensor state = Take(writer, own_);
              const c10::IValue written = state;
              const size_t call = writer.Before(write, {&written, 1});
              writer.After(call, {&written, 1});
              NoteSet(writer, own_, state);
            }),
            SentenceOf(Refusal::kSetsToOther));
}

TEST_F(GeneratorStatesTest, PassesThatRunAgainSetNone) {
  for (const TapePass pass : {TapePass::kForward, TapePass::kBackward}) {
    EXPECT_EQ(
        Refused(
            [&](TapeWriter& writer) { Set(writer, own_, Take(writer, own_)); },
            pass),
        SentenceOf(Refusal::kSetsInPass));
  }
}

}  // namespace
}  // namespace reprise::bindings
