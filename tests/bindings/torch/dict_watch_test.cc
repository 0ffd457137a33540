// Changes of dictionaries: by versions where the interpreter keeps them, by the
// watcher's count.

#include "bindings/torch/dict_watch.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>

namespace reprise::bindings {
namespace {

// As PyDictObject begins, before Python 3.12.
struct Dict {
  std::array<uint64_t, 3> head = {};
  uint64_t version = 1;

  int64_t address() const { return reinterpret_cast<int64_t>(this); }
};

TEST(DictWatchTest, TellsOfEachChangeOnce) {
  std::array<Dict, 3> dicts;
  DictWatch watch({dicts[0].address(), dicts[1].address(), dicts[2].address()});
  EXPECT_FALSE(watch.Changed());
  dicts[1].version = 7;
  EXPECT_TRUE(watch.Changed());
  EXPECT_FALSE(watch.Changed());
  dicts[0].version = dicts[2].version = 9;
  EXPECT_TRUE(watch.Changed());
  EXPECT_FALSE(watch.Changed());
}

TEST(DictWatchTest, TellsOfWhatTheWatcherWasTold) {
  DictWatch watch;
  DictWatch other;
  EXPECT_FALSE(watch.Changed());
  const auto watcher =
      reinterpret_cast<int (*)(int, void*, void*, void*)>(DictWatch::Watcher());
  EXPECT_EQ(watcher(0, nullptr, nullptr, nullptr), 0);
  EXPECT_TRUE(watch.Changed());
  EXPECT_FALSE(watch.Changed());
  EXPECT_TRUE(other.Changed());
}

}  // namespace
}  // namespace reprise::bindings
