// From two recordings of synthetic launches to a program that can be placed
// anywhere: what moved is found, what stayed is kept, what nothing explains
// fails by the name of its op.

#include "engine/program/explain_parameters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine/program/layout.h"
#include "tests/engine/fake_frontend.h"
#include "tests/engine/trace_builder.h"

namespace reprise::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

device::Launch Kernel(const std::vector<uint64_t>& words) {
  device::Launch launch;
  launch.function = reinterpret_cast<CUfunction>(0xf00);
  std::vector<device::ParamSpan> spans;
  for (uint32_t i = 0; i < words.size(); ++i) spans.push_back({i * 8, 8});
  launch.params =
      std::make_shared<const std::vector<device::ParamSpan>>(std::move(spans));
  launch.image.resize(words.size() * 8);
  for (size_t i = 0; i < words.size(); ++i) launch.SetWord(i * 8, words[i]);
  return launch;
}

// A site by launch, offset, value and delta.
auto Site(uint32_t launch, uint32_t offset_bytes, ValueId value,
          uint64_t delta_bytes) {
  return ::testing::AllOf(
      ::testing::Field("launch", &ValueSite::launch, launch),
      ::testing::Field("offset_bytes", &ValueSite::offset_bytes, offset_bytes),
      ::testing::Field("value", &ValueSite::value, value),
      ::testing::Field("delta_bytes", &ValueSite::delta_bytes, delta_bytes));
}

// Where a value of TraceBuilder's lies in the second recording.
constexpr uint64_t kShift = 0x20'0000'0000;

class ExplainParametersTest : public testing::Test {
 protected:
  // The same ops twice; own values move, externals stay.
  void Both(const std::function<void(TraceBuilder&)>& make) {
    TraceBuilder first(&frontend_, kSizeBytes);
    TraceBuilder second(&frontend_, kSizeBytes);
    make(first);
    make(second);
    first_ = first.Take();
    second_ = second.Take();
    for (Value& value : second_->values) {
      if (!value.external) Move(value);
    }
  }

  static void Move(Value& value) {
    value.origin += kShift;
    value.base += kShift;
  }
  static uint64_t First(ValueId value) {
    return TraceBuilder::AddressOf(value);
  }
  static uint64_t Second(ValueId value) { return First(value) + kShift; }

  // What op `op` launched, once in each recording.
  void Launches(size_t op, const std::vector<uint64_t>& first,
                const std::vector<uint64_t>& second) {
    first_->ops[op].launches.push_back(Kernel(first));
    second_->ops[op].launches.push_back(Kernel(second));
  }

  tl::expected<ExplainedProgram, BuildFailure> Explain() {
    return ExplainParameters(
        *first_, *second_,
        [this](uint64_t address) { return frontend_.OwnsAddress(address); },
        nullptr, &unwritten_);
  }

  // The reason names the op.
  void ExpectFailure(uint32_t op, const std::string& reason) {
    const auto explained = Explain();
    ASSERT_FALSE(explained);
    EXPECT_EQ(explained.error().op, op);
    EXPECT_EQ(explained.error().error.code(), base::Code::kFailedPrecondition);
    EXPECT_THAT(
        explained.error().error.message(),
        ::testing::AllOf(HasSubstr("op " + std::to_string(op) + " (fake::op" +
                                   std::to_string(op) + ")"),
                         HasSubstr(reason)));
  }

  static constexpr uint64_t kSizeBytes = 256;
  FakeFrontend frontend_;
  UnwrittenWords unwritten_;
  std::unique_ptr<Trace> first_;
  std::unique_ptr<Trace> second_;
};

// x → a → b, with a weight that b's op reads.
class TwoOpsTest : public ExplainParametersTest {
 protected:
  TwoOpsTest() {
    Both([this](TraceBuilder& builder) {
      x_ = builder.External();
      a_ = builder.Op({x_}, {}, 1);
      weight_ = builder.External();
      b_ = builder.Op({a_, weight_}, {}, 1);
    });
    Move(second_->values[x_]);
  }

  ValueId x_, a_, weight_, b_;
};

