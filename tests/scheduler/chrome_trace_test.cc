// A timeline of batches as trace viewers read it.

#include "scheduler/chrome_trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace reprise::scheduler {
namespace {

using nlohmann::json;
using std::chrono::microseconds;

Timeline::Event MakeEvent(Doing doing, std::string_view note,
                          microseconds length) {
  Timeline::Event event;
  event.doing = doing;
  event.thread = 77;
  event.begin = std::chrono::steady_clock::now();
  event.end = event.begin + length;
  event.ops = 3;
  std::ranges::copy(note, event.note.begin());
  return event;
}

Timeline::Excerpt OfOneStream() {
  Timeline::Excerpt excerpt;
  excerpt.tracks = {"stream 1"};
  return excerpt;
}

json Parsed(const Timeline::Excerpt& excerpt) {
  return json::parse(ChromeTraceJson(excerpt));
}

TEST(ChromeTraceTest, AnEmptyTimelineIsATrace) {
  const json trace = Parsed({});
  EXPECT_EQ(trace["traceEvents"].size(), 1u);  // the name of the process
  EXPECT_EQ(trace["lostEvents"], 0);
}

TEST(ChromeTraceTest, SpansHaveALengthAndOthersAPoint) {
  Timeline::Excerpt excerpt = OfOneStream();
  excerpt.lost = 4;
  excerpt.events = {
      MakeEvent(Doing::kReplaying, "step", microseconds(12)),
      MakeEvent(Doing::kRejected, "step: out of memory", {}),
  };
  const json trace = Parsed(excerpt);
  EXPECT_EQ(trace["lostEvents"], 4);
  const json& replay = trace["traceEvents"][1];
  EXPECT_EQ(replay["name"], "replay step");
  EXPECT_EQ(replay["ph"], "X");
  EXPECT_EQ(replay["dur"], 12.0);
  EXPECT_EQ(replay["tid"], 1);
  EXPECT_EQ(replay["args"]["launches"], 3);
  const json& rejection = trace["traceEvents"][2];
  EXPECT_EQ(rejection["name"], "rejection");
  EXPECT_EQ(rejection["ph"], "i");
  EXPECT_EQ(rejection["args"]["note"], "step: out of memory");
}

TEST(ChromeTraceTest, BuildsStandOnTheirThreadsTrack) {
  Timeline::Excerpt excerpt = OfOneStream();
  excerpt.events = {MakeEvent(Doing::kBuilding, "step", microseconds(1))};
  const json trace = Parsed(excerpt);
  const json& build = trace["traceEvents"][1];
  EXPECT_EQ(build["args"]["for"], "stream 1");
  const auto name = std::ranges::find_if(
      trace["traceEvents"],
      [](const json& row) { return row["name"] == "thread_name"; });
  ASSERT_NE(name, trace["traceEvents"].end());
  EXPECT_EQ((*name)["args"]["name"], "builds on thread 77");
  EXPECT_EQ((*name)["tid"], build["tid"]);
}

// A file's times are those of the system's clock, from the base that it names.
TEST(ChromeTraceTest, TimesAreThoseOfTheSystem) {
  Timeline::Excerpt excerpt = OfOneStream();
  const auto before = std::chrono::system_clock::now().time_since_epoch();
  excerpt.events = {MakeEvent(Doing::kLaunching, "step", {})};
  const auto after = std::chrono::system_clock::now().time_since_epoch();
  const json trace = Parsed(excerpt);
  const double at_us = trace["baseTimeNanoseconds"].get<double>() / 1e3 +
                       trace["traceEvents"][1]["ts"].get<double>();
  const auto us = [](auto time) {
    return std::chrono::duration<double, std::micro>(time).count();
  };
  // Of two clocks read one behind the other.
  constexpr double kSlackUs = 1e6;
  EXPECT_GE(at_us, us(before) - kSlackUs);
  EXPECT_LE(at_us, us(after) + kSlackUs);
}

TEST(ChromeTraceTest, NotesThatWereCutWithinACharacterAreText) {
  Timeline::Excerpt excerpt = OfOneStream();
  excerpt.events = {MakeEvent(Doing::kLaunching, "caf\xC3", {})};
  EXPECT_FALSE(Parsed(excerpt)["traceEvents"].empty());
}

}  // namespace
}  // namespace reprise::scheduler
