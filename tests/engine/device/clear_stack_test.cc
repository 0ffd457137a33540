// Proves that nothing of earlier calls is left on the stack.

#include "engine/device/clear_stack.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace reprise::device {
namespace {

constexpr uint64_t kLeft = 0x7f65'0002'b1f0;
// Room for what is called in between.
constexpr size_t kWords = kClearedStackBytes / sizeof(uint64_t) - 512;
using Words = std::array<uint64_t, kWords>;

[[gnu::noinline]] void Leave() {
  Words words;
  words.fill(kLeft);
  asm volatile("" : : "r"(words.data()) : "memory");
}

// Of words that are not written, as far as this program says; a compiler is
// told that they were.
[[gnu::noinline]] size_t CountLeft() {
  Words words;
  asm volatile("" : "=m"(words));
  size_t count = 0;
  for (const uint64_t word : words) count += word == kLeft;
  return count;
}

TEST(ClearStackTest, NothingOfEarlierCallsIsLeft) {
  Leave();
  ASSERT_GT(CountLeft(), kWords / 2);
  Leave();
  ClearStack();
  EXPECT_EQ(CountLeft(), 0u);
}

}  // namespace
}  // namespace reprise::device