TEST_F(TwoOpsTest, ValuesThatMovedHaveSitesAndWeightsStay) {
  Launches(0, {17, First(x_), First(a_) + 16},
           {17, Second(x_), Second(a_) + 16});
  Launches(1, {First(a_), First(weight_), First(b_)},
           {Second(a_), First(weight_), Second(b_)});
  const auto explained = Explain();
  ASSERT_TRUE(explained) << explained.error().error.message();
  EXPECT_THAT(explained->program.sites,
              UnorderedElementsAre(Site(0, 8, x_, 0), Site(0, 16, a_, 16),
                                   Site(1, 0, a_, 0), Site(1, 16, b_, 0)));
  EXPECT_THAT(explained->movable, ElementsAre(true, true, false, true));
  EXPECT_EQ(explained->program.values, 4u);
  EXPECT_THAT(explained->program.op_begin, ElementsAre(0, 1, 2));
  EXPECT_EQ(explained->program.launches[1].Word(8), First(weight_));
  EXPECT_THAT(explained->notes, IsEmpty());
}

TEST_F(TwoOpsTest, OpsMayLaunchNothingOrMuch) {
  for (int i = 0; i < 3; ++i) Launches(1, {First(a_)}, {Second(a_)});
  const auto explained = Explain();
  ASSERT_TRUE(explained) << explained.error().error.message();
  EXPECT_THAT(explained->program.op_begin, ElementsAre(0, 0, 3));
  EXPECT_THAT(explained->program.sites,
              UnorderedElementsAre(Site(0, 0, a_, 0), Site(1, 0, a_, 0),
                                   Site(2, 0, a_, 0)));
}

TEST_F(TwoOpsTest, BuffersThatReuseMemoryAreOneBufferAsLargeAsBoth) {
  // The second buffer took the first one's block, and no address tells which
  // of them a word means.
  first_->ops[1].temporaries = {{0x7f50'0000'1000, 64},
                                {0x7f50'0000'1000, 4096}};
  second_->ops[1].temporaries = {{0x7f60'0000'1000, 64},
                                 {0x7f60'0000'1000, 4096}};
  Launches(1, {0x7f50'0000'1000, 0x7f50'0000'1800},
           {0x7f60'0000'1000, 0x7f60'0000'1800});
  const auto explained = Explain();
  ASSERT_TRUE(explained) << explained.error().error.message();
  ASSERT_THAT(explained->program.sites, SizeIs(2));
  const ValueId owner = explained->program.sites[0].value;
  EXPECT_EQ(explained->program.sites[1].value, owner);
  EXPECT_EQ(explained->program.sites[1].delta_bytes, 0x800u);
  EXPECT_EQ(explained->place_bytes[owner], 4096u);
}

TEST_F(TwoOpsTest, OutputThatReusesABuffersMemoryTakesTheBuffersUseToo) {
  const uint64_t first = First(b_);
  const uint64_t second = Second(b_);
  first_->ops[1].temporaries = {{first, 4096}};
  second_->ops[1].temporaries = {{second, 4096}};
  Launches(1, {first, first + 0x800}, {second, second + 0x800});
  const auto explained = Explain();
  ASSERT_TRUE(explained) << explained.error().error.message();
  EXPECT_THAT(explained->program.sites,
              UnorderedElementsAre(Site(0, 0, b_, 0), Site(0, 8, b_, 0x800)));
  EXPECT_EQ(explained->place_bytes[b_], 4096u);
}

// Torch's backward pass of a convolution on a GPU: the gradients of weight and
// bias both lay where a workspace had been. As one buffer they were taken for
// the first gradient, and nobody wrote the second one.
TEST_F(ExplainParametersTest, OutputsThatReuseOneBuffersMemoryFail) {
  for (const bool swapped : {false, true}) {
    ValueId a = 0;
    Both([&a](TraceBuilder& builder) { a = builder.Op({}, {}, 2); });
    for (Trace* trace : {first_.get(), second_.get()}) {
      const uint64_t buffer = trace->values[a].origin;
      trace->values[a + 1].origin = buffer + 1024;
      trace->values[a + 1].base = buffer + 1024;
      if (swapped) std::swap(trace->values[a], trace->values[a + 1]);
      trace->ops[0].temporaries = {{buffer, 4096}};
    }
    Launches(0, {First(a), First(a) + 1024}, {Second(a), Second(a) + 1024});
    ExpectFailure(0, "took the memory of one temporary buffer");
  }
}

