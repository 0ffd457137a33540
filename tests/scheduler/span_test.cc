// Proves that each pass of a stream, and each build, is one event of the
// timeline, with how long it took and how it ended.

#include "scheduler/span.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "tests/scheduler/twin_programs.h"

namespace reprise::scheduler {
namespace {

using std::chrono::microseconds;

class SpanTest : public TwinPrograms {
 protected:
  static constexpr uint32_t kOps = 8;
  static constexpr microseconds kPass{50};

  // kOps ops, with an op of another kind before the last one where it turns
  // off; the clock goes on in the middle.
  void Step(int i, bool turns_off = false) {
    Both([&](Side& side) {
      sim::ModelTensor h = side.program->Make(static_cast<float>(i), 64);
      for (uint32_t k = 0; k < kOps; ++k) {
        if (k + 1 == kOps && turns_off) h = side.program->Scale(h, 3);
        h = side.program->Add(h, side.weights[k]);
        if (k == 3 && side.program == watched_.program) clock_.Advance(kPass);
      }
      side.program->Read(h);
      return Held{h};
    });
  }

  std::vector<Timeline::Event> Events() {
    return timeline_.Since(begin_).events;
  }
  std::vector<Timeline::Event> Events(Doing doing) {
    std::vector<Timeline::Event> events = Events();
    std::erase_if(events, [doing](const Timeline::Event& event) {
      return event.doing != doing;
    });
    return events;
  }

  Timeline::Position begin_ = timeline_.Start();
};

TEST_F(SpanTest, EachPassIsOneEvent) {
  for (int i = 0; i < 20; ++i) Step(i);
  EXPECT_EQ(Events(Doing::kRecording).size(), 1u);
  EXPECT_EQ(Events(Doing::kRecordingAgain).size(), 1u);
  EXPECT_EQ(stats().recorded, 2u) << Traces();
  EXPECT_EQ(Events(Doing::kBuilding).size(), stats().builds);
  EXPECT_EQ(Events(Doing::kValidatingOps).size(), 1u);
  EXPECT_EQ(Events(Doing::kValidatingWhole).size(), 1u);
  EXPECT_GT(stats().replays, 10u) << Traces();
  EXPECT_EQ(Events(Doing::kReplaying).size(), stats().replays);
  // And nothing else.
  EXPECT_EQ(Events().size(), 5 + stats().replays);
  for (const Timeline::Event& event : Events()) {
    EXPECT_EQ(event.ops, kOps);
    EXPECT_EQ(event.left_at, Timeline::kNoOp);
    EXPECT_EQ(event.text(), "");
    const bool is_pass = event.doing != Doing::kBuilding;
    EXPECT_EQ(event.end - event.begin, is_pass ? kPass : microseconds(0))
        << ToString(event.doing);
  }
}

TEST_F(SpanTest, MemoryOfPlansIsThatOfTheCache) {
  for (int i = 0; i < 8; ++i) Step(i);
  EXPECT_EQ(Events(Doing::kRecording).front().plan_bytes, 0u);
  EXPECT_EQ(Events(Doing::kBuilding).front().plan_bytes,
            plans_->stats().charge_bytes);
  EXPECT_GT(plans_->stats().charge_bytes, 0u);
}

TEST_F(SpanTest, ASquashSaysWhereAndForWhat) {
  for (int i = 0; i < 12; ++i) Step(i);
  Step(12, /*turns_off=*/true);
  const auto squashes = Events(Doing::kSquashing);
  ASSERT_EQ(squashes.size(), 1u) << Traces();
  EXPECT_EQ(stats().squashes, 1u);
  EXPECT_EQ(squashes[0].left_at, kOps - 1);
  session_->Inspect([&](const Journal& journal, const auto&, const auto&) {
    EXPECT_EQ(journal.squashes.count({squashes[0].signature.ToHex(), kOps - 1,
                                      std::string(squashes[0].text())}),
              1u);
  });
  const Timeline::Event replay = Events(Doing::kReplaying).back();
  EXPECT_EQ(replay.left_at, kOps - 1);
  EXPECT_LE(replay.end, squashes[0].begin);
}

TEST_F(SpanTest, ABuildThatFailsSaysWhy) {
  failing_builds_ = 1;
  for (int i = 0; i < 4; ++i) Step(i);
  const auto builds = Events(Doing::kBuilding);
  ASSERT_FALSE(builds.empty()) << Traces();
  EXPECT_THAT(std::string(builds[0].text()),
              testing::HasSubstr("told to fail"));
  const auto rejected = Events(Doing::kRejected);
  ASSERT_EQ(rejected.size(), 1u) << Traces();
  EXPECT_EQ(rejected[0].text(), builds[0].text());
  EXPECT_EQ(rejected[0].begin, rejected[0].end);
}

TEST_F(SpanTest, ARecordingThatIsDroppedSaysSo) {
  Step(0);
  ASSERT_TRUE(Events(Doing::kRecording).empty());
  Both([&](Side& side) {
    sim::ModelTensor h = side.program->Make(1, 64);
    for (uint32_t k = 0; k < 3; ++k) {
      h = side.program->Add(h, side.weights[k]);
    }
    if (side.program == watched_.program) {
      EXPECT_EQ(recordings_open_, 1);
      session_->StopRecording();
    }
    side.program->Read(h);
    return Held{h};
  });
  const auto recordings = Events(Doing::kRecording);
  ASSERT_EQ(recordings.size(), 1u);
  EXPECT_EQ(recordings[0].text(), "dropped");
}

TEST_F(SpanTest, WhatBeganBeforeAnybodyLookedIsNotWritten) {
  timeline_.Stop();
  for (int i = 0; i < 12; ++i) Step(i);
  Both([&](Side& side) {
    sim::ModelTensor h = side.program->Make(1, 64);
    for (uint32_t k = 0; k < kOps; ++k) {
      h = side.program->Add(h, side.weights[k]);
      if (k == 3 && side.program == watched_.program)
        begin_ = timeline_.Start();
    }
    side.program->Read(h);
    return Held{h};
  });
  EXPECT_TRUE(Events().empty());
  Step(13);
  EXPECT_EQ(Events(Doing::kReplaying).size(), 1u);
}

TEST(TrackTest, NotesAreCutShort) {
  Timeline timeline;
  PlanCache plans(100);
  const Track cache(&timeline, &plans, "plans");
  const Track stream = cache.Of("stream");
  const Timeline::Position begin = timeline.Start();
  stream.Tell(Doing::kRejected, {}, 3, std::string(500, 'a'));
  cache.Tell(Doing::kEvicted, {}, 3, "short");
  const Timeline::Excerpt excerpt = timeline.Since(begin);
  ASSERT_EQ(excerpt.events.size(), 2u);
  const std::string_view note = excerpt.events[0].text();
  EXPECT_GT(note.size(), 50u);
  EXPECT_LT(note.size(), excerpt.events[0].note.size());
  EXPECT_EQ(excerpt.events[1].text(), "short");
  EXPECT_EQ(excerpt.events[0].plans, cache.id());
  EXPECT_EQ(excerpt.tracks[static_cast<size_t>(excerpt.events[0].track)],
            "stream");
}

TEST(TrackTest, OfNobodyWritesNothing) {
  const Track track;
  EXPECT_FALSE(track.watched());
  EXPECT_FALSE(track.Of("stream").watched());
  Span span;
  span.Begin(track, Doing::kReplaying, {}, 1);
  span.End();
  track.Tell(Doing::kRejected, {}, 1, "nobody hears");
}

}  // namespace
}  // namespace reprise::scheduler
