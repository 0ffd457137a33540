// Threads submit batches to streams of their own and to one that two share,
// while graphs are built, replayed, go over to other mechanisms, are evicted
// and are looked at by others: every thread finds what plain launches give.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bindings/native/memory_pool.h"
#include "bindings/native/reprise.h"
#include "bindings/native/runtime_core.h"
#include "bindings/native/stream_core.h"
#include "tests/bindings/native/batch_kernels.h"
#include "tests/bindings/native/simulated_runtime.h"
#include "tests/bindings/native/table_device.h"
#include "tests/sim/simulated_gpu.h"

namespace reprise::native {
namespace {

constexpr uint32_t kWordsOfBuffer = 16;
constexpr int kRounds = 60;
constexpr size_t kOwners = 4;  // threads with a stream of their own

// One thread's buffers, and what should be in them. Single-thread.
class Worker {
 public:
  Worker(std::shared_ptr<RuntimeCore> runtime,
         std::shared_ptr<StreamCore> stream,
         std::shared_ptr<engine::KernelCode> mix,
         std::shared_ptr<engine::KernelCode> blend, uint32_t seed)
      : runtime_(std::move(runtime)),
        stream_(std::move(stream)),
        mix_(std::move(mix)),
        blend_(std::move(blend)),
        random_(seed),
        seed_(seed) {
    for (size_t i = 0; i < buffers_.size(); ++i) Replace(i);
  }

  // Empty if all was as it should be.
  std::string Run() {
    for (int round = 0; round < kRounds; ++round) {
      if (random_() % 8 == 0) Replace(random_() % buffers_.size());
      SubmitSome(round);
      if (failure_.empty() && round % 10 == 9) Look();
      if (!failure_.empty()) break;
    }
    return failure_;
  }
  uint64_t submitted() const { return submitted_; }

 private:
  void Check(const Status& status) {
    if (!status && failure_.empty()) failure_ = status.error().message();
  }

  void Replace(size_t at) {
    auto memory = runtime_->device().Allocate(kWordsOfBuffer * 4);
    if (!memory) return Check(tl::unexpected(memory.error()));
    buffers_[at] = Buffer<uint32_t>(runtime_, static_cast<uint32_t*>(*memory),
                                    kWordsOfBuffer);
    for (uint32_t& word : plain_[at]) word = static_cast<uint32_t>(random_());
    Check(Stream(stream_).CopyToDevice(buffers_[at].data(), plain_[at].data(),
                                       kWordsOfBuffer));
  }

  // One of a few shapes, some times in a row, each time with other arguments.
  // Now and then what was begun is built before it comes again.
  void SubmitSome(int round) {
    const auto shape = static_cast<uint32_t>(random_() % 5);
    const size_t shift = random_() % 2;
    const bool waits = round % 3 == 0;
    const size_t times = waits ? 4 : 1 + random_() % 4;
    for (size_t i = 0; i < times; ++i) {
      SubmitOne(shape, shift);
      if (waits && i == 1) runtime_->queue().WaitIdle(std::nullopt);
    }
  }

  void SubmitOne(uint32_t shape, size_t shift) {
    Batch batch(stream_);
    std::mt19937 steps(seed_ * 100 + shape);
    const size_t launches = 2 + steps() % 5;
    const auto by = static_cast<uint32_t>(random_() % 3);
    for (size_t i = 0; i < launches; ++i) {
      const size_t to = (steps() + shift) % buffers_.size();
      const size_t from = (to + 1) % buffers_.size();
      const uint32_t blocks = 1 + steps() % 4;
      Launch(batch, steps() % 4, to, from, blocks, by);
    }
    Check(batch.Submit());
    ++submitted_;
  }

  void Launch(Batch& batch, uint32_t kind, size_t to, size_t from,
              uint32_t blocks, uint32_t by) {
    using Mix = Kernel<BatchKernels::Mix>;
    if (kind == 0) {
      batch.Copy(Out(buffers_[to]), In(buffers_[from]));
      plain_[to] = plain_[from];
    } else if (kind == 1) {
      batch.Fill(Out(buffers_[to]), 7u);
      plain_[to].fill(7);
    } else if (kind == 2) {
      batch.Launch(Mix(mix_), {.grid = {blocks}}, InOut(buffers_[to]),
                   In(buffers_[from]), kWordsOfBuffer, by);
      BatchKernels::DoMix(blocks, plain_[to].data(), plain_[from].data(),
                          kWordsOfBuffer, by);
    } else {
      batch.Launch(Mix(blend_), {.grid = {blocks}}, InOut(buffers_[to]),
                   In(buffers_[from]), kWordsOfBuffer, by);
      BatchKernels::DoBlend(blocks, plain_[to].data(), plain_[from].data(),
                            kWordsOfBuffer, by);
    }
  }

