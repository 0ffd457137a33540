// What a recording keeps of each op, what it refuses, and that it holds nothing
// of the program's for longer than the trace lives.

#include "engine/trace/trace_recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/trace/open_trace.h"
#include "tests/engine/fake_frontend.h"

namespace reprise::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Hands out what the test says each op enqueued.
class FakeWorkRecorder : public WorkRecorder {
 public:
  base::Status StartRecording(Recording which, uint64_t bytes) override {
    if (start_fails) {
      return base::Fail(base::Code::kUnavailable, "told to fail");
    }
    recordings.push_back(which);
    pass_bytes = bytes;
    ++recording;
    return {};
  }
  void StopRecording() override {
    --recording;
    ++stops;
  }
  base::Status BeginOp(const OpView&) override {
    ++open_ops;
    return {};
  }
  std::string EndOp(TracedOp& op) override {
    --open_ops;
    op.launches.resize(launches);
    op.temporaries = std::exchange(temporaries, {});
    return refusal;
  }
  bool wants_call() const override { return calls; }
  bool sees_memory() const override { return memory; }
  bool Capturing() const override { return false; }

  bool start_fails = false;
  bool calls = true;
  bool memory = false;  // addresses are real
  std::vector<Recording> recordings;
  uint64_t pass_bytes = 0;
  int recording = 0;
  int stops = 0;
  int open_ops = 0;
  size_t launches = 1;
  std::vector<Allocation> temporaries;
  std::string refusal;
};

constexpr int64_t kSizes[] = {4, 8};
constexpr int64_t kStrides[] = {8, 1};

class TraceRecorderTest : public testing::Test {
 protected:
  ~TraceRecorderTest() override {
    recorder_.reset();
    EXPECT_THAT(frontend_.references, IsEmpty());
    EXPECT_EQ(work_.recording, 0);
  }

  void Start(
      WorkRecorder::Recording recording = WorkRecorder::Recording::kFirst) {
    auto recorder = TraceRecorder::Start(&frontend_, &work_, recording, {});
    ASSERT_TRUE(recorder) << recorder.error().message();
    recorder_ = *std::move(recorder);
  }

  static Operand Tensor(uint64_t token, uint64_t offset_bytes = 0) {
    Operand operand;
    operand.storage = Token(token);
    operand.base = token * 0x1000;
    operand.offset_bytes = offset_bytes;
    operand.storage_bytes = 512;
    operand.element_bytes = 4;
    operand.sizes = kSizes;
    operand.strides = kStrides;
    return operand;
  }

  static ResultView Result(uint64_t token, uint64_t offset_bytes = 0) {
    ResultView result;
    result.kind = ResultView::Kind::kTensor;
    result.storage = Token(token);
    result.base = token * 0x1000;
    result.offset_bytes = offset_bytes;
    result.storage_bytes = 256;
    result.key_set = 77;
    result.dtype = 6;
    result.element_bytes = 4;
    result.sizes = kSizes;
    result.strides = kStrides;
    return result;
  }

  // One op, as the session passes it on; the answer is Leave's.
  std::string Op(const std::vector<Operand>& operands,
                 const std::vector<ResultView>& results,
                 bool by_eager = false) {
    const uint64_t words[] = {7, open_.ops()};
    OpView view;
    view.op = 7;
    view.by_eager = by_eager;
    view.leaves_unwritten = leaves_unwritten_;
    view.words = words;
    view.operands = operands;
    const cache::Signature before = open_.signature();
    const auto refs = open_.Enter(view);
    EXPECT_TRUE(recorder_->Enter(view, cache::HashWords(view.words), before,
                                 refs, open_.values()));
    const auto values = open_.Leave(results, by_eager);
    return recorder_->Leave(view, results, values, open_.values());
  }

  std::unique_ptr<Trace> Finish() {
    return recorder_->Finish(open_.signature());
  }

