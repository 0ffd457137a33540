// Proves that a timeline keeps the last events while somebody has started it,
// and says how many are gone.

#include "scheduler/timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

namespace reprise::scheduler {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

Timeline::Event Event(uint32_t number) {
  Timeline::Event event;
  event.ops = number;
  return event;
}

std::vector<uint32_t> Numbers(const Timeline::Excerpt& excerpt) {
  std::vector<uint32_t> numbers;
  for (const Timeline::Event& event : excerpt.events) {
    numbers.push_back(event.ops);
  }
  return numbers;
}

TEST(TimelineTest, KeepsWhatComesBetweenStartAndStop) {
  Timeline timeline;
  EXPECT_FALSE(timeline.on());
  timeline.Add(Event(1));
  const Timeline::Position begin = timeline.Start();
  EXPECT_TRUE(timeline.on());
  timeline.Add(Event(2));
  timeline.Add(Event(3));
  EXPECT_THAT(Numbers(timeline.Since(begin)), ElementsAre(2, 3));
  timeline.Stop();
  EXPECT_FALSE(timeline.on());
  timeline.Add(Event(4));
  const Timeline::Position again = timeline.Start();
  timeline.Add(Event(5));
  EXPECT_THAT(Numbers(timeline.Since(again)), ElementsAre(5));
}

TEST(TimelineTest, EachWhoStartedItReadsFromWhereItDid) {
  Timeline timeline;
  const Timeline::Position outer = timeline.Start();
  timeline.Add(Event(1));
  const Timeline::Position inner = timeline.Start();
  timeline.Add(Event(2));
  EXPECT_THAT(Numbers(timeline.Since(inner)), ElementsAre(2));
  timeline.Stop();
  EXPECT_TRUE(timeline.on());
  timeline.Add(Event(3));
  EXPECT_THAT(Numbers(timeline.Since(outer)), ElementsAre(1, 2, 3));
  timeline.Stop();
  EXPECT_FALSE(timeline.on());
}

TEST(TimelineTest, ForgetsTheOldestAndCountsThem) {
  constexpr size_t kMost = 1000;  // several reads' worth
  Timeline timeline(&base::kSteadyClock, kMost);
  const Timeline::Position begin = timeline.Start();
  for (uint32_t i = 0; i < kMost; ++i) timeline.Add(Event(i));
  EXPECT_EQ(timeline.Since(begin).lost, 0u);
  for (uint32_t i = kMost; i < 2500; ++i) timeline.Add(Event(i));
  const Timeline::Excerpt excerpt = timeline.Since(begin);
  EXPECT_EQ(excerpt.lost, 1500u);
  ASSERT_THAT(excerpt.events, SizeIs(kMost));
  EXPECT_EQ(excerpt.events.front().ops, 1500u);
  EXPECT_EQ(excerpt.events.back().ops, 2499u);
}

// Events go on coming while they are read: what is read has no gap, and what
// was written over is counted.
TEST(TimelineTest, IsReadWhileEventsCome) {
  constexpr size_t kMost = 600;
  Timeline timeline(&base::kSteadyClock, kMost);
  const Timeline::Position begin = timeline.Start();
  std::atomic<bool> stop{false};
  std::thread adder([&] {
    for (uint32_t i = 0; !stop.load(std::memory_order_relaxed); ++i) {
      timeline.Add(Event(i));
    }
  });
  for (int i = 0; i < 200; ++i) {
    const Timeline::Excerpt excerpt = timeline.Since(begin);
    EXPECT_LE(excerpt.events.size(), kMost);
    for (size_t k = 0; k < excerpt.events.size(); ++k) {
      ASSERT_EQ(excerpt.events[k].ops, excerpt.lost + k);
    }
  }
  stop.store(true, std::memory_order_relaxed);
  adder.join();
}

TEST(TimelineTest, ItsTextHasTimesOfUnixAndOnlyWhatIsKnown) {
  using std::chrono::nanoseconds;
  using std::chrono::system_clock;
  Timeline timeline;
  (void)timeline.AddTrack("plans");
  Timeline::Event event = Event(7);
  event.doing = Doing::kSquashing;
  event.track = timeline.AddTrack("host");
  event.begin = event.end = timeline.Now();
  event.end += std::chrono::microseconds(3);
  event.left_at = 2;
  event.signature = {.hi = 1, .lo = 2};
  std::ranges::copy(std::string_view("aten::tanh"), event.note.begin());
  const Timeline::Position begin = timeline.Start();
  timeline.Add(Event(8));
  timeline.Add(event);
  Timeline::Excerpt excerpt = timeline.Since(begin);
  excerpt.places[1] = {"train.py:3"};
  const auto text = nlohmann::json::parse(TimelineJson(excerpt));
  EXPECT_THAT(text["tracks"], ElementsAre("plans", "host"));
  EXPECT_EQ(text["lost"], 0);
  ASSERT_THAT(text["events"], SizeIs(2));
  EXPECT_FALSE(text["events"][0].contains("left_at"));
  EXPECT_FALSE(text["events"][0].contains("note"));
  EXPECT_FALSE(text["events"][0].contains("places"));
  const auto& squash = text["events"][1];
  EXPECT_EQ(squash["doing"], "squash");
  EXPECT_EQ(squash["track"], 1);
  EXPECT_EQ(squash["left_at"], 2);
  EXPECT_EQ(squash["note"], "aten::tanh");
  EXPECT_EQ(squash["signature"], event.signature.ToHex());
  EXPECT_THAT(squash["places"], ElementsAre("train.py:3"));
  EXPECT_EQ(squash["end_ns"].get<int64_t>() - squash["begin_ns"].get<int64_t>(),
            3000);
  // The machine's, as a calendar has it: within a day.
  const nanoseconds now = system_clock::now().time_since_epoch();
  EXPECT_LT(
      std::chrono::abs(now - nanoseconds(squash["begin_ns"].get<int64_t>())),
      std::chrono::days(1));
}

TEST(TimelineTest, ATextThatWasCutWithinACharacterIsStillText) {
  Timeline timeline;
  const Timeline::Position begin = timeline.Start();
  Timeline::Event event;
  event.note[0] = 'a';
  event.note[1] = '\xC3';  // the first half of an umlaut
  timeline.Add(event);
  const auto text = nlohmann::json::parse(TimelineJson(timeline.Since(begin)));
  EXPECT_THAT(text["events"][0]["note"], testing::StartsWith("a"));
}

TEST(TimelineTest, NothingIsReadOfOneThatWasStopped) {
  Timeline timeline;
  const Timeline::Position begin = timeline.Start();
  timeline.Add(Event(1));
  timeline.Stop();
  EXPECT_THAT(timeline.Since(begin).events, IsEmpty());
}

}  // namespace
}  // namespace reprise::scheduler
