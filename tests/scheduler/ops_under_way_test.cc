// An op that has been entered stands in the book until it has returned, with
// the memory that it may write.

#include "scheduler/ops_under_way.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>

namespace reprise::scheduler {
namespace {

engine::Operand Written(uint64_t base, uint64_t bytes) {
  engine::Operand operand;
  operand.base = base;
  operand.storage_bytes = bytes;
  operand.written = true;
  return operand;
}

engine::Operand Read(uint64_t base, uint64_t bytes) {
  engine::Operand operand = Written(base, bytes);
  operand.written = false;
  return operand;
}

constexpr int kSession = 0;

bool MayWrite(const OpsUnderWay& book, uint64_t begin, uint64_t end,
              const void* asking = &kSession,
              DeviceKind kind = DeviceKind::kCuda) {
  return book.MayWrite({asking, kind}, [begin, end](auto overlaps) {
    return overlaps(begin, end);
  });
}

// An op on memory of the host while GPUs are watched: for whoever serves the
// host next.
TEST(OpsUnderWayTest, AnOpElsewhereCountsForTheOtherKindOfDevice) {
  constexpr auto kHost = DeviceKind::kHost;
  constexpr auto kCuda = DeviceKind::kCuda;
  OpsUnderWay book;
  OpsUnderWay::Slot* const slot = book.Acquire();
  slot->NoteElsewhere(OpsUnderWay::SessionsOf(kCuda));
  EXPECT_TRUE(slot->empty());
  EXPECT_TRUE(book.EmptyFor(kCuda));
  EXPECT_FALSE(book.EmptyFor(kHost));
  EXPECT_FALSE(MayWrite(book, 1000, 1010, &kSession, kCuda));
  EXPECT_TRUE(MayWrite(book, 1000, 1010, &kSession, kHost));
  // Ops within it: one that writes nothing, and one that may write anything as
  // far as others can tell.
  const std::array reads = {Read(5000, 50)};
  slot->Begin(reads, &kSession);
  EXPECT_FALSE(MayWrite(book, 1000, 1010, &kSession, kCuda));
  slot->End();
  const std::array operands = {Written(5000, 50)};
  slot->Begin(operands, &kSession);
  EXPECT_FALSE(slot->empty());
  EXPECT_TRUE(MayWrite(book, 1000, 1010, &kSession, kCuda));
  EXPECT_TRUE(MayWrite(book, 1000, 1010, &kSession, kHost));
  slot->End();
  EXPECT_TRUE(slot->empty());
  EXPECT_FALSE(MayWrite(book, 1000, 1010, &kSession, kCuda));
  EXPECT_TRUE(MayWrite(book, 1000, 1010, &kSession, kHost));
  slot->EndElsewhere();
  EXPECT_TRUE(book.EmptyFor(kHost));
  EXPECT_FALSE(MayWrite(book, 1000, 1010, &kSession, kHost));
}

TEST(OpsUnderWayTest, DoesNotCountForASessionThatHasNotAnswered) {
  OpsUnderWay book;
  const int session = 0;
  const int other = 0;
  OpsUnderWay::Slot* const slot = book.Acquire();
  const std::array operands = {Written(1000, 50)};
  slot->Begin(operands, &session);
  EXPECT_FALSE(MayWrite(book, 1000, 1010, &session));
  EXPECT_TRUE(MayWrite(book, 1000, 1010, &other));
  slot->CountForAll();
  EXPECT_TRUE(MayWrite(book, 1000, 1010, &session));
  slot->End();
  slot->Begin(operands, &session);
  slot->End();
  slot->BeginAnything();
  EXPECT_TRUE(MayWrite(book, 1000, 1010, &session));
}

TEST(OpsUnderWayTest, HoldsWhatAnOpWritesUntilItReturns) {
  OpsUnderWay book;
  OpsUnderWay::Slot* const slot = book.Acquire();
  const std::array operands = {Read(100, 50), Written(1000, 50)};
  slot->Begin(operands);
  EXPECT_TRUE(MayWrite(book, 1049, 2000));
  EXPECT_TRUE(MayWrite(book, 0, 1001));
  EXPECT_FALSE(MayWrite(book, 100, 150));
  EXPECT_FALSE(MayWrite(book, 1050, 2000));
  EXPECT_FALSE(MayWrite(book, 0, 1000));
  slot->End();
  EXPECT_FALSE(MayWrite(book, 1000, 1050));
}

TEST(OpsUnderWayTest, AnOpThatWritesNothingIsNotNoted) {
  OpsUnderWay book;
  OpsUnderWay::Slot* const slot = book.Acquire();
  slot->Begin(std::array{Read(0, 50)});
  EXPECT_TRUE(slot->empty());
  EXPECT_FALSE(MayWrite(book, 0, 50));
}

TEST(OpsUnderWayTest, ManyRangesAreCoveredByOne) {
  OpsUnderWay book;
  OpsUnderWay::Slot* const slot = book.Acquire();
  slot->Begin(std::array{Written(0, 10), Written(100, 10), Written(900, 10),
                         Written(300, 10), Written(200, 10)});
  for (const uint64_t begin : {0, 100, 200, 300, 900}) {
    EXPECT_TRUE(MayWrite(book, begin, begin + 1)) << begin;
  }
  EXPECT_FALSE(MayWrite(book, 50, 60));
  EXPECT_FALSE(MayWrite(book, 910, 1000));
}

TEST(OpsUnderWayTest, AnythingMeetsAllMemory) {
  OpsUnderWay book;
  OpsUnderWay::Slot* const slot = book.Acquire();
  slot->BeginAnything();
  EXPECT_TRUE(MayWrite(book, 7, 8));
  slot->End();
  EXPECT_FALSE(MayWrite(book, 7, 8));
}

TEST(OpsUnderWayTest, EachThreadHasASlotThatTheNextOneTakesOver) {
  OpsUnderWay book;
  OpsUnderWay::Slot* const one = book.Acquire();
  OpsUnderWay::Slot* const other = book.Acquire();
  EXPECT_NE(one, other);
  one->Begin(std::array{Written(0, 10)});
  other->Begin(std::array{Written(100, 10)});
  EXPECT_TRUE(MayWrite(book, 0, 10));
  EXPECT_TRUE(MayWrite(book, 100, 110));
  OpsUnderWay::Release(one);
  EXPECT_FALSE(MayWrite(book, 0, 10));
  EXPECT_TRUE(MayWrite(book, 100, 110));
  EXPECT_EQ(book.Acquire(), one);
}

}  // namespace
}  // namespace reprise::scheduler
