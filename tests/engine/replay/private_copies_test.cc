// Private values are taken at the beginning of a pass, and those that were
// written are given back.

#include "engine/replay/private_copies.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "tests/engine/fake_executor.h"
#include "tests/engine/fake_frontend.h"
#include "tests/engine/trace_builder.h"

namespace reprise::engine {
namespace {

class PrivateCopiesTest : public testing::Test {
 protected:
  // Op 0 writes `mean`, op 2 writes `count`.
  PrivateCopiesTest() : builder_(&frontend_, kSizeBytes) {
    mean_ = builder_.External();
    builder_.Op({}, {mean_}, 1);
    builder_.Op({}, {}, 1);
    count_ = builder_.External();
    builder_.Op({}, {count_}, 1);
  }

  void Make() {
    program_ = std::make_unique<Program>(builder_.Take());
    const Trace& trace = *program_->trace;
    program_->place_bytes.assign(trace.values.size(), kSizeBytes);
    program_->effects = Effects(&trace, {}, {}, Effects::Remake::kWhatLasts, {},
                                {mean_, count_});
    std::vector<uint64_t> places;
    for (ValueId v = 0; v < trace.values.size(); ++v)
      places.push_back(Place(v));
    binding_ = std::make_unique<Binding>(program_.get(), std::move(places),
                                         &executor_);
    copies_ = std::make_unique<PrivateCopies>(program_.get(), binding_.get());
    Live(mean_);
    Live(count_);
  }
  void Live(ValueId v) {
    const Value& value = program_->trace->values[v];
    frontend_.bases[value.storage] = value.base;
  }

  static uint64_t Place(ValueId v) { return 0x7f10'0000'0000 + v * 512; }
  static uint64_t Home(ValueId v) { return TraceBuilder::AddressOf(v); }
  static void ExpectCopy(const kernels::RangeCopy& copy, uint64_t to,
                         uint64_t from) {
    EXPECT_EQ(copy.to, to);
    EXPECT_EQ(copy.from, from);
    EXPECT_EQ(copy.bytes, kSizeBytes);
  }

  static constexpr uint64_t kSizeBytes = 64;
  FakeFrontend frontend_;
  TraceBuilder builder_;
  FakeExecutor::Log log_;
  FakeExecutor executor_{&log_};
  std::unique_ptr<Program> program_;
  std::unique_ptr<Binding> binding_;
  std::unique_ptr<PrivateCopies> copies_;
  ValueId mean_, count_;
};

TEST_F(PrivateCopiesTest, AllAreTaken) {
  Make();
  ASSERT_EQ(copies_->takings().size(), 2u);
  ExpectCopy(copies_->takings()[0], Place(mean_), Home(mean_));
  ExpectCopy(copies_->takings()[1], Place(count_), Home(count_));
}

TEST_F(PrivateCopiesTest, OnlyWhatWasWrittenIsGivenBack) {
  Make();
  EXPECT_TRUE(copies_->GivingsBefore(0).empty());
  const std::vector<kernels::RangeCopy> one = copies_->GivingsBefore(2);
  ASSERT_EQ(one.size(), 1u);
  ExpectCopy(one[0], Home(mean_), Place(mean_));
  EXPECT_EQ(copies_->GivingsBefore(3).size(), 2u);
}

TEST_F(PrivateCopiesTest, AStorageThatIsGoneIsWrittenIfEagerAllocatesNothing) {
  Make();
  frontend_.bases.clear();
  EXPECT_EQ(copies_->GivingsBefore(3).size(), 2u);
}

TEST_F(PrivateCopiesTest, AStorageThatIsGoneIsNotWrittenIfEagerAllocates) {
  builder_.trace().ops[1].by_eager = true;
  Make();
  EXPECT_EQ(copies_->GivingsBefore(3).size(), 2u);
  frontend_.bases.erase(program_->trace->values[mean_].storage);
  const std::vector<kernels::RangeCopy> rest = copies_->GivingsBefore(3);
  ASSERT_EQ(rest.size(), 1u);
  ExpectCopy(rest[0], Home(count_), Place(count_));
}

}  // namespace
}  // namespace reprise::engine
