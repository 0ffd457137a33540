// Streams that come and go leave no tracks behind.

#include "scheduler/stream_tracks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace reprise::scheduler {
namespace {

using ::testing::ElementsAre;

TEST(StreamTracksTest, ATrackGoesToTheNextStream) {
  Timeline timeline;
  const Timeline::Position begin = timeline.Start();
  StreamTracks tracks(&timeline, StreamTracks::Ranges::kHidden);
  const Track first = tracks.Take();
  const Track second = tracks.Take();
  EXPECT_NE(first.id(), second.id());
  for (int i = 0; i < 100; ++i) {
    tracks.Return(first);
    const Track again = tracks.Take();
    EXPECT_EQ(again.id(), first.id());
    EXPECT_TRUE(again.noted());
  }
  EXPECT_THAT(timeline.Since(begin).tracks,
              ElementsAre("stream 1", "stream 2"));
  timeline.Stop();
  EXPECT_FALSE(second.watched());
}

}  // namespace
}  // namespace reprise::scheduler
