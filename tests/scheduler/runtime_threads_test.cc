// Proves that programs on streams of their own get eager's results while builds
// finish whenever, and others ask, evict and interrupt at the same time.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "scheduler/interrupts.h"
#include "scheduler/runtime.h"
#include "tests/sim/model_frontend.h"

namespace reprise::scheduler {
namespace {

using sim::ModelFrontend;
using sim::ModelProgram;
using sim::ModelTensor;

constexpr int kPasses = 1500;

// A program on a stream, and the same one without a session.
class Beside {
 public:
  Beside(Runtime* runtime, ModelFrontend* frontend, Session* session)
      : real_(frontend, session), plain_(&plain_frontend_, nullptr) {
    real_.before_op = [runtime, session](const engine::OpView& op) {
      HostWait wait;
      runtime->interrupts().BeforeOp(session, op,
                                     /*may_wait=*/op.cut != nullptr, wait);
    };
    real_weight_ = real_.Make(2);
    plain_weight_ = plain_.Make(2);
  }

  void Pass(int number) {
    const std::vector<ModelTensor> real =
        Do(real_, real_weight_, number, &real_kept_);
    const std::vector<ModelTensor> plain =
        Do(plain_, plain_weight_, number, &plain_kept_);
    for (size_t i = 0; i < real.size(); ++i) {
      ASSERT_EQ(real[i].values(), plain[i].values())
          << "tensor " << i << " of pass " << number;
    }
  }

 private:
  // Ten ops, with another number at each pass; now and then it goes another
  // way. The result of a pass lives through the next one.
  static std::vector<ModelTensor> Do(ModelProgram& program,
                                     const ModelTensor& weight, int number,
                                     ModelTensor* kept) {
    const ModelTensor x = program.Make(static_cast<float>(number % 7));
    ModelTensor h = program.Add(x, weight);
    std::vector<ModelTensor> made;
    for (int layer = 0; layer < 3; ++layer) {
      h = program.Scale(h, 0.5f + static_cast<float>(layer));
      program.Negate(h);
      made.push_back(h);
      if (number % 31 == 30 && layer == 1) h = program.Add(h, x);
      h = program.Add(h, weight);
    }
    program.Mix(h, x);
    made.push_back(program.Scale(h, 4.0f + static_cast<float>(number)));
    program.Read(h);
    if (kept->storage() != nullptr) made.push_back(*kept);
    *kept = h;
    made.push_back(h);
    return made;
  }

  ModelProgram real_;
  ModelFrontend plain_frontend_;
  ModelProgram plain_;
  ModelTensor real_weight_;
  ModelTensor plain_weight_;
  ModelTensor real_kept_;
  ModelTensor plain_kept_;
};

class RuntimeThreadsTest : public testing::TestWithParam<int> {};

TEST_P(RuntimeThreadsTest, EveryProgramGetsItsResults) {
  base::Options options;
  options.build_delays = static_cast<uint64_t>(GetParam());
  options.validate_share = 0.01;
  std::vector<ModelFrontend*> frontends;
  auto made = Runtime::Create(
      {DeviceKind::kHost}, options,
      [&frontends](const StreamKey&) -> std::unique_ptr<engine::Frontend> {
        auto frontend = std::make_unique<ModelFrontend>();
        frontends.push_back(frontend.get());
        return frontend;
      });
  ASSERT_TRUE(made.has_value());
  Runtime& runtime = **made;
  std::vector<std::unique_ptr<Beside>> programs;
  for (int device = 0; device < 2; ++device) {
    Session* session = runtime.SessionFor({.device = device});
    programs.push_back(
        std::make_unique<Beside>(&runtime, frontends.back(), session));
  }
  std::vector<std::thread> threads;
  for (const auto& program : programs) {
    threads.emplace_back([&program = *program] {
      for (int i = 0; i < kPasses && !testing::Test::HasFatalFailure(); ++i) {
        program.Pass(i);
      }
    });
  }
  std::atomic<bool> done{false};
  std::thread other([&] {
    HostWait wait;
    for (unsigned i = 0; !done; ++i) {
      EXPECT_FALSE(runtime.ExplainJson().empty());
      (void)runtime.stats();
      (void)runtime.Wait(std::chrono::milliseconds(i % 8 == 0 ? 1 : 0));
      if (i % 4 == 1) runtime.interrupts().All("somebody looks");
      runtime.BeforeMemoryGoes(static_cast<int>(i % 2));
      if (i % 8 == 3) {
        runtime.interrupts().BeforeWait({.device = 0}, "somebody waits", wait);
      }
      if (i % 8 == 4) runtime.interrupts().AfterWait(std::exchange(wait, {}));
      if (i % 8 == 5) runtime.interrupts().BeforeWaitForEvent(&wait, wait);
      if (i % 16 == 6) runtime.unwatched().Add();
      if (i % 16 == 7) runtime.unwatched().WaitsFor(&wait, {.device = 1});
      if (i % 16 == 8) runtime.interrupts().NoteWaitForDevice(0, wait);
      if (i % 32 == 17)
        runtime.interrupts().MemoryIsUsed("somebody has an address");
      if (i % 16 == 9) runtime.Pause();
      if (i % 16 == 11) runtime.Resume();
      if (i % 32 == 20) runtime.Reset();
      if (i % 64 < 2) {
        runtime.ReleaseMemory(static_cast<int>(i % 2), Shortage::kCertain);
      }
    }
  });
  for (std::thread& thread : threads) thread.join();
  done = true;
  other.join();
  runtime.Resume();
  // What they have left is sound: what repeats is replayed.
  for (int i = 0; i < 12; ++i) {
    for (const auto& program : programs) program->Pass(kPasses);
    EXPECT_TRUE(runtime.Wait(std::nullopt));
  }
  EXPECT_GT(runtime.stats().replays, 0u) << runtime.ExplainJson();
}

INSTANTIATE_TEST_SUITE_P(Seeds, RuntimeThreadsTest, testing::Range(0, 4),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace reprise::scheduler
