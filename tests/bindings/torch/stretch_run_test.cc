// Calls of a tape that are gone over at once, behind a real session of the
// host, beside the same tape made call by call.

#include "bindings/torch/region/stretch_run.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "bindings/torch/region/tape.h"
#include "bindings/torch/region/tape_recorder.h"
#include "bindings/torch/region/tape_run.h"
#include "bindings/torch/region/tape_stretches.h"
#include "scheduler/plan_cache.h"
#include "scheduler/stream_session.h"
#include "scheduler/stream_writes.h"
#include "tests/bindings/torch/fake_session.h"
#include "tests/bindings/torch/host_session.h"

namespace reprise::bindings {
namespace {

using scheduler::Action;
using Tensors = std::vector<at::Tensor>;

constexpr int kWarm = 40;  // runs, until plans are made and stretches known

// Passes all on, and lets at most so many ops be followed unseen at a time.
class LimitedSession final : public scheduler::Session {
 public:
  explicit LimitedSession(scheduler::StreamSession* inner) : inner_(*inner) {}

  Action Enter(const engine::OpView& op) override {
    return Told([&] { return inner_.Enter(op); });
  }
  Action EnterTold(const engine::OpView& op) override {
    return Told([&] { return inner_.EnterTold(op); });
  }
  bool wants_call() const override {
    const Inside inside(inner_);
    return inner_.wants_call();
  }
  void Leave(const engine::OpView& op,
             std::span<const engine::ResultView> results,
             std::unique_ptr<engine::Call> call) override {
    const Inside inside(inner_);
    inner_.Leave(op, results, std::move(call));
  }
  void Abandon(const engine::OpView& op) override {
    const Inside inside(inner_);
    inner_.Abandon(op);
  }
  bool Interrupt(const char* what) override { return inner_.Interrupt(what); }
  void InterruptIfUsed(const scheduler::MemoryRanges& memory,
                       const char* what) override {
    inner_.InterruptIfUsed(memory, what);
  }
  engine::Block TakeBlock(engine::ValueId value) override {
    const Inside inside(inner_);
    return inner_.TakeBlock(value);
  }
  void Own(engine::ValueId value, engine::StorageToken storage) override {
    const Inside inside(inner_);
    inner_.Own(value, storage);
  }
  engine::GeneratorState drawn() const override {
    const Inside inside(inner_);
    return inner_.drawn();
  }
  Following following() const override {
    const Inside inside(inner_);
    return inner_.following();
  }
  bool IsAt(const Operand& operand) const override {
    const Inside inside(inner_);
    return inner_.IsAt(operand);
  }
  uint32_t FollowUnseen(const Unseen& ops,
                        const std::function<void(uint32_t)>& passed) override {
    const Inside inside(inner_);
    Unseen fewer = ops;
    fewer.ops = std::min(ops.ops, most);
    // The test's callback takes blocks, under the lock that is held here.
    within_ = true;
    const uint32_t followed = inner_.FollowUnseen(fewer, passed);
    within_ = false;
    unseen += followed;
    return followed;
  }

  uint32_t most = ~uint32_t{0};
  uint64_t unseen = 0;

 private:
  // Holds the inner session's lock, if it is not held already.
  class Inside {
   public:
    explicit Inside(scheduler::StreamSession& inner)
        REPRISE_NO_THREAD_SAFETY_ANALYSIS : inner_(inner),
                                            taken_(!within_) {
      if (taken_) inner_.Lock();
    }
    ~Inside() REPRISE_NO_THREAD_SAFETY_ANALYSIS {
      if (taken_) inner_.Unlock();
    }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;

   private:
    scheduler::StreamSession& inner_;
    const bool taken_;
  };

  template <typename Enters>
  Action Told(Enters enter) {
    const Inside inside(inner_);
    const Action action = enter();
    if (action == Action::kFollow) followed_ = &inner_.followed();
    return action;
  }