  // Memory without content, as Tensor(token) lies in it.
  void MakeEmpty(uint64_t token) {
    leaves_unwritten_ = true;
    ResultView result = Result(token);
    result.storage_bytes = 512;
    EXPECT_EQ(Op({}, {result}), "");
    leaves_unwritten_ = false;
  }
  // Why the trace ends before an op on these.
  std::string WhyUnseen(const std::vector<Operand>& operands) {
    OpView view;
    view.operands = operands;
    const char* why = recorder_->WhyReadsUnseen(view, open_);
    return why == nullptr ? "" : why;
  }
  static Operand Written(Operand operand) {
    operand.written = true;
    return operand;
  }

  bool leaves_unwritten_ = false;
  FakeFrontend frontend_;
  FakeWorkRecorder work_;
  OpenTrace open_;
  std::unique_ptr<TraceRecorder> recorder_;
};

TEST_F(TraceRecorderTest, RecorderOfWorkThatCannotStartSaysWhy) {
  work_.start_fails = true;
  const auto recorder = TraceRecorder::Start(
      &frontend_, &work_, WorkRecorder::Recording::kFirst, {});
  ASSERT_FALSE(recorder);
  EXPECT_EQ(recorder.error().code(), base::Code::kUnavailable);
  EXPECT_EQ(work_.stops, 0);
}

TEST_F(TraceRecorderTest, StopsRecordingWorkOnceHoweverItEnds) {
  Start(WorkRecorder::Recording::kRelocated);
  EXPECT_THAT(work_.recordings,
              ElementsAre(WorkRecorder::Recording::kRelocated));
  EXPECT_EQ(Op({Tensor(1)}, {Result(2)}), "");
  EXPECT_NE(Finish(), nullptr);
  EXPECT_EQ(work_.stops, 1);
  recorder_.reset();
  EXPECT_EQ(work_.stops, 1);
  Start();
  recorder_.reset();
  EXPECT_EQ(work_.stops, 2);
}

TEST_F(TraceRecorderTest, KeepsOpsInOrderWithTheSignatureBeforeThem) {
  Start();
  const cache::Signature nothing = open_.signature();
  EXPECT_EQ(Op({Tensor(1)}, {Result(2)}), "");
  const cache::Signature first = open_.signature();
  EXPECT_EQ(Op({Tensor(2, 16), Tensor(1)}, {}), "");
  const auto trace = Finish();
  EXPECT_EQ(trace->signature, open_.signature());
  ASSERT_THAT(trace->ops, SizeIs(2));
  EXPECT_EQ(trace->ops[0].before, nothing);
  EXPECT_EQ(trace->ops[1].before, first);
  EXPECT_EQ(trace->ops[0].op, 7u);
  EXPECT_THAT(trace->ops[1].words, ElementsAre(7, 1));
  EXPECT_THAT(trace->ops[1].launches, SizeIs(1));
  ASSERT_THAT(trace->ops[1].operands, SizeIs(2));
  EXPECT_EQ(trace->ops[1].operands[0].value, 1u);
  EXPECT_EQ(trace->ops[1].operands[0].offset_bytes, 16u);
  EXPECT_EQ(trace->ops[1].operands[1].value, 0u);
  EXPECT_EQ(work_.open_ops, 0);
}

// Where the session put a marker, the trace has the number, and knows by which
// hash the op will be met again.
TEST_F(TraceRecorderTest, NumberUnderAMarkerIsASlot) {
  constexpr uint64_t kMarker = 99;
  const std::vector<uint64_t> words = {7, 45, kMarker, 8};
  const std::vector<Scalar> scalars = {{1, NumberType::kInt64, 45},
                                       {2, NumberType::kInt64, 46}};
  Start();
  OpView op;
  op.op = 7;
  op.words = words;
  op.scalars = scalars;
  EXPECT_TRUE(recorder_->Enter(op, cache::HashWords(op.words),
                               open_.signature(), {}, 0));
  EXPECT_EQ(recorder_->Leave(op, {}, {}, 0), "");
  const auto trace = Finish();
  ASSERT_THAT(trace->ops, SizeIs(1));
  const TracedOp& traced = trace->ops[0];
  EXPECT_THAT(traced.words, ElementsAre(7, 45, 46, 8));
  EXPECT_EQ(traced.hash, cache::HashWords(words).lo);
  ASSERT_THAT(traced.slots, SizeIs(1));
  EXPECT_EQ(traced.slots[0].scalar, 1u);
  EXPECT_EQ(traced.slots[0].recorded.bits, 46u);
}