TEST_F(TwoOpsTest, BuffersOfAnotherSizeEachTimeFail) {
  first_->ops[1].temporaries = {{0x7f50'0000'1000, 4096}};
  second_->ops[1].temporaries = {{0x7f60'0000'1000, 512}};
  Launches(1, {0x7f50'0000'1000}, {0x7f60'0000'1000});
  ExpectFailure(1, "another size each time");
}

// Structs that are packed hold addresses at any byte.
TEST_F(TwoOpsTest, OutputWhoseAddressStandsAcrossWordsFails) {
  Launches(0, {0, 0, 0}, {0, 0, 0});
  first_->ops[0].launches[0].SetWord(12, First(a_));
  second_->ops[0].launches[0].SetWord(12, Second(a_));
  ExpectFailure(0, "stands across two words");
}

TEST_F(TwoOpsTest, OutputThatNothingPointsIntoIsNotWritten) {
  Launches(0, {First(x_)}, {Second(x_)});
  const auto explained = Explain();
  ASSERT_TRUE(explained) << explained.error().error.message();
  EXPECT_THAT(explained->program.sites, ElementsAre(Site(0, 0, x_, 0)));
}

TEST_F(TwoOpsTest, TemporariesAreNumberedOnFromTheValues) {
  first_->ops[0].temporaries = {{0x7f50'0000'1000, 64}};
  second_->ops[0].temporaries = {{0x7f60'0000'1000, 64}};
  first_->ops[1].temporaries = {{0x7f50'0000'1000, 64}, {0x7f50'0000'3000, 32}};
  second_->ops[1].temporaries = {{0x7f60'0000'2000, 64},
                                 {0x7f60'0000'5000, 32}};
  Launches(0, {0x7f50'0000'1000 + 8}, {0x7f60'0000'1000 + 8});
  Launches(1, {0x7f50'0000'3000, 0x7f50'0000'1000},
           {0x7f60'0000'5000, 0x7f60'0000'2000});
  const auto explained = Explain();
  ASSERT_TRUE(explained) << explained.error().error.message();
  EXPECT_EQ(explained->program.values, 4u + 3u);
  EXPECT_THAT(explained->program.sites,
              UnorderedElementsAre(Site(0, 0, 4, 8), Site(1, 0, 6, 0),
                                   Site(1, 8, 5, 0)));
  // They are no values of the trace.
  EXPECT_THAT(explained->movable, SizeIs(4));
}

TEST_F(TwoOpsTest, StaleAddressOfAnEarlierValueMovesWithIt) {
  // x is no operand of the second op.
  Launches(1, {First(x_)}, {Second(x_)});
  const auto explained = Explain();
  ASSERT_TRUE(explained) << explained.error().error.message();
  ASSERT_THAT(explained->program.sites, ::testing::SizeIs(1));
  EXPECT_EQ(explained->program.sites[0].value, x_);
  EXPECT_EQ(explained->program.sites[0].delta_bytes, 0u);
}

TEST_F(TwoOpsTest, WordThatMovedWithNothingFails) {
  const uint64_t beyond = PlaceBytes(kSizeBytes) + 8;
  Launches(1, {First(a_) + beyond}, {Second(a_) + beyond});
  ExpectFailure(1, "device address");
}

TEST_F(TwoOpsTest, WordThatMovedOtherwiseThanItsValueFails) {
  Launches(0, {First(x_)}, {Second(x_) + 8});
  ExpectFailure(0, "device address");
}

// Layers of one form hold other rests of the stack where nobody writes: what
// is no address in one of them is no address in the others.
TEST_F(TwoOpsTest, WordThatAnOpOfTheSameFormHasNoAddressInIsUnwritten) {
  const uint64_t beyond = PlaceBytes(kSizeBytes) + 512;
  first_->ops[1].hash = second_->ops[1].hash = first_->ops[0].hash;
  Launches(0, {0}, {0});
  Launches(1, {First(a_) + beyond}, {Second(a_) + beyond});
  ExpectFailure(1, "device address");  // a null pointer shows nothing

  second_->ops[0].launches[0].SetWord(0, 0x1234);
  const auto explained = Explain();
  ASSERT_TRUE(explained) << explained.error().error.message();
  EXPECT_THAT(explained->program.sites, IsEmpty());
  EXPECT_EQ(explained->program.launches[1].Word(0), First(a_) + beyond);

  first_->ops[1].hash = second_->ops[1].hash = first_->ops[0].hash + 1;
  ExpectFailure(1, "device address");  // another form
}

