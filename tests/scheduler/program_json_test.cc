// Proves that what a plan is made of is told as it is: its ops in order, what
// they use and make, where it is cut, and what waits for the program.

#include "scheduler/program_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/scheduler/twin_programs.h"

namespace reprise::scheduler {
namespace {

using nlohmann::json;
using testing::SizeIs;

class ProgramJsonTest : public TwinPrograms {
 protected:
  // h = x + w, scaled; then it is mixed into what the program keeps.
  void Step(int i) {
    Both([&](Side& side) {
      const sim::ModelTensor x = side.program->Make(static_cast<float>(i), 64);
      sim::ModelTensor h = side.program->Add(x, side.weights[0]);
      for (int k = 0; k < 3; ++k) h = side.program->Scale(h, 1.5f);
      side.program->Mix(side.weights[1], h);
      h = side.program->Add(h, side.weights[1]);
      side.program->Read(h);
      return Held{h, side.weights[1]};
    });
  }
  std::string SignatureOfThePlan() {
    std::string signature;
    session_->Inspect([&](const Journal&, const auto& entries, const auto&) {
      for (const TraceEntry* entry : entries) {
        if (entry->has_plan()) signature = entry->signature.ToHex();
      }
    });
    return signature;
  }
};

TEST_F(ProgramJsonTest, TellsOpsValuesAndSegments) {
  for (int i = 0; i < 12; ++i) Step(i);
  ASSERT_GT(stats().replays, 0u) << Traces();
  const std::string signature = SignatureOfThePlan();
  const auto program = session_->FindProgram(signature);
  ASSERT_NE(program, nullptr);
  const json plan = json::parse(ProgramJson(*program));
  EXPECT_EQ(plan["signature"], signature);

  const json& ops = plan["ops"];
  ASSERT_THAT(ops, SizeIs(6));
  EXPECT_EQ(ops[0]["name"], "model::add");
  EXPECT_EQ(ops[1]["name"], "model::scale");
  EXPECT_EQ(ops[4]["name"], "model::mix_");
  EXPECT_EQ(ops[1]["lane"], 0);
  EXPECT_EQ(ops[1]["results"][0]["sizes"], json::array({64}));
  // What one makes the next one uses.
  const auto made = [&ops](size_t op) {
    return ops[op]["results"][0]["value"];
  };
  EXPECT_EQ(ops[1]["operands"][0]["value"], made(0));
  EXPECT_EQ(ops[2]["operands"][0]["value"], made(1));
  EXPECT_EQ(ops[5]["operands"][0]["value"], made(3));

  // The weight that is mixed into is the program's, and small enough for a
  // copy, or waits for it.
  const json& mixed = ops[4]["operands"][0];
  EXPECT_EQ(mixed["written"], true);
  EXPECT_EQ(ops[0]["operands"][0]["written"], false);
  const json& weight = plan["values"][mixed["value"].get<size_t>()];
  EXPECT_EQ(weight["external"], true);
  EXPECT_TRUE(weight["private"].get<bool>() ||
              ops[4]["gate"] == "writes the program's memory");
  // It is another one at each pass, which the head tells.
  const json& x = plan["values"][ops[0]["operands"][0]["value"].get<size_t>()];
  EXPECT_EQ(x["external"], true);
  EXPECT_EQ(x["input"], true);
  EXPECT_EQ(x["late"], false);
  EXPECT_EQ(x["bytes"], 64 * sizeof(float));
  EXPECT_EQ(plan["values"][made(0).get<size_t>()]["external"], false);
  EXPECT_EQ(plan["values"][made(0).get<size_t>()]["lives_on"], false);
  EXPECT_EQ(plan["values"][made(5).get<size_t>()]["lives_on"], true);

  // Segments lie end to end.
  size_t next = 0;
  for (const json& segment : plan["segments"]) {
    EXPECT_EQ(segment["first_op"], next);
    next = segment["end_op"].get<size_t>();
    EXPECT_GT(next, segment["first_op"].get<size_t>());
  }
  EXPECT_EQ(next, ops.size());
}

TEST_F(ProgramJsonTest, ThereIsOneOnlyWhileThereIsAPlan) {
  EXPECT_EQ(session_->FindProgram("00"), nullptr);
  for (int i = 0; i < 12; ++i) Step(i);
  const std::string signature = SignatureOfThePlan();
  EXPECT_NE(session_->FindProgram(signature), nullptr);
  EXPECT_EQ(session_->FindProgram(signature.substr(1)), nullptr);
  session_->Reset();
  EXPECT_EQ(session_->FindProgram(signature), nullptr);
}

}  // namespace
}  // namespace reprise::scheduler