TEST_F(TraceRecorderTest, ExternalIsKnownFromItsFirstTensorOn) {
  Start();
  Op({Tensor(1)}, {});
  Op({Tensor(3, 96)}, {});
  Op({Tensor(3, 32)}, {});
  const auto trace = Finish();
  ASSERT_THAT(trace->values, SizeIs(2));
  const Value& value = trace->values[1];
  EXPECT_TRUE(value.external);
  EXPECT_EQ(value.birth_op, 1u);
  EXPECT_EQ(value.origin, 0x3000u + 96);
  EXPECT_EQ(value.base, 0x3000u);
  EXPECT_EQ(value.size_bytes, 512u - 96);
  EXPECT_EQ(value.storage, Token(3));
}

TEST_F(TraceRecorderTest, ResultIsKnownFromItsStorageOn) {
  Start();
  Op({Tensor(1)}, {Result(2, 64)});
  const auto trace = Finish();
  ASSERT_THAT(trace->values, SizeIs(2));
  const Value& value = trace->values[1];
  EXPECT_FALSE(value.external);
  EXPECT_EQ(value.birth_op, 0u);
  EXPECT_EQ(value.origin, 0x2000u);
  EXPECT_EQ(value.size_bytes, 256u);
  ASSERT_THAT(trace->ops[0].results, SizeIs(1));
  const ResultSpec& spec = trace->ops[0].results[0];
  EXPECT_EQ(spec.kind, ResultSpec::Kind::kValue);
  EXPECT_EQ(spec.value, 1u);
  EXPECT_EQ(spec.offset_bytes, 64u);
  EXPECT_EQ(spec.storage_bytes, 256u);
  EXPECT_EQ(spec.key_set, 77u);
  EXPECT_EQ(spec.dtype, 6);
  EXPECT_THAT(spec.sizes, ElementsAre(4, 8));
  EXPECT_THAT(spec.strides, ElementsAre(8, 1));
  EXPECT_EQ(spec.layout().rank, 2);
  EXPECT_EQ(spec.layout().element_bytes, 4u);
}

TEST_F(TraceRecorderTest, WrittenOperandsKeepTheirLayout) {
  Start();
  Operand written = Tensor(2);
  written.written = true;
  written.element_bytes = 8;
  written.sizes = written.sizes.first(1);
  written.strides = written.strides.first(1);
  Operand also = Tensor(3);
  also.written = true;
  Op({Tensor(1), written, also}, {});
  const auto trace = Finish();
  EXPECT_EQ(trace->ops[0].LayoutOf(1).rank, 1);
  EXPECT_EQ(trace->ops[0].LayoutOf(1).element_bytes, 8u);
  const kernels::Layout& layout = trace->ops[0].LayoutOf(2);
  EXPECT_EQ(layout.rank, 2);
  EXPECT_EQ(layout.sizes[1], 8);
  EXPECT_EQ(layout.strides[0], 8);
  EXPECT_EQ(layout.element_bytes, 4u);
}

TEST_F(TraceRecorderTest, ResultsOfEveryKindAreDescribed) {
  Start();
  ResultView host;
  host.kind = ResultView::Kind::kHost;
  host.host = std::make_shared<int>(5);
  host.host_hash = 55;
  ResultView itself = Result(1);
  itself.operand = 0;
  EXPECT_EQ(Op({Tensor(1)}, {ResultView(), host, itself, Result(2), Result(2)}),
            "");
  const auto trace = Finish();
  const auto& specs = trace->ops[0].results;
  ASSERT_THAT(specs, SizeIs(5));
  EXPECT_EQ(specs[0].kind, ResultSpec::Kind::kUndefined);
  EXPECT_EQ(specs[1].kind, ResultSpec::Kind::kHost);
  EXPECT_EQ(specs[1].host, host.host);
  EXPECT_EQ(specs[1].host_hash, 55u);
  EXPECT_EQ(specs[2].kind, ResultSpec::Kind::kOperand);
  EXPECT_EQ(specs[2].operand, 0u);
  EXPECT_EQ(specs[3].kind, ResultSpec::Kind::kValue);
  EXPECT_EQ(specs[4].kind, ResultSpec::Kind::kValue);
  EXPECT_EQ(specs[3].value, specs[4].value);
  EXPECT_THAT(trace->values, SizeIs(2));
}

