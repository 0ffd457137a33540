// Proves that addresses of the host's buffers are given once, and known for
// what they are as long as the process lives.

#include "bindings/native/host_arena.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace reprise::native {
namespace {

using ::testing::HasSubstr;

class HostArenaTest : public testing::Test {
 protected:
  std::byte* Make(size_t bytes) {
    const auto memory = arena_.Allocate(bytes, this);
    EXPECT_TRUE(memory);
    return memory ? static_cast<std::byte*>(*memory) : nullptr;
  }
  std::string Why(const void* begin, uint64_t bytes,
                  const void* owner = nullptr) {
    const Status checked =
        arena_.Check(begin, bytes, owner != nullptr ? owner : this);
    if (checked) return "";
    EXPECT_EQ(checked.error().code(), Code::kInvalidArgument);
    return checked.error().message();
  }

  HostArena& arena_ = HostArena::Get();
};

TEST_F(HostArenaTest, NewMemoryIsAlignedAndHasAllBitsSet) {
  for (const size_t bytes : {1, 100, 5000}) {
    std::byte* memory = Make(bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 256, 0u);
    EXPECT_EQ(std::count(memory, memory + bytes, std::byte{0xff}), bytes);
    arena_.Free(memory);
  }
}

TEST_F(HostArenaTest, WhatLiesWithinABufferOfTheOwnersIsTaken) {
  std::byte* memory = Make(100);
  EXPECT_EQ(Why(memory, 100), "");
  EXPECT_EQ(Why(memory + 40, 60), "");
  EXPECT_EQ(Why(memory + 100, 0), "");  // its end
  EXPECT_EQ(Why(memory + 40, 61),
            "61 bytes from byte 40 on of a buffer of 100 bytes: give a larger "
            "one, or name less of it");
  EXPECT_THAT(Why(memory + 101, 0), HasSubstr("a pointer where no buffer is"));
  const int other = 0;
  EXPECT_THAT(Why(memory, 100, &other),
              HasSubstr("100 bytes of a buffer of another runtime"));
  arena_.Free(memory);
  EXPECT_THAT(Why(memory, 100), HasSubstr("100 bytes where no buffer is"));
}

TEST_F(HostArenaTest, ABufferOfNothingHasAnAddress) {
  std::byte* memory = Make(0);
  std::byte* other = Make(0);
  EXPECT_NE(memory, other);
  EXPECT_EQ(Why(memory, 0), "");
  EXPECT_NE(Why(memory, 1), "");
  arena_.Free(memory);
  arena_.Free(other);
}

TEST_F(HostArenaTest, AnAddressIsGivenOnce) {
  std::set<std::byte*> given;
  for (int i = 0; i < 100; ++i) {
    std::byte* memory = Make(1000);
    EXPECT_TRUE(given.insert(memory).second);
    arena_.Free(memory);
    EXPECT_TRUE(arena_.Has(memory));
  }
}

TEST_F(HostArenaTest, MemoryOfTheProgramIsTakenAsItIs) {
  const int own = 0;
  EXPECT_FALSE(arena_.Has(&own));
  EXPECT_EQ(Why(&own, uint64_t{1} << 40), "");
}

TEST_F(HostArenaTest, MemoryThatTheHostHasNotIsAnError) {
  for (const size_t bytes : {size_t{1} << 61, size_t{1} << 62, ~size_t{0}}) {
    const auto memory = arena_.Allocate(bytes, this);
    ASSERT_FALSE(memory);
    EXPECT_EQ(memory.error().code(), Code::kResourceExhausted);
    EXPECT_EQ(memory.error().message(),
              "the host has no " + std::to_string(bytes) + " bytes");
  }
}

// Those that its neighbours have a part of stay.
TEST_F(HostArenaTest, PagesOfAFreedBufferGoBackToTheHost) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  std::byte* before = Make(100);
  std::byte* memory = Make(64 * page);
  std::byte* behind = Make(100);
  const auto resident = [&] {
    const uintptr_t begin =
        (reinterpret_cast<uintptr_t>(memory) + page - 1) / page * page;
    std::vector<unsigned char> pages(63);
    EXPECT_EQ(mincore(reinterpret_cast<void*>(begin), 63 * page, pages.data()),
              0);
    return std::count_if(pages.begin(), pages.end(),
                         [](unsigned char one) { return (one & 1) != 0; });
  };
  EXPECT_EQ(resident(), 63);
  arena_.Free(memory);
  EXPECT_LE(resident(), 1);
  for (std::byte* neighbour : {before, behind}) {
    EXPECT_EQ(std::count(neighbour, neighbour + 100, std::byte{0xff}), 100);
    arena_.Free(neighbour);
  }
}

// What begins behind one is no other one's.
TEST_F(HostArenaTest, BuffersLieApart) {
  std::byte* first = Make(256);
  std::byte* second = Make(256);
  EXPECT_GT(second - first, 256);
  EXPECT_THAT(Why(first + 257, 0), HasSubstr("where no buffer is"));
  EXPECT_NE(Why(first, 512), "");
  arena_.Free(first);
  arena_.Free(second);
}

}  // namespace
}  // namespace reprise::native
