// Proves that the names of bytes are XXH3's, everywhere, and tell bytes apart.

#include "kernels/hash_bytes.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>

namespace reprise::kernels {
namespace {

// Names are kept on disk: another machine must find what this one has written.
TEST(HashBytesTest, NamesAreThoseOfXxh3) {
  EXPECT_EQ(HashBytes({}).ToHex(), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(HashBytes(std::string("abc")).ToHex(),
            "06b05ab6733a618578af5f94892f3950");
}

TEST(HashBytesTest, EveryByteCounts) {
  // Beyond what is hashed byte by byte.
  const std::string bytes(1000, 'x');
  EXPECT_EQ(HashBytes(bytes), HashBytes(std::string(1000, 'x')));
  EXPECT_NE(HashBytes(bytes), HashBytes(std::string(999, 'x')));
  for (const size_t at : {0, 500, 999}) {
    std::string other = bytes;
    other[at] = 'y';
    EXPECT_NE(HashBytes(other), HashBytes(bytes)) << at;
  }
}

TEST(HashBytesTest, AZeroBehindTheTextCounts) {
  EXPECT_NE(HashBytes(std::string("abc")), HashBytes(std::string("abc\0", 4)));
}

}  // namespace
}  // namespace reprise::kernels