// In other recordings, of which one may have failed before it.
TEST_F(TwoOpsTest, WordThatWasNoAddressInEarlierRecordingsIsUnwritten) {
  const uint64_t beyond = PlaceBytes(kSizeBytes) + 512;
  Launches(0, {First(x_) + beyond}, {Second(x_) + beyond});
  Launches(1, {0x1234, 0}, {0x5678, 0x5678});
  ExpectFailure(0, "device address");

  const auto hold = [this](size_t op, uint32_t offset, uint64_t first,
                           uint64_t second) {
    first_->ops[op].launches[0].SetWord(offset, first);
    second_->ops[op].launches[0].SetWord(offset, second);
  };
  hold(0, 0, 17, 17);
  hold(1, 0, First(a_) + beyond, Second(a_) + beyond);
  const auto explained = Explain();
  ASSERT_TRUE(explained) << explained.error().error.message();
  EXPECT_THAT(explained->program.sites, IsEmpty());
  EXPECT_EQ(explained->program.launches[1].Word(0), First(a_) + beyond);

  // A null pointer shows nothing.
  hold(1, 8, First(a_) + beyond, Second(a_) + beyond);
  ExpectFailure(1, "device address");
  hold(1, 8, 17, 17);
  first_->ops[1].hash = second_->ops[1].hash = first_->ops[1].hash + 1;
  ExpectFailure(1, "device address");  // another form
}

// A copy reads all that it is given.
TEST_F(TwoOpsTest, AddressesOfCopiesAreWritten) {
  const uint64_t beyond = PlaceBytes(kSizeBytes) + 512;
  first_->ops[1].hash = second_->ops[1].hash = first_->ops[0].hash;
  Launches(0, {0x1234}, {0x1234});
  Launches(1, {First(a_) + beyond}, {Second(a_) + beyond});
  for (Trace* trace : {first_.get(), second_.get()}) {
    for (TracedOp& op : trace->ops) {
      op.launches[0].kind = device::Launch::Kind::kMemcpy;
    }
  }
  ExpectFailure(1, "device address");
}

TEST_F(TwoOpsTest, BytesThatAreNoAddressAreKeptAndNamed) {
  Launches(1, {First(a_), 0x1234}, {Second(a_), 0x5678});
  const auto explained = Explain();
  ASSERT_TRUE(explained) << explained.error().error.message();
  EXPECT_EQ(explained->program.launches[0].Word(8), 0x1234u);
  EXPECT_THAT(explained->notes,
              ElementsAre(::testing::AllOf(HasSubstr("op 1 (fake::op1)"),
                                           HasSubstr("0x1234"))));
}

TEST_F(TwoOpsTest, OtherLaunchesFail) {
  Launches(1, {1}, {1});
  second_->ops[1].launches[0].grid.x = 7;
  ExpectFailure(1, "in the other");
  second_->ops[1].launches.clear();
  ExpectFailure(1, "1 launches in one recording and 0");
}

// A number may ask for other kernels; it is not what makes an address of a
// word.
TEST_F(TwoOpsTest, OtherLaunchesBesideANumberThatChangesAreItsDoing) {
  const auto number = [](double value) {
    return ScalarSlot{.recorded = {.word = 0,
                                   .type = NumberType::kFloat64,
                                   .bits = std::bit_cast<uint64_t>(value)}};
  };
  first_->ops[0].slots.push_back(number(1.5));
  second_->ops[0].slots.push_back(number(2.5));
  Launches(0, {First(x_)}, {Second(x_)});
  second_->ops[0].launches[0].grid.x = 7;
  ExpectFailure(0, "nothing tells");
  ExpectFailure(0, "in the other");
  EXPECT_THAT(Explain().error().unexplained, ElementsAre(0u));
  // There the number has no place.
  second_->ops[0].launches[0].grid.x = first_->ops[0].launches[0].grid.x;
  ExpectFailure(0, "nothing tells");
  EXPECT_THAT(Explain().error().unexplained, ElementsAre(0u));
  second_->ops[0].launches[0].SetWord(0, Second(x_) + 8);
  ExpectFailure(0, "device address");
  EXPECT_THAT(Explain().error().unexplained, IsEmpty());
}

