// A recorded stream is read, and plays through a session with eager's bits.

#include "tests/sim/recorded_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <sstream>
#include <string>
#include <utility>

#include "engine/base/task.h"
#include "scheduler/journal.h"
#include "scheduler/stream_session.h"
#include "tests/engine/base/manual_task_runner.h"
#include "tests/scheduler/model_session.h"
#include "tests/sim/stream_player.h"

namespace reprise::sim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

std::string Tensor(int storage, const std::string& dtype = "float32") {
  return "[" + std::to_string(storage) + R"(,0,[2,4],[4,1],")" + dtype +
         R"(","cpu"])";
}

std::string Op(const std::string& name, const std::string& operands,
               const std::string& results, const std::string& more = "") {
  return R"({"op":"aten::)" + name + R"(","in":[)" + operands + R"(],"out":[)" +
         results + "]" + more + "}\n";
}

base::Result<RecordedStream> Read(const std::string& text) {
  std::istringstream lines(text);
  return ReadStream(lines);
}

constexpr char kHeader[] = R"({"format":1,"program":"p","passes":1})"
                           "\n";

// A layer on a weight, an update of it in place, and a look at the loss.
std::string Training(int passes) {
  std::string text = kHeader;
  int made = 10;
  for (int pass = 0; pass < passes; ++pass) {
    text += R"({"pass":)" + std::to_string(pass) + "}\n";
    const int x = made++;
    const int h = made++;
    const int y = made++;
    text += Op("mul.Tensor", Tensor(x) + "," + Tensor(0), Tensor(h));
    text += Op("view", Tensor(h), Tensor(h));
    text += Op("tanh", Tensor(h), Tensor(y));
    text += Op("dropout", Tensor(y), Tensor(made), R"(,"random":true)");
    text += Op("add_.Tensor", Tensor(0) + "," + Tensor(made), Tensor(0),
               R"(,"writes":[0],"rest":{"alpha":"-0.0)" +
                   std::to_string(pass + 10) + R"("})");
    text += Op("sum", Tensor(y), Tensor(made + 1));
    text +=
        Op("_local_scalar_dense", Tensor(made + 1), "", R"(,"reads":"value")");
    made += 2;
  }
  return text;
}

TEST(RecordedStreamTest, OpsStorageAndNumbersAreRead) {
  const base::Result<RecordedStream> read = Read(Training(2));
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(read->program, "p");
  EXPECT_EQ(read->passes, 2u);
  ASSERT_THAT(read->ops, SizeIs(12)) << "a view is not shown";
  const RecordedOp& update = read->ops[3];
  EXPECT_EQ(read->names[update.op], "aten::add_.Tensor");
  EXPECT_THAT(update.written, ElementsAre(0));
  ASSERT_THAT(update.scalars, SizeIs(1));
  EXPECT_EQ(update.words[update.scalars[0].word], update.scalars[0].bits);
  EXPECT_EQ(read->storages[update.operands[0].storage].size_bytes, 32u);
  EXPECT_STREQ(read->ops[5].cut, "the program reads it");
  EXPECT_EQ(read->ops[6].pass, 1u);
  EXPECT_TRUE(read->ops[2].draws);
}

TEST(RecordedStreamTest, EmptyTensorsHaveNoBytes) {
  const auto read =
      Read(std::string(kHeader) + Op("neg", R"([0,0,[0],[1],"float32","cpu"])",
                                     R"([1,0,[0],[1],"float32","cpu"])"));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->storages[0].size_bytes, 0u);
}

TEST(RecordedStreamTest, WhatIsNoLineOfAStreamIsNamed) {
  const std::string lines[] = {
      "{",
      R"({"op":"aten::neg"})",
      R"({"pass":"one"})",
      Op("neg_", Tensor(0), Tensor(0), R"(,"writes":[1])"),
      Op("neg", R"([0,0,[2,4],[4],"float32","cpu"])", Tensor(1)),
      Op("neg", Tensor(0, "float7"), Tensor(1, "float7")),
      R"({"format":2,"program":"p"})",
  };
  for (const std::string& line : lines) {
    const auto read = Read(kHeader + line);
    ASSERT_FALSE(read) << line;
    EXPECT_THAT(read.error().message(), HasSubstr("line 2: "));
  }
}

// A sparse operand has no memory: what is written is the other one.
TEST(RecordedStreamTest, WrittenOperandsAreThoseWithMemory) {
  const auto read = Read(
      kHeader +
      Op("add_.Tensor",
         R"(["torch.sparse_coo",null,[2,4],null,"float32","cpu"],)" + Tensor(0),
         Tensor(0), R"(,"writes":[1])"));
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_THAT(read->ops.at(0).operands, SizeIs(1));
  EXPECT_THAT(read->ops.at(0).written, ElementsAre(0));
}

TEST(RecordedStreamTest, IntegersKeepAllTheirBits) {
  const auto read =
      Read(kHeader + Op("add.Tensor", Tensor(0), Tensor(1),
                        R"(,"rest":{"other":"9223372036854775806"})"));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->ops.at(0).scalars.at(0).bits, uint64_t{9223372036854775806});
}

class StreamPlayerTest : public testing::Test {
 protected:
  // Plays the stream; how many of its ops were followed. From pass
  // `wrong_from` on recorded calls are wrong.
  uint64_t Play(const RecordedStream& stream, size_t wrong_from = ~size_t{0}) {
    auto frontend = std::make_unique<RecordedFrontend>(stream.names);
    RecordedFrontend* const borrowed = frontend.get();
    scheduler::PlanCache plans(size_t{1} << 24);
    base::InPlaceTaskRunner builds;
    scheduler::ModelSession model(&plans, &builds, {}, std::move(frontend));
    scheduler::StreamSession& session = model.session();
    StreamPlayer player(&stream, borrowed, &session);
    do {
      const size_t next = player.position();
      borrowed->runs_wrongly =
          next < stream.ops.size() && stream.ops[next].pass >= wrong_from;
    } while (player.Step());
    (void)session.Interrupt("the stream has ended");
    same_bits_ = player.CompareAll();
    uint64_t followed = 0;
    session.Inspect([&](const scheduler::Journal& journal, const auto&,
                        const auto&) { followed = journal.stats.followed; });
    return followed;
  }

  bool same_bits_ = false;
};

TEST_F(StreamPlayerTest, ALoopIsFollowedWithTheSameBits) {
  const auto read = Read(Training(20));
  ASSERT_TRUE(read);
  EXPECT_GE(Play(*read), 5u * 12);
  EXPECT_TRUE(same_bits_);
}

// With looks of the host, and where the last pass alone tells.
TEST_F(StreamPlayerTest, WrongReplaysAreToldFromEager) {
  const auto read = Read(Training(20));
  ASSERT_TRUE(read);
  for (const size_t wrong_from : {12, 19}) {
    EXPECT_GE(Play(*read, wrong_from), 5u * 12);
    EXPECT_FALSE(same_bits_) << wrong_from;
  }
  RecordedStream uncut = *read;
  for (RecordedOp& op : uncut.ops) op.cut = nullptr;
  EXPECT_GE(Play(uncut, 19), 5u * 12);
  EXPECT_FALSE(same_bits_);
  Play(uncut);
  EXPECT_TRUE(same_bits_);
}

TEST_F(StreamPlayerTest, AStreamWithoutOpsIsPlayed) {
  const auto read = Read(kHeader);
  ASSERT_TRUE(read);
  EXPECT_THAT(read->ops, IsEmpty());
  EXPECT_EQ(Play(*read), 0u);
  EXPECT_TRUE(same_bits_);
}

}  // namespace
}  // namespace reprise::sim
