#include "engine/trace/library_frees.h"

#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <thread>

namespace reprise::engine {
namespace {

TEST(LibraryFreesTest, NothingIsEverFreedOfNothing) {
  EXPECT_FALSE(LibraryFrees::Seen().outdated());
  const LibraryFrees frees;
  EXPECT_NE(frees.Look(), LibraryFrees::Seen());
}

TEST(LibraryFreesTest, WhatWasSeenBeforeTheCallOrDuringItIsOutdated) {
  LibraryFrees frees;
  const auto before = frees.Look();
  EXPECT_FALSE(before.outdated());
  frees.Announce();
  EXPECT_TRUE(before.outdated());
  std::optional<LibraryFrees::Freeing> freeing(frees);
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
    const auto one = frees.Keep();
    const auto other = frees.Keep();  // they keep at once
    const auto seen = frees.Look();
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
