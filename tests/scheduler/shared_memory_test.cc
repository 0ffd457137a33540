// Values of a pass that follow each other in one memory: it takes less, and the
// program sees its own values whatever it keeps, and wherever it leaves.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "tests/scheduler/twin_programs.h"

namespace reprise::scheduler {
namespace {

using sim::ModelProgram;
using sim::ModelTensor;

constexpr int kOps = 40;

class SharedMemoryTest : public TwinPrograms {
 protected:
  SharedMemoryTest() {
    Restart(size_t{1} << 24);
    weight_ = watched_.program->Make(1);
    plain_weight_ = plain_.program->Make(1);
  }

  // Of the largest plan.
  uint64_t Bytes() {
    uint64_t bytes = 0;
    session_->Inspect([&bytes](const Journal&,
                               const std::vector<const TraceEntry*>& entries,
                               const engine::Frontend&) {
      for (const TraceEntry* entry : entries) {
        bytes = std::max(bytes, entry->instances.bytes());
      }
    });
    return bytes;
  }

  // A chain in which each op uses what was two ops ago, too, and now and then
  // one writes in place. What `keep` names is held; it ends at op `leave`.
  static std::vector<ModelTensor> Chain(ModelProgram& p, const ModelTensor& w,
                                        float seed, uint64_t keep,
                                        int leave = kOps) {
    std::vector<ModelTensor> kept;
    const ModelTensor x = p.Make(seed);
    ModelTensor before = p.Scale(x, 1.5f);
    ModelTensor h = p.Add(before, w);
    for (int k = 2; k < kOps; ++k) {
      if (k == leave) {
        kept.push_back(p.Scale(h, 7.0f));
        break;
      }
      if (k % 7 == 3) {
        p.Mix(h, before);
        continue;
      }
      ModelTensor next = k % 2 == 0 ? p.Add(h, before) : p.Scale(h, 0.75f);
      if ((keep >> k & 1) != 0) kept.push_back(h);
      before = std::exchange(h, std::move(next));
    }
    kept.push_back(h);
    p.Read(h);
    return kept;
  }
  void Compare(uint64_t keep, int leave = kOps) {
    ++seed_;
    const auto seen = Chain(*watched_.program, weight_, seed_, keep, leave);
    held_.push_back(seen);
    wanted_.push_back(
        Chain(*plain_.program, plain_weight_, seed_, keep, leave));
    builds_.RunAll();
    // All that it holds, of this pass and of those before.
    for (size_t pass = 0; pass < held_.size(); ++pass) {
      ASSERT_EQ(held_[pass].size(), wanted_[pass].size());
      for (size_t i = 0; i < held_[pass].size(); ++i) {
        ASSERT_EQ(held_[pass][i].values(), wanted_[pass][i].values())
            << "pass " << pass << " of " << held_.size() << " tensor " << i;
      }
    }
    if (held_.size() > 3) {
      held_.erase(held_.begin());
      wanted_.erase(wanted_.begin());
    }
  }

  ModelTensor weight_;
  ModelTensor plain_weight_;
  float seed_ = 0;
  std::vector<std::vector<ModelTensor>> held_;
  std::vector<std::vector<ModelTensor>> wanted_;
};

TEST_F(SharedMemoryTest, APlanTakesWhatIsAliveAtOnce) {
  for (int pass = 0; pass < 12; ++pass) Compare(0);
  EXPECT_GE(stats().replays, 4u);
  constexpr uint64_t kApart = 34 * 512;  // each value in a place of its own
  EXPECT_GT(Bytes(), 0u);
  EXPECT_LT(Bytes(), kApart / 2);
}

TEST_F(SharedMemoryTest, WhatTheProgramKeepsForOnceIsNotWrittenOver) {
  for (int pass = 0; pass < 12; ++pass) Compare(0);
  const uint64_t replays = stats().replays;
  for (const uint64_t keep : {uint64_t{1} << 9, uint64_t{0x5a5a5a5a5},
                              ~uint64_t{0}, uint64_t{0}, uint64_t{1} << 20}) {
    for (int pass = 0; pass < 4; ++pass) Compare(keep);
  }
  EXPECT_GT(stats().replays, replays);
}

TEST_F(SharedMemoryTest, WhereverTheProgramLeavesItsValuesAreThere) {
  for (int pass = 0; pass < 12; ++pass) Compare(0);
  const uint64_t squashes = stats().squashes;
  for (int leave = 2; leave < kOps; ++leave) {
    Compare(uint64_t{1} << 11, leave);
    for (int pass = 0; pass < 70; ++pass) Compare(0);
  }
  EXPECT_GT(stats().squashes, squashes + 5);
}

TEST_F(SharedMemoryTest, RandomlyKeptAndLeft) {
  std::mt19937_64 random(7);
  for (int pass = 0; pass < 12; ++pass) Compare(0);
  for (int pass = 0; pass < 1500; ++pass) {
    const uint64_t keep =
        random() % 3 == 0 ? random() & random() & random() : 0;
    Compare(keep,
            random() % 10 == 0 ? static_cast<int>(random() % kOps) : kOps);
  }
  EXPECT_GT(stats().replays, 100u);
}

// Who gives memory back to the device waits for a replay to be left, in the
// allocator's lock: the replay must not wait for that.
TEST_F(SharedMemoryTest, NothingIsAllocatedInMidReplay) {
  for (int pass = 0; pass < 12; ++pass) Compare(0);
  const uint64_t replays = stats().replays;
  frontend_->on_allocate = [this] {
    session_->BeforeMemoryGoes();
    return true;
  };
  for (const uint64_t keep : {uint64_t{1} << 9, uint64_t{1} << 20}) {
    for (int pass = 0; pass < 20; ++pass) Compare(pass == 0 ? keep : 0);
  }
  EXPECT_GT(stats().replays, replays);
}

TEST_F(SharedMemoryTest, WhereMemoryRunsShortAllIsAsEagerHasIt) {
  for (int pass = 0; pass < 12; ++pass) Compare(0);
  for (int keep = 2; keep < kOps; ++keep) {
    int left = keep % 3;
    frontend_->on_allocate = [&left] { return left-- != 0; };
    Compare(uint64_t{1} << keep);
    Compare(uint64_t{1} << keep);
    frontend_->on_allocate = nullptr;
    const uint64_t replays = stats().replays;
    for (int pass = 0; pass < 40; ++pass) Compare(0);
    EXPECT_GT(stats().replays, replays) << "kept " << keep << "\n" << Traces();
  }
}

// Its plan is as good as before, but for memory.
TEST_F(SharedMemoryTest, KeptOnceWhileNothingMayBeRecorded) {
  for (int pass = 0; pass < 12; ++pass) Compare(0);
  recording_forbidden_ = true;
  Compare(uint64_t{1} << 9);
  for (int pass = 0; pass < 10; ++pass) Compare(0);
  const Stats before = stats();
  for (int pass = 0; pass < 40; ++pass) Compare(uint64_t{1} << 9);
  const Stats now = stats();
  EXPECT_EQ(now.replays - before.replays, 40u) << Traces();
  EXPECT_EQ(now.squashes, before.squashes);
  EXPECT_EQ(now.recorded, before.recorded);
}

}  // namespace
}  // namespace reprise::scheduler
