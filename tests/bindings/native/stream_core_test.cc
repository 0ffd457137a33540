// Proves what becomes of a stream, and of what it had of its runtime, at its
// end.

#include "bindings/native/stream_core.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>

#include "tests/bindings/native/simulated_runtime.h"
#include "tests/sim/simulated_gpu.h"

namespace reprise::native {
namespace {

class StreamCoreTest : public testing::Test {
 protected:
  StreamCoreTest() {
    gpu_.streams.SetPace(sim::SimulatedStreams::Pace::kByHand);
    runtime_ = RuntimeOn(MakeCudaDevice(gpu_.driver, gpu_.context));
  }
  size_t Tracks() {
    return runtime_->timeline()
        .Since(scheduler::Timeline::Position{})
        .tracks.size();
  }

  sim::SimulatedGpu gpu_;
  std::shared_ptr<RuntimeCore> runtime_;
};

TEST_F(StreamCoreTest, AStreamOfItsOwnEndsWithItsWork) {
  std::optional<StreamCore> core;
  const size_t objects = gpu_.objects();
  core.emplace(runtime_, *runtime_->device().MakeStream(0), /*owned=*/true);
  EXPECT_EQ(gpu_.objects(), objects + 1);
  bool done = false;
  gpu_.streams.Enqueue(core->stream(), [&done] { done = true; });
  core.reset();
  EXPECT_TRUE(done);
  EXPECT_EQ(gpu_.objects(), objects);
}

TEST_F(StreamCoreTest, AStreamOfTheProgramsIsLetGo) {
  ASSERT_TRUE(runtime_->device().AdoptStream(gpu_.stream));
  std::optional<StreamCore> core;
  core.emplace(runtime_, gpu_.stream, /*owned=*/false);
  bool done = false;
  gpu_.streams.Enqueue(gpu_.stream, [&done] { done = true; });
  gpu_.calls.clear();
  core.reset();
  EXPECT_FALSE(done);
  for (const std::string& call : gpu_.calls) {
    EXPECT_NE(call, "cuStreamDestroy");
    EXPECT_NE(call, "cuStreamSynchronize");
  }
  gpu_.streams.Synchronize(gpu_.stream);
}

TEST_F(StreamCoreTest, ATrackOfTheTimelineIsTheNextStreamsAgain) {
  const size_t before = Tracks();
  std::optional<StreamCore> first;
  std::optional<StreamCore> second;
  first.emplace(runtime_, gpu_.stream, /*owned=*/false);
  second.emplace(runtime_, gpu_.stream, /*owned=*/false);
  EXPECT_EQ(Tracks(), before + 2);
  second.reset();
  second.emplace(runtime_, gpu_.stream, /*owned=*/false);
  EXPECT_EQ(Tracks(), before + 2);
}

TEST_F(StreamCoreTest, TheRuntimeLivesAsLongAsItsStreams) {
  const std::weak_ptr<RuntimeCore> alive = runtime_;
  std::optional<StreamCore> core;
  core.emplace(runtime_, gpu_.stream, /*owned=*/false);
  runtime_.reset();
  ASSERT_FALSE(alive.expired());
  EXPECT_EQ(&core->runtime(), alive.lock().get());
  core.reset();
  EXPECT_TRUE(alive.expired());
}

}  // namespace
}  // namespace reprise::native