TEST_F(TraceRecorderTest, EveryStorageIsReferredToOnceWhileTheTraceLives) {
  Start();
  Op({Tensor(1), Tensor(1, 64)}, {Result(2), Result(2)});
  Op({Tensor(2), Tensor(1)}, {Result(3)});
  auto trace = Finish();
  recorder_.reset();
  EXPECT_THAT(frontend_.references,
              ElementsAre(std::pair(Token(1), 1), std::pair(Token(2), 1),
                          std::pair(Token(3), 1)));
  trace.reset();
  EXPECT_THAT(frontend_.references, IsEmpty());
}

// However many others there are.
TEST_F(TraceRecorderTest, WhatHoldsMuchMemoryIsSeenToDieAtOnce) {
  constexpr uint32_t kSmall = 400;
  Start();
  const auto op = [this](uint64_t makes, size_t bytes) {
    ResultView result = Result(makes);
    result.storage_bytes = bytes;
    frontend_.bases[Token(makes)] = makes * 0x1000;
    Op({Tensor(1)}, {result});
  };
  for (uint32_t i = 0; i < kSmall; ++i) op(100 + i, 256);
  op(2, size_t{1} << 20);
  op(3, size_t{1} << 20);
  frontend_.bases.erase(Token(2));
  op(4, 256);
  frontend_.bases.erase(Token(3));
  frontend_.bases.erase(Token(100));
  for (uint64_t i = 0; i < kSmall; ++i) op(1000 + i, 256);
  const auto trace = Finish();
  const auto dead_at = [&](uint64_t token) {
    const auto value =
        std::ranges::find(trace->values, Token(token), &Value::storage);
    return value->dead_at;
  };
  EXPECT_EQ(dead_at(2), kSmall + 2);
  EXPECT_EQ(dead_at(3), kSmall + 3);
  // Of the others there are too many.
  EXPECT_GE(dead_at(100), kSmall + 3);
  EXPECT_LT(dead_at(100), 2 * kSmall);
  EXPECT_EQ(dead_at(4), Value::kLives);
  EXPECT_EQ(trace->bytes_at_once, kSmall * 256 + (size_t{2} << 20));
}

TEST_F(TraceRecorderTest, WhatAPassTakesIsToldToWhoRecordsItAgain) {
  work_.temporaries = {{0x7000, 4096}};
  Start();
  Op({Tensor(1)}, {Result(2)});
  auto trace = Finish();
  EXPECT_EQ(trace->bytes_at_once, 256u + 4096u);
  EXPECT_EQ(work_.pass_bytes, 0u);
  recorder_.reset();
  auto again = TraceRecorder::Start(
      &frontend_, &work_, WorkRecorder::Recording::kRelocated,
      {.ops = 1, .bytes_at_once = trace->bytes_at_once});
  ASSERT_TRUE(again);
  EXPECT_EQ(work_.pass_bytes, trace->bytes_at_once);
}

// Between Enter and Leave too: an op that raised is never left.
TEST_F(TraceRecorderTest, WhatNoOpHasWrittenIsNotRead) {
  Start();
  Op({Tensor(1)}, {Result(2)});
  MakeEmpty(3);
  EXPECT_EQ(WhyUnseen({Tensor(1), Tensor(2)}), "");
  EXPECT_THAT(WhyUnseen({Tensor(2), Tensor(3)}), HasSubstr("without content"));
  // An op that writes it, or looks at its form alone, does not read it.
  EXPECT_EQ(WhyUnseen({Written(Tensor(3))}), "");
  Operand form = Tensor(3);
  form.unread = true;
  EXPECT_EQ(WhyUnseen({form}), "");
  Op({Written(Tensor(3)), Tensor(2)}, {});
  EXPECT_EQ(WhyUnseen({Tensor(3)}), "");
  // The tensor is a part of the storage.
  EXPECT_THAT(WhyUnseen({Tensor(3, 256)}), HasSubstr("without content"));
}

