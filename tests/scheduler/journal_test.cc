// Proves that a journal counts what it is told and stays within its bounds.

#include "scheduler/journal.h"

#include <gtest/gtest.h>

#include <string>
#include <tuple>

namespace reprise::scheduler {
namespace {

TEST(JournalTest, CountsWhatItIsTold) {
  Journal journal;
  for (int i = 0; i < 3; ++i) ++journal.cuts[{7, "looks"}];
  ++journal.cuts[{8, "looks"}];
  ++journal.rejections[{"ab", "differs"}];
  ++journal.squashes[{"ab", 4, "add"}];
  journal.notes["released"] += 5;
  EXPECT_EQ(journal.cuts.count({7, "looks"}), 3u);
  EXPECT_EQ(journal.cuts.count({8, "looks"}), 1u);
  EXPECT_EQ(journal.cuts.count({9, "looks"}), 0u);
  EXPECT_EQ(journal.rejections.count({"ab", "differs"}), 1u);
  EXPECT_EQ(journal.rejections.count({"differs", "ab"}), 0u);
  EXPECT_EQ(journal.squashes.count({"ab", 4, "add"}), 1u);
  EXPECT_EQ(journal.notes.count("released"), 5u);
  EXPECT_EQ(journal.cuts.size(), 2u);
  EXPECT_EQ(journal.forgotten(), 0u);
}

TEST(JournalTest, ForgetsWhatWasNotCountedForLongest) {
  Journal journal;
  ++journal.notes["at first"];
  for (int i = 0; i < 100000; ++i) {
    ++journal.rejections[{std::to_string(i), "differs"}];
    ++journal.squashes[{std::to_string(i), 3, "add"}];
    ++journal.cuts[{static_cast<engine::OpId>(i), "looks"}];
    ++journal.notes["note " + std::to_string(i)];
    ++journal.notes["again and again"];
  }
  constexpr size_t kMost = Tally<std::string>::kMostBytes / sizeof(std::string);
  EXPECT_LT(journal.rejections.size(), kMost);
  EXPECT_LT(journal.squashes.size(), kMost);
  EXPECT_LT(journal.cuts.size(), kMost);
  EXPECT_LT(journal.notes.size(), kMost);
  EXPECT_EQ(journal.forgotten() + journal.rejections.size() +
                journal.squashes.size() + journal.cuts.size() +
                journal.notes.size(),
            400002u);
  EXPECT_EQ(journal.notes.count("at first"), 0u);
  EXPECT_EQ(journal.notes.count("again and again"), 100000u);
  EXPECT_EQ(journal.rejections.count({"99999", "differs"}), 1u);
}

TEST(JournalTest, LongTextsCountForWhatTheyTake) {
  Journal journal;
  constexpr size_t kText = size_t{1} << 12;
  for (int i = 0; i < 1000; ++i) {
    ++journal.notes[std::string(kText, 'a') + std::to_string(i)];
  }
  EXPECT_LT(journal.notes.size(), Tally<std::string>::kMostBytes / kText);
  EXPECT_GT(journal.notes.size(), Tally<std::string>::kMostBytes / kText / 4);
}

TEST(JournalTest, ClearedItBeginsAnew) {
  Journal journal;
  for (int i = 0; i < 100000; ++i) ++journal.notes[std::to_string(i)];
  journal.stats.ops = 5;
  journal.Clear();
  EXPECT_EQ(journal.notes.size(), 0u);
  EXPECT_EQ(journal.forgotten(), 0u);
  EXPECT_EQ(journal.stats.ops, 0u);
}

}  // namespace
}  // namespace reprise::scheduler