TEST_F(TwoOpsTest, OutputThatDidNotMoveFails) {
  second_->values[b_] = first_->values[b_];
  ExpectFailure(1, "same address twice");
  // Without memory there is nothing to move.
  first_->values[b_].size_bytes = second_->values[b_].size_bytes = 0;
  EXPECT_TRUE(Explain());
}

TEST_F(TwoOpsTest, OutputOfAnotherSizeFails) {
  second_->values[b_].size_bytes += 64;
  ExpectFailure(1, "another size");
}

TEST_F(TwoOpsTest, OtherTemporariesFail) {
  second_->ops[1].temporaries = {{0x7f60'0000'1000, 64}};
  ExpectFailure(1, "0 temporary buffers, then 1");
  first_->ops[1].temporaries = second_->ops[1].temporaries;
  ExpectFailure(1, "same address twice");
}

TEST_F(TwoOpsTest, OtherResultsFail) {
  const auto change = [this](const std::function<void(ResultSpec&)>& change) {
    ResultSpec& spec = second_->ops[1].results[0];
    const ResultSpec before = spec;
    change(spec);
    ExpectFailure(1, "results differ");
    spec = before;
    EXPECT_TRUE(Explain());
  };
  change([](ResultSpec& spec) { spec.kind = ResultSpec::Kind::kUndefined; });
  change([](ResultSpec& spec) { spec.host_hash = 1; });
  change([](ResultSpec& spec) { spec.sizes = {3}; });
  change([](ResultSpec& spec) { spec.strides = {3}; });
  change([](ResultSpec& spec) { spec.offset_bytes = 8; });
  change([](ResultSpec& spec) { spec.dtype = 3; });
  change([](ResultSpec& spec) { spec.key_set = 3; });
  change([this](ResultSpec& spec) { spec.value = a_; });
  second_->ops[1].results.clear();
  ExpectFailure(1, "results differ");
}

TEST_F(TwoOpsTest, RecordingsOfOtherOpsFail) {
  second_->ops.pop_back();
  const auto explained = Explain();
  ASSERT_FALSE(explained);
  EXPECT_EQ(explained.error().op, std::nullopt);
  EXPECT_THAT(explained.error().error.message(), HasSubstr("differ"));
}

// Views of an own value all stand for the whole of it.
TEST_F(ExplainParametersTest, ViewOfAnOwnValueMayPointAnywhereIntoIt) {
  ValueId a = 0;
  Both([&a](TraceBuilder& builder) {
    a = builder.Op({}, {}, 1);
    builder.Op({a}, {});
    builder.trace().ops[1].operands[0].offset_bytes = 64;
  });
  Launches(1, {First(a) + 64, First(a) + 8, First(a) + kSizeBytes},
           {Second(a) + 64, Second(a) + 8, Second(a) + kSizeBytes});
  const auto explained = Explain();
  ASSERT_TRUE(explained) << explained.error().error.message();
  EXPECT_THAT(explained->program.sites,
              UnorderedElementsAre(Site(0, 0, a, 64), Site(0, 8, a, 8),
                                   Site(0, 16, a, kSizeBytes)));
}

// The first use may be of a view in the middle of a storage (the second half of
// a chunk), a later one of what lies before it.
TEST_F(ExplainParametersTest, ExternalIsKnownBeforeItsFirstViewToo) {
  ValueId x = 0;
  Both([&x](TraceBuilder& builder) {
    x = builder.External();
    builder.Op({x}, {});
    builder.Op({x}, {});
    builder.trace().ops[1].operands[0].offset_bytes = uint64_t{0} - 128;
  });
  Move(second_->values[x]);
  Launches(0, {First(x)}, {Second(x)});
  Launches(1, {First(x) - 128, First(x) - 120, First(x) + 16},
           {Second(x) - 128, Second(x) - 120, Second(x) + 16});
  const auto explained = Explain();
  ASSERT_TRUE(explained) << explained.error().error.message();
  EXPECT_THAT(explained->program.sites,
              UnorderedElementsAre(
                  Site(0, 0, x, 0), Site(1, 0, x, uint64_t{0} - 128),
                  Site(1, 8, x, uint64_t{0} - 120), Site(1, 16, x, 16)));
}