TEST_F(TraceRecorderTest, WhatChangesBetweenOpsIsNotUsed) {
  work_.memory = true;
  std::vector<char> memory(512, 'a');
  Operand operand = Tensor(1);
  operand.base = reinterpret_cast<uint64_t>(memory.data());
  Start();
  EXPECT_EQ(WhyUnseen({operand}), "");
  Op({operand}, {});
  EXPECT_EQ(WhyUnseen({operand}), "");
  memory[100] = 'b';
  EXPECT_THAT(WhyUnseen({operand}), HasSubstr("past the operators"));
  EXPECT_THAT(WhyUnseen({Written(operand)}), HasSubstr("past the operators"));
  Op({Written(operand)}, {});
  EXPECT_EQ(WhyUnseen({operand}), "");
}

// Filled with what it held before, it would not be seen to be.
TEST_F(TraceRecorderTest, MemoryWithoutContentIsGivenSomeFirst) {
  work_.memory = true;
  std::vector<char> memory(512, 'a');
  const std::vector<char> before = memory;
  ResultView result = Result(1);
  result.base = reinterpret_cast<uint64_t>(memory.data());
  result.storage_bytes = 512;
  Start();
  leaves_unwritten_ = true;
  Op({}, {result});
  leaves_unwritten_ = false;
  EXPECT_NE(memory, before);
  memory = before;
  Operand operand = Tensor(1);
  operand.base = result.base;
  EXPECT_THAT(WhyUnseen({Written(operand)}), HasSubstr("past the operators"));
}

TEST_F(TraceRecorderTest, RecordingThatIsDroppedGivesItsReferencesBack) {
  Start();
  Op({Tensor(1)}, {Result(2)});
  const uint64_t words[] = {8};
  const std::vector<Operand> operands = {Tensor(2), Tensor(5)};
  OpView view;
  view.words = words;
  view.operands = operands;
  const auto refs = open_.Enter(view);
  EXPECT_TRUE(recorder_->Enter(view, cache::HashWords(view.words),
                               open_.signature(), refs, open_.values()));
  EXPECT_THAT(frontend_.references, SizeIs(3));
  recorder_.reset();
  EXPECT_THAT(frontend_.references, IsEmpty());
}

TEST_F(TraceRecorderTest, RefusalOfAnOpsWorkIsPassedOn) {
  Start();
  work_.refusal = "cuMemcpyDtoHAsync: a copy";
  EXPECT_EQ(Op({Tensor(1)}, {Result(2)}), "cuMemcpyDtoHAsync: a copy");
}

TEST_F(TraceRecorderTest, TensorsOfTooManyDimensionsAreRefused) {
  const std::vector<int64_t> many(kernels::kMaxRank + 1, 1);
  const std::vector<int64_t> most(kernels::kMaxRank, 1);
  Operand operand = Tensor(1);
  ResultView result = Result(2);
  Start();
  operand.sizes = operand.strides = most;
  result.sizes = result.strides = most;
  EXPECT_EQ(Op({operand}, {result}), "");
  operand.sizes = operand.strides = many;
  EXPECT_THAT(Op({operand}, {Result(3)}), HasSubstr("dimensions"));
  result.sizes = result.strides = many;
  result.storage = Token(4);
  EXPECT_THAT(Op({Tensor(1)}, {result}), HasSubstr("dimensions"));
}

