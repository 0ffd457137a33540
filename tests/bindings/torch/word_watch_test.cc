// Words that others change: each change is told once.

#include "bindings/torch/base/word_watch.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>

namespace reprise::bindings {
namespace {

template <typename T>
int64_t AddressOf(const T& word) {
  return reinterpret_cast<int64_t>(&word);
}

TEST(WordWatchTest, TellsEachWhoAsksOfAChange) {
  std::array<uint64_t, 3> words = {1, 2, 3};
  WordWatch watch({AddressOf(words[0]), AddressOf(words[2])});
  EXPECT_FALSE(watch.Changed());
  words[1] = 5;  // nobody's
  EXPECT_FALSE(watch.Changed());
  words[2] = 7;
  EXPECT_TRUE(watch.Changed());
  EXPECT_TRUE(watch.Changed());
  const WordWatch anew = watch.Anew();
  EXPECT_FALSE(anew.Changed());
  EXPECT_TRUE(watch.Changed());
  words[0] = words[2] = 9;
  EXPECT_TRUE(anew.Changed());
  EXPECT_FALSE(anew.Anew().Changed());
}

TEST(WordWatchTest, TellsOfWhatTheWatcherOfDictionariesWasTold) {
  std::array<char, 2> dicts = {};  // any two addresses
  const int64_t word = WordWatch::DictWord(AddressOf(dicts[0]));
  WordWatch watch({}, {word});
  WordWatch other({}, {word});
  EXPECT_FALSE(watch.Changed());
  const auto watcher = reinterpret_cast<int (*)(int, void*, void*, void*)>(
      WordWatch::DictWatcher());
  // Deallocated ones are nobody's.
  EXPECT_EQ(watcher(5, &dicts[0], nullptr, nullptr), 0);
  EXPECT_FALSE(watch.Changed());
  EXPECT_EQ(watcher(0, &dicts[0], nullptr, nullptr), 0);
  EXPECT_TRUE(watch.Changed());
  EXPECT_FALSE(watch.Anew().Changed());
  EXPECT_TRUE(other.Changed());
  WordWatch of_another({}, {WordWatch::DictWord(AddressOf(dicts[1]))});
  EXPECT_EQ(watcher(0, &dicts[0], nullptr, nullptr), 0);
  EXPECT_FALSE(of_another.Changed());
  EXPECT_EQ(watcher(0, &dicts[1], nullptr, nullptr), 0);
  EXPECT_TRUE(of_another.Changed());
  EXPECT_TRUE(of_another.Changed());
  EXPECT_FALSE(of_another.Anew().Changed());
}

TEST(WordWatchTest, OfNothingTellsNothing) {
  WordWatch watch({});
  EXPECT_FALSE(watch.Changed());
}

}  // namespace
}  // namespace reprise::bindings