// Two externals that one op reads; they move together.
class TwoExternalsTest : public ExplainParametersTest {
 protected:
  TwoExternalsTest() {
    Both([this](TraceBuilder& builder) {
      a_ = builder.External();
      b_ = builder.External();
      out_ = builder.Op({a_, b_}, {}, 1);
    });
  }
  // Its storage begins so far behind where the first one's does, its tensor so
  // far within.
  void Put(ValueId v, uint64_t behind, uint64_t within,
           uint64_t storage_bytes) {
    for (Trace* trace : {first_.get(), second_.get()}) {
      Value& value = trace->values[v];
      value.base = First(a_) + behind + (trace == first_.get() ? 0 : kShift);
      value.origin = value.base + within;
      value.size_bytes = storage_bytes - within;
    }
  }

  ValueId a_, b_, out_;
};

// In blocks that follow each other the second begins where the first one's
// block ends, wherever its view begins. A kernel may still be handed what lies
// between the storage's end and the block's.
TEST_F(TwoExternalsTest, TheFirstEndsWithItsBlock) {
  constexpr uint64_t kStorageBytes = 3000;
  constexpr uint64_t kBlockBytes = 3072;
  Put(a_, 0, 256, kStorageBytes);
  Put(b_, kBlockBytes, 0, kStorageBytes);
  const uint64_t end = First(a_) + kBlockBytes;
  Launches(0, {First(a_) + 256, end, end - 8, First(out_)},
           {Second(a_) + 256, end + kShift, end - 8 + kShift, Second(out_)});
  const auto explained = Explain();
  ASSERT_TRUE(explained) << explained.error().error.message();
  EXPECT_THAT(explained->program.sites,
              UnorderedElementsAre(Site(0, 0, a_, 0), Site(0, 8, b_, 0),
                                   Site(0, 16, a_, kBlockBytes - 8 - 256),
                                   Site(0, 24, out_, 0)));
}

// Two storages over the same memory (DLPack makes such). Another time they may
// not be: neither may be taken for the other.
TEST_F(TwoExternalsTest, MemoryThatTheyShareIsNobodys) {
  Put(a_, 0, 0, kSizeBytes);
  Put(b_, 0, 0, kSizeBytes);
  Launches(0, {First(a_) + 8, First(out_)}, {Second(a_) + 8, Second(out_)});
  ExpectFailure(0, "share");
}

// A program whose launches are a function of where its values lie, so that what
// was explained from two placements can be held against a third.
class RandomProgram {
 public:
  RandomProgram(FakeFrontend* frontend, uint32_t seed)
      : frontend_(frontend), random_(seed) {
    const uint32_t ops = 1 + random_() % 5;
    for (uint32_t k = 0; k < ops; ++k) {
      Op& op = ops_.emplace_back();
      for (uint32_t i = random_() % 3; i > 0; --i) {
        if (values_ == 0 || random_() % 4 == 0) {
          external_.push_back(true);
          moves_.push_back(random_() % 2 == 0);
          births_.push_back(k);
          first_offset_.push_back(random_() % 4 * 64);
          op.operands.push_back({values_, first_offset_[values_]});
          ++values_;
        } else {
          op.operands.push_back({random_() % values_, random_() % 4 * 64});
        }
      }
      for (uint32_t r = random_() % 3; r > 0; --r) {
        external_.push_back(false);
        moves_.push_back(true);
        births_.push_back(k);
        first_offset_.push_back(0);
        op.results.push_back(values_++);
      }
      op.temporaries = random_() % 3;
      for (uint32_t w = random_() % 10; w > 0; --w)
        op.words.push_back(Word(op));
    }
  }