  static inline thread_local bool within_ = false;
  scheduler::StreamSession& inner_;
};

class StretchRunTest : public testing::Test {
 protected:
  StretchRunTest() {
    inner_ = MakeSession();
    session_ = std::make_unique<LimitedSession>(inner_.get());
    Serve(session_.get());
  }
  ~StretchRunTest() override { StopServing(); }

  std::unique_ptr<scheduler::StreamSession> MakeSession() {
    return MakeHostSession(&plans_, &writes_);
  }

  static std::shared_ptr<const Tape> Record(
      const Tensors& inputs, const std::function<Tensors()>& callable) {
    auto recorder = TapeRecorder::Begin({.inputs = inputs});
    const Tensors outputs = callable();
    const TapeRecorder::Outcome outcome = recorder->End(outputs, {});
    EXPECT_NE(outcome.tape, nullptr) << outcome.reason;
    return outcome.tape;
  }

  static Tensors RunTape(const Tape& tape, const Tensors& inputs,
                         TapeStretches* stretches) {
    Tensors outputs;
    EXPECT_TRUE(tape.Fits({inputs, {}}));
    EXPECT_EQ(bindings::RunTape(tape, {inputs, {}}, outputs, stretches),
              TapeRan::kDone);
    return outputs;
  }

  static void ExpectSame(const Tensors& found, const Tensors& expected) {
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) {
      const DepthGuard unseen;
      EXPECT_TRUE(found[i].equal(expected[i])) << i;
      EXPECT_EQ(found[i].strides(), expected[i].strides()) << i;
      EXPECT_EQ(found[i].storage_offset(), expected[i].storage_offset()) << i;
    }
  }

  template <typename Does>
  static auto Unseen(Does does) {
    const DepthGuard unseen;
    return does();
  }

  // Runs with random inputs beside `callable`, of which sessions see nothing.
  void RunBeside(const Tape& tape,
                 const std::function<Tensors(const at::Tensor&)>& callable,
                 at::IntArrayRef sizes, int runs) {
    for (int i = 0; i < runs; ++i) {
      const at::Tensor x = Unseen([&] { return at::randn(sizes); });
      const Tensors found = RunTape(tape, {x}, &stretches_);
      const Tensors expected = [&] {
        const DepthGuard unseen;
        return callable(x);
      }();
      ExpectSame(found, expected);
      kept_.push_back(found);
      expected_.push_back(expected);
      if (kept_.size() > 3) {
        kept_.erase(kept_.begin());
        expected_.erase(expected_.begin());
      }
      for (size_t k = 0; k < kept_.size(); ++k) {
        ExpectSame(kept_[k], expected_[k]);
      }
    }
  }

  const at::NoGradGuard no_grad_;
  scheduler::PlanCache plans_{size_t{1} << 26};
  scheduler::StreamWrites writes_;
  std::unique_ptr<scheduler::StreamSession> inner_;
  std::unique_ptr<LimitedSession> session_;
  TapeStretches stretches_;
  std::vector<Tensors> kept_;  // outputs that the program holds
  std::vector<Tensors> expected_;
};

// Views of parameters, of results and of what is handed out, results that are
// used far behind, something in place, several outputs.
class Layers {
 public:
  Tensors operator()(const at::Tensor& x) const {
    const at::Tensor first = at::addmm(bias_, x, weight_.t());
    at::Tensor value = first.relu();
    const at::Tensor early = value;
    for (int i = 0; i < 3; ++i) {
      value = at::addmm(bias_, value, weight_.t()).sigmoid();
      value.mul_(2);
    }
    const at::Tensor turned = value.t();
    const std::vector<at::Tensor> halves = turned.chunk(2);
    const at::Tensor sum = halves[0].add(halves[1]);
    return {sum, turned, early.view({-1}), value.mul(early)};
  }
  at::Tensor& weight() { return weight_; }