  void Look() {
    for (size_t i = 0; i < buffers_.size(); ++i) {
      std::array<uint32_t, kWordsOfBuffer> seen{};
      Check(Stream(stream_).CopyToHost(seen.data(), buffers_[i].data(),
                                       kWordsOfBuffer));
      if (seen != plain_[i] && failure_.empty()) {
        failure_ = "buffer " + std::to_string(i) + " of worker " +
                   std::to_string(seed_);
      }
    }
  }

  const std::shared_ptr<RuntimeCore> runtime_;
  const std::shared_ptr<StreamCore> stream_;
  const std::shared_ptr<engine::KernelCode> mix_;
  const std::shared_ptr<engine::KernelCode> blend_;
  std::mt19937 random_;
  const uint32_t seed_;
  std::array<Buffer<uint32_t>, 3> buffers_;
  std::array<std::array<uint32_t, kWordsOfBuffer>, 3> plain_{};
  uint64_t submitted_ = 0;
  std::string failure_;
};

class BatchThreadsTest : public testing::TestWithParam<uint32_t> {};

TEST_P(BatchThreadsTest, EveryThreadFindsWhatPlainLaunchesGive) {
  const SimulatedKernels kernels;
  sim::SimulatedGpu gpu;
  gpu.reuses_pool_memory = true;
  gpu.order.emplace(GetParam());
  gpu.streams.SetPace(sim::SimulatedStreams::Pace::kAtRandom, GetParam());
  {
    auto mix = CodeOf(gpu, "mix", kernels.mix);
    auto blend = CodeOf(gpu, "blend", kernels.blend);
    auto device = std::make_unique<TableDevice>(
        MakeCudaDevice(gpu.driver, gpu.context, {},
                       *MemoryPool::Create(gpu.driver, 0, 1 << 20)),
        gpu, TableDevice::Which::kEveryOther);
    device->AddTwin(mix.get(), kernels.mix);
    device->AddTwin(blend.get(), kernels.blend);
    auto runtime = std::make_shared<RuntimeCore>(
        std::move(device),
        RuntimeOptions{.plans_per_stream = 3, .cache_dir = ""},
        RuntimeCore::Stubs{
            .measured = scheduler::PatchMeasurement{.costs = kCheapUpdates}});
    std::vector<std::shared_ptr<StreamCore>> streams;
    for (size_t i = 0; i <= kOwners; ++i) {
      streams.push_back(std::make_shared<StreamCore>(
          runtime, *runtime->device().MakeStream(0), /*owned=*/true));
    }
    std::vector<std::string> failures(kOwners + 2);
    std::vector<uint64_t> submitted(failures.size());
    std::vector<std::thread> threads;
    for (size_t i = 0; i < failures.size(); ++i) {
      threads.emplace_back([&, i] {
        Worker worker(runtime, streams[std::min(i, kOwners)], mix, blend,
                      GetParam() * 10 + static_cast<uint32_t>(i));
        failures[i] = worker.Run();
        submitted[i] = worker.submitted();
      });
    }
    std::atomic<bool> done{false};
    uint64_t plans_seen = 0;
    std::thread reader([&] {
      while (!done.load(std::memory_order_relaxed)) {
        for (const auto& stream : streams) {
          plans_seen += stream->batches().plans().size() +
                        stream->batches().stats().plans;
        }
        std::this_thread::yield();
      }
    });
    for (std::thread& thread : threads) thread.join();
    done.store(true, std::memory_order_relaxed);
    reader.join();
    for (const std::string& failure : failures) EXPECT_EQ(failure, "");
    uint64_t batches = 0;
    for (const auto& stream : streams) {
      const StreamStats stats = stream->batches().stats();
      batches += stats.batches;
      // No build has lost the memory that it names.
      EXPECT_EQ(stats.refused, 0u);
      EXPECT_GT(stats.built, 0u);
      EXPECT_GT(stats.replayed, 0u);
    }
    EXPECT_EQ(batches,
              std::accumulate(submitted.begin(), submitted.end(), uint64_t{0}));
    streams.clear();
  }
  EXPECT_EQ(gpu.objects(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Seeds, BatchThreadsTest, testing::Range(0u, 8u));

}  // namespace
}  // namespace reprise::native