  // Where all that can move lies: by value, then by temporary. Nothing that
  // moves is where it was for a seed of other parity. `together`: some
  // externals in the block behind that of the one before.
  std::vector<uint64_t> Place(uint32_t seed, bool together) const {
    std::mt19937_64 random(seed);
    std::vector<uint64_t> places;
    const auto somewhere = [seed](uint64_t slot, uint64_t page) {
      return FakeFrontend::kFirstAddress + slot * 0x1'0000'0000 +
             (page % 0x800 * 2 + seed % 2) * 0x1000;
    };
    for (uint32_t v = 0; v < values_; ++v) {
      const uint64_t alone = moves_[v]
                                 ? somewhere(v, random())
                                 : FakeFrontend::kFirstAddress - 0x1000 * v;
      const bool behind = together && v > 0 && v % 2 == 1 && moves_[v] &&
                          moves_[v - 1] && external_[v] && external_[v - 1];
      places.push_back(behind ? places.back() + kSizeBytes : alone);
    }
    uint64_t slot = values_;
    for (const Op& op : ops_) {
      for (uint32_t t = 0; t < op.temporaries; ++t) {
        places.push_back(somewhere(slot++, random()));
      }
    }
    return places;
  }

  std::unique_ptr<Trace> Record(const std::vector<uint64_t>& places) const {
    auto trace = std::make_unique<Trace>(frontend_);
    for (uint32_t v = 0; v < values_; ++v) {
      Value& value = trace->values.emplace_back();
      value.external = external_[v];
      value.birth_op = births_[v];
      value.base = places[v];
      value.origin = value.base + first_offset_[v];
      value.size_bytes = kSizeBytes - first_offset_[v];
      value.storage = Token(v + 1);
      frontend_->Retain(value.storage);
    }
    uint32_t temporary = values_;
    for (const Op& made : ops_) {
      TracedOp& op = trace->ops.emplace_back();
      for (const auto& [value, offset] : made.operands) {
        ValueRef& ref = op.operands.emplace_back();
        ref.value = value;
        ref.offset_bytes = offset - first_offset_[value];
      }
      for (const uint32_t result : made.results) {
        ResultSpec& spec = op.results.emplace_back();
        spec.kind = ResultSpec::Kind::kValue;
        spec.value = result;
      }
      for (uint32_t t = 0; t < made.temporaries; ++t) {
        op.temporaries.push_back({places[temporary + t], kSizeBytes});
      }
      op.launches = Launches(made, places, temporary);
      temporary += made.temporaries;
    }
    return trace;
  }

  uint64_t Origin(const std::vector<uint64_t>& places, uint32_t value) const {
    return places[value] + (value < values_ ? first_offset_[value] : 0);
  }

  bool moves(ValueId value) const { return moves_[value]; }
  uint32_t values() const { return values_; }

 private:
  static constexpr uint64_t kSizeBytes = 1024;

  // A constant, or an address of an operand, a result or a temporary.
  struct ParameterWord {
    enum class Of : uint8_t { kNothing, kValue, kTemporary } of;
    uint32_t index;
    uint64_t offset_bytes;  // or the constant
  };
  struct Op {
    std::vector<std::pair<uint32_t, uint64_t>> operands;  // value, offset
    std::vector<uint32_t> results;
    uint32_t temporaries = 0;
    std::vector<ParameterWord> words;
  };

  ParameterWord Word(const Op& op) {
    const uint32_t what = random_() % 4;
    if (what == 0 && !op.operands.empty()) {
      const auto [value, offset] = op.operands[random_() % op.operands.size()];
      return {ParameterWord::Of::kValue, value,
              offset + random_() % (kSizeBytes - offset)};
    }
    if (what == 1 && !op.results.empty()) {
      return {ParameterWord::Of::kValue,
              op.results[random_() % op.results.size()],
              random_() % (kSizeBytes + 1)};
    }
    if (what == 2 && op.temporaries > 0) {
      const uint32_t index = random_() % op.temporaries;
      return {ParameterWord::Of::kTemporary, index,
              random_() % (kSizeBytes + 1)};
    }
    return {ParameterWord::Of::kNothing, 0, random_()};
  }