 private:
  at::Tensor weight_ = at::randn({8, 8});
  at::Tensor bias_ = at::randn({8});
};

TEST_F(StretchRunTest, GoesOverWhatAReplayAnswers) {
  Layers layers;
  const at::Tensor x = at::randn({4, 8});
  const auto tape = Record({x}, [&] { return layers(x); });
  ASSERT_NE(tape, nullptr);
  RunBeside(*tape, std::ref(layers), {4, 8}, kWarm);
  const uint64_t before = session_->unseen;
  RunBeside(*tape, std::ref(layers), {4, 8}, 10);
  // All but the head, and what has to be shown.
  EXPECT_GE(session_->unseen - before, 10u * 8u);
}

// Its runs come in other plans after a long time in which nothing was new.
TEST_F(StretchRunTest, LearnsAnotherPlanSoon) {
  Layers layers;
  const at::Tensor x = at::randn({4, 8});
  const auto tape = Record({x}, [&] { return layers(x); });
  ASSERT_NE(tape, nullptr);
  using Function = at::Tensor (*)(const at::Tensor&);
  const auto run_behind = [&](Function first, int runs) {
    const uint64_t before = session_->unseen;
    for (int i = 0; i < runs; ++i) {
      (void)first(x);  // a pass begins with it
      RunBeside(*tape, std::ref(layers), {4, 8}, 1);
    }
    return session_->unseen - before;
  };
  run_behind(&at::sin, 3000);
  for (const Function first : {&at::cos, &at::exp, &at::tanh}) {
    run_behind(first, kWarm);
    EXPECT_GE(run_behind(first, 10), 10u * 8u);
    run_behind(first, 2300);
  }
}

// However they take turns.
TEST_F(StretchRunTest, LearnsPlansThatTakeTurns) {
  Layers layers;
  const at::Tensor x = at::randn({4, 8});
  const auto tape = Record({x}, [&] { return layers(x); });
  ASSERT_NE(tape, nullptr);
  const auto run_behind = [&](at::Tensor (*first)(const at::Tensor&)) {
    const uint64_t before = session_->unseen;
    (void)first(x);  // a pass begins with it
    RunBeside(*tape, std::ref(layers), {4, 8}, 1);
    return session_->unseen - before;
  };
  for (int i = 0; i < 3000; ++i) run_behind(&at::sin);
  for (const auto& [seldom, period] :
       {std::pair{&at::cos, 2}, {&at::exp, 3}, {&at::tanh, 4}, {&at::erf, 8}}) {
    uint64_t unseen = 0;  // in its last ten runs
    for (int turn = 0; turn < kWarm; ++turn) {
      for (int i = 1; i < period; ++i) run_behind(&at::sin);
      const uint64_t more = run_behind(seldom);
      if (turn >= kWarm - 10) unseen += more;
    }
    EXPECT_GE(unseen, 10u * 8u) << period;
    for (int i = 0; i < 2000; ++i) run_behind(&at::sin);
  }
}

TEST_F(StretchRunTest, GoesOnCallByCallWhereItMust) {
  Layers layers;
  const at::Tensor x = at::randn({4, 8});
  const auto tape = Record({x}, [&] { return layers(x); });
  ASSERT_NE(tape, nullptr);
  RunBeside(*tape, std::ref(layers), {4, 8}, kWarm);
  for (uint32_t most = 1; most < 14; ++most) {
    session_->most = most;
    const uint64_t before = session_->unseen;
    // There may be another plan, for what the program keeps.
    for (int i = 0; i < 40 && session_->unseen == before; ++i) {
      RunBeside(*tape, std::ref(layers), {4, 8}, 4);
    }
    EXPECT_GT(session_->unseen, before) << most;
  }
}

TEST_F(StretchRunTest, LooksWhereParametersAre) {
  Layers layers;
  const at::Tensor x = at::randn({4, 8});
  const auto tape = Record({x}, [&] { return layers(x); });
  ASSERT_NE(tape, nullptr);
  RunBeside(*tape, std::ref(layers), {4, 8}, kWarm);
  for (int i = 0; i < 6; ++i) {
    // New memory for the same tensor.
    const at::Tensor other = Unseen([&] { return at::randn({8, 8}); });
    layers.weight().set_data(other);
    RunBeside(*tape, std::ref(layers), {4, 8}, 2);
    kept_.clear();
    expected_.clear();
  }
  EXPECT_GT(session_->unseen, 0u);
}

// Layers that add to what is outside, and read it.
class Step {
 public:
  Tensors operator()(const at::Tensor& x) {
    Tensors found = layers_(x);
    state_.add_(found[3]);
    found.push_back(state_.mul(2).neg().abs().add(1));
    return found;
  }
  at::Tensor& state() { return state_; }

