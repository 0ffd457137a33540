#include "cache/signature.h"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <set>
#include <unordered_set>
#include <vector>

namespace reprise::cache {
namespace {

Signature Hash(const std::vector<std::vector<uint64_t>>& ops) {
  SignatureHasher hasher;
  for (const auto& words : ops) hasher.Update(words);
  return hasher.Value();
}

TEST(SignatureTest, EqualTracesHaveEqualSignatures) {
  EXPECT_EQ(Hash({{1, 2, 3}, {4}}), Hash({{1, 2, 3}, {4}}));
}

TEST(SignatureTest, OrderCounts) {
  EXPECT_NE(Hash({{1, 2}, {3, 4}}), Hash({{3, 4}, {1, 2}}));
  EXPECT_NE(Hash({{1, 2}}), Hash({{2, 1}}));
}

TEST(SignatureTest, BoundariesCount) {
  EXPECT_NE(Hash({{1, 2}, {3}}), Hash({{1}, {2, 3}}));
  EXPECT_NE(Hash({{1, 2, 3}}), Hash({{1}, {2}, {3}}));
}

TEST(SignatureTest, EmptyUpdatesCount) {
  EXPECT_NE(Hash({}), Hash({{}}));
  EXPECT_NE(Hash({{}}), Hash({{}, {}}));
}

TEST(SignatureTest, TrailingZerosCount) {
  EXPECT_NE(Hash({{1}}), Hash({{1, 0}}));
  EXPECT_NE(Hash({{0}}), Hash({{0, 0}}));
}

// Every size class of the hash: below 17, 129 and 241 bytes, and above.
TEST(SignatureTest, EveryBitOfEveryWordCounts) {
  for (size_t size : {1, 2, 3, 16, 17, 24, 30, 31, 64, 200}) {
    std::set<Signature> seen;
    std::vector<uint64_t> words(size, 0x5555);
    seen.insert(Hash({words}));
    for (size_t i = 0; i < size * 64; ++i) {
      words[i / 64] ^= uint64_t{1} << (i % 64);
      seen.insert(Hash({words}));
      words[i / 64] ^= uint64_t{1} << (i % 64);
    }
    EXPECT_EQ(seen.size(), size * 64 + 1) << size << " words";
  }
}

// What differed once differs for ever: later updates do not wash it out.
TEST(SignatureTest, DifferenceSurvivesLaterUpdates) {
  SignatureHasher left, right;
  left.Update(std::array<uint64_t, 1>{1});
  right.Update(std::array<uint64_t, 1>{2});
  for (uint64_t i = 0; i < 10000; ++i) {
    left.Update(std::array<uint64_t, 1>{i});
    right.Update(std::array<uint64_t, 1>{i});
    ASSERT_NE(left.Value().hi, right.Value().hi);
    ASSERT_NE(left.Value().lo, right.Value().lo);
  }
}

TEST(SignatureTest, EachHalfSpreadsOverItsBits) {
  SignatureHasher hasher;
  std::array<int, 128> ones{};
  constexpr int kCount = 4096;
  for (uint64_t i = 0; i < kCount; ++i) {
    hasher.Update(std::array<uint64_t, 2>{i, 0});
    for (int bit = 0; bit < 64; ++bit) {
      ones[bit] += (hasher.Value().lo >> bit) & 1;
      ones[64 + bit] += (hasher.Value().hi >> bit) & 1;
    }
  }
  for (int count : ones) EXPECT_NEAR(count, kCount / 2, 6 * 32);
}

TEST(SignatureTest, CopyForksTheTrace) {
  SignatureHasher hasher;
  hasher.Update(std::array<uint64_t, 1>{1});
  SignatureHasher fork = hasher;
  fork.Update(std::array<uint64_t, 1>{2});
  EXPECT_EQ(hasher.Value(), Hash({{1}}));
  EXPECT_EQ(fork.Value(), Hash({{1}, {2}}));
}

// Signatures may be kept on disk: a change of theirs needs a new version.
TEST(SignatureTest, ValueIsPartOfTheVersion) {
  EXPECT_EQ(kSignatureVersion, 2u);
  EXPECT_EQ(Hash({{1, 2, 3}, {4}}).ToHex(), "f16afa45a5b2eb3a61a9eed876d3b1fb");
}

TEST(SignatureTest, HexShowsEveryDigit) {
  const Signature signature{0x0123456789abcdef, 0xfedcba9876543210};
  EXPECT_EQ(signature.ToHex(), "0123456789abcdeffedcba9876543210");
}

TEST(SignatureTest, IsAKeyOfUnorderedSets) {
  std::unordered_set<Signature> set = {Hash({{1}}), Hash({{2}}), Hash({{1}})};
  EXPECT_EQ(set.size(), 2u);
}

}  // namespace
}  // namespace reprise::cache
