#include "engine/trace/library_frees.h"

#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <thread>

namespace reprise::engine {
namespace {

TEST(LibraryFreesTest, NothingIsEverFreedOfNothing) {
  const LibraryFrees::Seen nothing;
  EXPECT_FALSE(nothing.outdated());
  EXPECT_FALSE(nothing.may_end());
  EXPECT_FALSE(nothing.Keep()->owns_lock());
  const LibraryFrees frees;
  EXPECT_TRUE(frees.Look().may_end());
  EXPECT_NE(frees.Look(), LibraryFrees::Seen());
}

TEST(LibraryFreesTest, WhatWasSeenBeforeTheCallOrDuringItIsOutdated) {
  LibraryFrees frees;
  const auto before = frees.Look();
  EXPECT_FALSE(before.outdated());
  std::optional<LibraryFrees::Freeing> freeing(frees);
  EXPECT_TRUE(before.outdated());
  freeing.reset();
  EXPECT_FALSE(before.Keep());
  freeing.emplace(frees);
  const auto during = frees.Look();
  EXPECT_FALSE(during.outdated());
  freeing.reset();
  EXPECT_TRUE(during.outdated());
  EXPECT_FALSE(frees.Look().outdated());
  EXPECT_NE(frees.Look(), during);
  EXPECT_EQ(frees.Look(), frees.Look());
}

TEST(LibraryFreesTest, FreeingWaitsForAllThatKeep) {
  LibraryFrees frees;
  std::atomic<bool> freed = false;
  std::thread freer;
  {
    const auto seen = frees.Look();
    const auto one = seen.Keep();
    const auto other = seen.Keep();  // they keep at once
    freer = std::thread([&] {
      const LibraryFrees::Freeing freeing(frees);
      freed = true;
    });
    for (int i = 0; i < 1000; ++i) std::this_thread::yield();
    EXPECT_FALSE(freed);
    EXPECT_FALSE(seen.outdated());
  }
  freer.join();
  EXPECT_TRUE(freed);
}

}  // namespace
}  // namespace reprise::engine