 private:
  Layers layers_;
  at::Tensor state_ = at::zeros({4, 8});
};

TEST_F(StretchRunTest, WritesOutsideAreMadeOneByOne) {
  Step step;
  at::Tensor& state = step.state();
  const at::Tensor x = at::randn({4, 8});
  const auto tape = Record({x}, [&] { return step(x); });
  ASSERT_NE(tape, nullptr);
  for (int i = 0; i < kWarm + 10; ++i) {
    const at::Tensor given = Unseen([] { return at::randn({4, 8}); });
    const at::Tensor before = Unseen([&] { return state.clone(); });
    const auto version = state._version();
    const Tensors found = RunTape(*tape, {given}, &stretches_);
    EXPECT_EQ(state._version(), version + 1);
    const DepthGuard unseen;
    const at::Tensor after = state.clone();
    state.copy_(before);
    const Tensors expected = step(given);
    ExpectSame(found, expected);
    EXPECT_TRUE(state.equal(after));
  }
  EXPECT_GT(session_->unseen, 100u);
}

TEST_F(StretchRunTest, OtherSessionsAreToldOfWritesBefore) {
  const std::unique_ptr<scheduler::StreamSession> other = MakeSession();
  writes_.Add(inner_.get());
  writes_.Add(other.get());
  Step step;
  const at::Tensor& state = step.state();
  const auto token = TokenOf(*state.storage().unsafeGetStorageImpl());
  at::Tensor then;  // what the state was when others were told
  TellOthers([&](const engine::OpView& op) {
    writes_.BeforeOp(inner_.get(), op, false);
    for (const engine::Operand& operand : op.operands) {
      if (operand.written && operand.storage == token) {
        then = Unseen([&] { return state.clone(); });
      }
    }
  });
  const at::Tensor x = at::randn({4, 8});
  const auto tape = Record({x}, [&] { return step(x); });
  ASSERT_NE(tape, nullptr);
  const uint64_t in_one_call = [&] {
    for (int i = 0; i < kWarm; ++i) RunTape(*tape, {x}, &stretches_);
    const uint64_t before = session_->unseen;
    RunTape(*tape, {x}, &stretches_);
    return session_->unseen - before;
  }();
  EXPECT_GE(in_one_call, 10u);
  for (int i = 0; i < 10; ++i) {
    const at::Tensor before = Unseen([&] { return state.clone(); });
    then.reset();
    RunTape(*tape, {x}, &stretches_);
    ASSERT_TRUE(then.defined());
    const DepthGuard unseen;
    EXPECT_TRUE(then.equal(before));
    EXPECT_FALSE(state.equal(before));
  }
}

TEST_F(StretchRunTest, OtherThreadsLearnForThemselves) {
  Layers layers;
  const at::Tensor x = at::randn({4, 8});
  const auto tape = Record({x}, [&] { return layers(x); });
  ASSERT_NE(tape, nullptr);
  RunBeside(*tape, std::ref(layers), {4, 8}, kWarm);
  std::thread([&] {
    const at::NoGradGuard no_grad;
    RunBeside(*tape, std::ref(layers), {4, 8}, kWarm);
  }).join();
  RunBeside(*tape, std::ref(layers), {4, 8}, kWarm);
}

}  // namespace
}  // namespace reprise::bindings