  static std::vector<device::Launch> Launches(
      const Op& op, const std::vector<uint64_t>& places, uint32_t temporary) {
    std::vector<std::vector<uint64_t>> launches;
    for (size_t w = 0; w < op.words.size(); ++w) {
      if (w % 3 == 0) launches.emplace_back();
      const ParameterWord& word = op.words[w];
      uint64_t base = 0;
      if (word.of == ParameterWord::Of::kValue) base = places[word.index];
      if (word.of == ParameterWord::Of::kTemporary) {
        base = places[temporary + word.index];
      }
      launches.back().push_back(base + word.offset_bytes);
    }
    std::vector<device::Launch> made;
    for (const auto& words : launches) made.push_back(Kernel(words));
    return made;
  }

  FakeFrontend* frontend_;
  std::mt19937 random_;
  std::vector<Op> ops_;
  uint32_t values_ = 0;
  std::vector<bool> external_;
  std::vector<bool> moves_;
  std::vector<uint32_t> births_;
  std::vector<uint64_t> first_offset_;
};

TEST_F(ExplainParametersTest, RandomProgramsCanBePlacedAnywhere) {
  size_t sites = 0;
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const RandomProgram program(&frontend_, seed);
    const bool together = seed % 2 == 0;
    first_ = program.Record(program.Place(2 * seed, together));
    second_ = program.Record(program.Place(2 * seed + 1, together));
    const auto explained = Explain();
    ASSERT_TRUE(explained) << explained.error().error.message();
    ASSERT_THAT(explained->notes, IsEmpty());
    for (ValueId v = 0; v < program.values(); ++v) {
      ASSERT_EQ(explained->movable[v], program.moves(v)) << "value " << v;
    }
    const auto places = program.Place(seed + 1'000'000, /*together=*/false);
    std::vector<device::Launch> launches = explained->program.launches;
    for (const ValueSite& site : explained->program.sites) {
      ASSERT_LT(site.value, explained->program.values);
      launches[site.launch].SetWord(
          site.offset_bytes,
          program.Origin(places, site.value) + site.delta_bytes);
    }
    sites += explained->program.sites.size();
    const auto expected = program.Record(places);
    size_t launch = 0;
    for (size_t k = 0; k < expected->ops.size(); ++k) {
      ASSERT_EQ(explained->program.op_begin[k], launch);
      for (const device::Launch& wanted : expected->ops[k].launches) {
        ASSERT_EQ(launches[launch++].image, wanted.image) << "op " << k;
      }
    }
    ASSERT_EQ(launch, launches.size());
  }
  EXPECT_GT(sites, 5000u);
}

// What nobody wrote behind the generator's state looks like an address that
// moved, and is none.
TEST_F(TwoOpsTest, WhatDrawsHasSitesOfTheGeneratorAndNoAddressBehindThem) {
  for (Trace* trace : {first_.get(), second_.get()}) {
    trace->ops[1].generator.draws = true;
    trace->ops[1].generator.increment = 4;
  }
  first_->ops[1].generator.before = {7, 40};
  second_->ops[1].generator.before = {7, 80};
  Launches(0, {First(a_)}, {Second(a_)});
  Launches(1, {First(b_), 7, 40, 0, First(a_) + 0x100},
           {Second(b_), 7, 80, 0, Second(a_) + 0x100});
  const auto explained = Explain();
  ASSERT_TRUE(explained) << explained.error().error.message();
  EXPECT_THAT(explained->program.sites,
              UnorderedElementsAre(Site(0, 0, a_, 0), Site(1, 0, b_, 0)));
  ASSERT_THAT(explained->program.draws, SizeIs(1));
  const DrawSite& site = explained->program.draws.front();
  EXPECT_EQ(site.op, 1u);
  EXPECT_EQ(site.launch, 1u);
  EXPECT_EQ(site.offset_bytes, 16u);
  EXPECT_EQ(explained->program.launches[1].Word(16), 40u);
  EXPECT_EQ(explained->program.launches[1].Word(32), 0u);
  EXPECT_THAT(explained->notes, IsEmpty());
}

TEST_F(TwoOpsTest, WhatDrawsWithoutHoldingTheStateFailsByName) {
  for (Trace* trace : {first_.get(), second_.get()}) {
    trace->ops[1].generator.draws = true;
    trace->ops[1].generator.increment = 4;
  }
  second_->ops[1].generator.before = {7, 80};
  Launches(1, {First(b_)}, {Second(b_)});
  ExpectFailure(1, "the generator's state");
}

}  // namespace
}  // namespace reprise::engine