TEST_F(TraceRecorderTest, ViewWithoutLaunchesRunsNatively) {
  Start();
  work_.launches = 0;
  EXPECT_EQ(Op({Tensor(1)}, {Result(1, 64), Result(1, 128)}), "");
  work_.launches = 1;
  EXPECT_EQ(Op({Tensor(1)}, {Result(2)}), "");
  const auto trace = Finish();
  EXPECT_TRUE(trace->ops[0].by_eager);
  EXPECT_FALSE(trace->ops[1].by_eager);
}

TEST_F(TraceRecorderTest, ViewThatComesWithWorkOrNewTensorsIsRefused) {
  Start();
  EXPECT_THAT(Op({Tensor(1)}, {Result(1, 64)}), HasSubstr("shares memory"));
  work_.launches = 0;
  EXPECT_THAT(Op({Tensor(1)}, {Result(1, 64), Result(2)}),
              HasSubstr("shares memory"));
  ResultView itself = Result(1);
  itself.operand = 0;
  EXPECT_THAT(Op({Tensor(1)}, {itself, Result(1, 64)}),
              HasSubstr("shares memory"));
}

TEST_F(TraceRecorderTest, OpWithoutLaunchesThatMakesATensorIsNotNative) {
  Start();
  work_.launches = 0;
  EXPECT_EQ(Op({Tensor(1)}, {Result(2)}), "");
  EXPECT_EQ(Op({Tensor(1)}, {}), "");
  const auto trace = Finish();
  EXPECT_FALSE(trace->ops[0].by_eager);
  EXPECT_FALSE(trace->ops[1].by_eager);
}

// Whatever the recorder says of how they came.
TEST_F(TraceRecorderTest, ResultsOfWhatEagerRunsArrive) {
  Start();
  work_.launches = 2;
  work_.refusal = "waits for the device";
  work_.temporaries = {{0x9000, 64}};
  EXPECT_EQ(Op({}, {Result(1), Result(2)}, /*by_eager=*/true), "");
  work_.refusal.clear();
  EXPECT_EQ(Op({Tensor(3)}, {Result(4)}), "");
  EXPECT_EQ(Op({Tensor(4), Tensor(1, 64)}, {}), "");
  EXPECT_EQ(Op({Tensor(1)}, {}), "");
  const auto trace = Finish();
  EXPECT_TRUE(trace->ops[0].by_eager);
  EXPECT_THAT(trace->ops[0].launches, IsEmpty());
  EXPECT_THAT(trace->ops[0].temporaries, IsEmpty());
  EXPECT_THAT(trace->ops[0].results, IsEmpty());
  const Value& used = trace->values[0];
  EXPECT_TRUE(used.external && used.arrives);
  EXPECT_EQ(used.birth_op, 2u);
  EXPECT_EQ(used.origin, 0x1000u);
  const Value& unused = trace->values[1];
  EXPECT_TRUE(unused.external && unused.arrives);
  EXPECT_EQ(unused.birth_op, 0u);
  EXPECT_FALSE(trace->values[2].arrives);
}

class DrawingOpTest : public TraceRecorderTest {
 protected:
  static ResultView Told(int64_t number) {
    ResultView result;
    result.kind = ResultView::Kind::kHost;
    result.host_integer = number;
    result.host_hash = static_cast<uint64_t>(number);
    return result;
  }

  // An op that draws eight numbers and tells the host of it.
  std::string Draws(const std::vector<ResultView>& results) {
    const uint64_t words[] = {9};
    OpView view;
    view.words = words;
    view.may_use_generator = true;
    const cache::Signature before = open_.signature();
    const auto refs = open_.Enter(view);
    EXPECT_TRUE(recorder_->Enter(view, cache::HashWords(view.words), before,
                                 refs, open_.values()));
    frontend_.generator.offset += 8;
    const auto values = open_.Leave(results);
    return recorder_->Leave(view, results, values, open_.values());
  }
};

TEST_F(DrawingOpTest, SeedAndOffsetThatAreToldAreKnown) {
  using Tells = ResultSpec::Tells;
  work_.calls = false;
  frontend_.generator = {.seed = 77, .offset = 12};
  Start();
  EXPECT_EQ(Draws({Result(1), Told(77), Told(12)}), "");
  frontend_.generator = {.seed = 20, .offset = 20};
  EXPECT_EQ(Draws({Told(20), Told(20)}), "");
  const auto trace = Finish();
  EXPECT_EQ(trace->ops[0].results[0].tells, Tells::kNothing);
  for (const TracedOp& op : trace->ops) {
    const size_t first = op.results.size() - 2;
    EXPECT_EQ(op.results[first].tells, Tells::kSeed);
    EXPECT_EQ(op.results[first + 1].tells, Tells::kOffset);
    EXPECT_EQ(op.results[first + 1].Told({1, 5}), 5u);
  }
}

// The recordings say whether it is the same each time.
TEST_F(DrawingOpTest, WhatElseIsToldOfADrawIsKept) {
  work_.calls = false;
  frontend_.generator = {.seed = 77, .offset = 12};
  Start();
  EXPECT_EQ(Draws({Told(77), Told(13)}), "");
  const auto trace = Finish();
  EXPECT_EQ(trace->ops[0].results[0].host_hash, 0u);
  EXPECT_EQ(trace->ops[0].results[1].host_hash, 13u);
}

TEST_F(DrawingOpTest, WhatACallTellsIsRefused) {
  frontend_.generator = {.seed = 77, .offset = 12};
  Start();
  EXPECT_THAT(Draws({Told(77), Told(12)}), HasSubstr("tells the host"));
}

TEST_F(TraceRecorderTest, TemporariesAreWhatWasAllocatedForNoResult) {
  Start();
  work_.temporaries = {{0x9000, 64}, {0x2000, 256}, {0x9800, 32}};
  EXPECT_EQ(Op({Tensor(1)}, {Result(2, 64)}), "");
  const auto trace = Finish();
  const auto at = [](uint64_t address) {
    return Field("address", &Allocation::address, address);
  };
  EXPECT_THAT(trace->ops[0].temporaries, ElementsAre(at(0x9000), at(0x9800)));
}

// The allocator may hand a temporary's memory on to the result of the same op.
// The temporary was as large as it was: its launches need that much room.
TEST_F(TraceRecorderTest, TemporaryWhoseMemoryBecameAResultStaysATemporary) {
  Start();
  work_.temporaries = {{0x2000, 4096}, {0x2000, 256}};
  EXPECT_EQ(Op({Tensor(1)}, {Result(2)}), "");
  const auto trace = Finish();
  ASSERT_THAT(trace->ops[0].temporaries, SizeIs(1));
  EXPECT_EQ(trace->ops[0].temporaries[0].size_bytes, 4096u);
}

// A view of a result says nothing of the temporary that lay there before it.
TEST_F(TraceRecorderTest, ResultsOfOneValueForgetOneAllocation) {
  Start();
  work_.temporaries = {{0x2000, 4096}, {0x2000, 256}, {0x3000, 256}};
  EXPECT_EQ(Op({Tensor(1)}, {Result(2), Result(3), Result(2)}), "");
  const auto trace = Finish();
  ASSERT_THAT(trace->ops[0].temporaries, SizeIs(1));
  EXPECT_EQ(trace->ops[0].temporaries[0].size_bytes, 4096u);
}

class NoCall : public Call {
  void SetScalar(uint32_t, uint64_t) override {}
  base::Status Run(std::span<const uint64_t>,
                   std::span<const uint64_t>) override {
    return {};
  }
};

TEST_F(TraceRecorderTest, CallIsKeptWithItsOp) {
  Start();
  const std::vector<Operand> operands = {Tensor(1)};
  OpView view;
  view.operands = operands;
  const auto refs = open_.Enter(view);
  EXPECT_TRUE(recorder_->Enter(view, cache::HashWords(view.words),
                               open_.signature(), refs, open_.values()));
  auto call = std::make_unique<NoCall>();
  const Call* expected = call.get();
  recorder_->GiveCall(std::move(call));
  EXPECT_EQ(recorder_->Leave(view, {}, {}, open_.values()), "");
  EXPECT_EQ(Finish()->ops[0].call.get(), expected);
}

}  // namespace
}  // namespace reprise::engine
