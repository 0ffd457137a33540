// A host runtime knows its buffers: what a batch, plan or copy names beyond
// one, after its end or of another runtime is refused before anything runs.

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <fstream>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bindings/native/reprise.h"

namespace reprise {
namespace {

using Set = void(float*, int);

size_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  size_t pages = 0;
  size_t resident = 0;
  statm >> pages >> resident;
  return resident * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

std::string Message(const Status& status) {
  return status ? "" : status.error().message();
}

class HostMemoryTest : public testing::Test {
 protected:
  HostMemoryTest() {
    set_.emplace(*runtime_.HostKernel<Set>(
        "set", [this](const LaunchConfig&, float* to, int n) {
          ++calls_;
          std::fill_n(to, n, 7.0f);
        }));
  }
  Buffer<float> Make(size_t count) const {
    return *runtime_.Allocate<float>(count);
  }
  // `add` fills a batch of two launches; why the batch is refused.
  template <typename F>
  std::string Why(F&& add) {
    Batch batch = stream_.BeginBatch();
    batch.Fill(Out(other_), 1.0f);
    add(batch);
    return Message(batch.Submit());
  }
  std::vector<float> Values(const Buffer<float>& buffer) const {
    std::vector<float> values(buffer.size());
    EXPECT_TRUE(stream_.CopyToHost(values, buffer));
    return values;
  }

  const Runtime runtime_ =
      *Runtime::Create({.device = RuntimeOptions::kHost, .build_after = 1});
  const Stream stream_ = *runtime_.CreateStream();
  std::optional<Kernel<Set>> set_;
  Buffer<float> other_ = Make(8);
  int calls_ = 0;
};

constexpr const char* kGone =
    "200 bytes where no buffer is: it has ended, or ends before that; keep the "
    "Buffer until its work is submitted";

TEST_F(HostMemoryTest, BuffersThatEndBeforeTheirBatchAreRefused) {
  const std::string why = Why([&](Batch& batch) {
    const Buffer<float> ended = Make(50);
    batch.Launch(*set_, {}, Out(ended), 50);
  });
  EXPECT_EQ(why, std::string("launch 1 (kernel 'set'): argument 0: ") + kGone);
  EXPECT_EQ(Why([&](Batch& batch) {
              const Buffer<float> ended = Make(50);
              batch.Launch(*set_, {}, ended.data(), 50);
            }),
            "launch 1 (kernel 'set'): argument 0: a pointer where no buffer "
            "is: it has ended, or ends before that; keep the Buffer until its "
            "work is submitted");
  EXPECT_EQ(Why([&](Batch& batch) {
              const Buffer<float> ended = Make(50);
              batch.Fill(Out(ended), 0.0f);
            }),
            std::string("launch 1 (fill): argument 0: ") + kGone);
  const Buffer<float> lives = Make(50);
  EXPECT_EQ(Why([&](Batch& batch) {
              const Buffer<float> ended = Make(50);
              batch.Copy(Out(lives), In(ended));
            }),
            std::string("launch 1 (copy): argument 1: ") + kGone);
  EXPECT_EQ(calls_, 0);
  EXPECT_TRUE(std::isnan(Values(other_)[0])) << "launched before the check";
}

// Nothing comes to lie where a buffer has ended.
TEST_F(HostMemoryTest, NewBuffersDoNotHideOldAddresses) {
  float* const old = Make(50).data();
  std::vector<Buffer<float>> live;
  for (int i = 0; i < 1000; ++i) {
    live.push_back(Make(50));
    if (i % 3 == 0) live.erase(live.begin());
  }
  EXPECT_NE(
      Why([&](Batch& batch) { batch.Launch(*set_, {}, Out(old, 50), 50); }),
      "");
  EXPECT_NE(Message(stream_.CopyToDevice(old, Values(other_).data(), 8)), "");
  for (const Buffer<float>& buffer : live) {
    ASSERT_EQ(
        Why([&](Batch& batch) { batch.Launch(*set_, {}, Out(buffer), 50); }),
        "");
  }
}

// A batch that comes again is launched as a graph, which was checked with
// other memory.
TEST_F(HostMemoryTest, ReplayedBatchesAreCheckedEachTime) {
  const auto set = [&](float* to) {
    return Why([&](Batch& batch) { batch.Launch(*set_, {}, Out(to, 50), 50); });
  };
  for (int i = 0; i < 3; ++i) {
    float* const ended = Make(50).data();
    EXPECT_EQ(set(ended),
              std::string("launch 1 (kernel 'set'): argument 0: ") + kGone);
    const Buffer<float> lives = Make(50);
    EXPECT_EQ(set(lives.data()), "");
    EXPECT_EQ(Values(lives)[49], 7.0f);
    stream_.WaitForBuilds();
  }
  EXPECT_GT(stream_.stats().replayed, 0u);
  EXPECT_EQ(calls_, 3);
}

TEST_F(HostMemoryTest, SizesBeyondABufferAreRefused) {
  const Buffer<float> small = Make(50);
  EXPECT_EQ(Why([&](Batch& batch) {
              batch.Launch(*set_, {}, Out(small.data(), 1000), 50);
            }),
            "launch 1 (kernel 'set'): argument 0: 4000 bytes from byte 0 on of "
            "a buffer of 200 bytes: give a larger one, or name less of it");
  EXPECT_EQ(
      Why([&](Batch& batch) { batch.Fill(Out(small.data() + 10, 41), 0.0f); }),
      "launch 1 (fill): argument 0: 164 bytes from byte 40 on of a "
      "buffer of 200 bytes: give a larger one, or name less of it");
  EXPECT_EQ(Why([&](Batch& batch) {
              batch.Copy(Out(small.data(), 9), In(other_.data(), 9));
            }),
            "launch 1 (copy): argument 1: 36 bytes from byte 0 on of a buffer "
            "of 32 bytes: give a larger one, or name less of it");
  EXPECT_NE(Why([&](Batch& batch) {
              batch.Launch(*set_, {}, Out(small.data() - 1, 2), 2);
            }),
            "");
  EXPECT_EQ(calls_, 0);
}

TEST_F(HostMemoryTest, PartsOfABufferAreTaken) {
  const Buffer<float> buffer = Make(50);
  EXPECT_EQ(Why([&](Batch& batch) {
              batch.Fill(Out(buffer), 0.0f);
              batch.Launch(*set_, {}, Out(buffer.span().subspan(10, 5)), 5);
              batch.Launch(*set_, {}, InOut(buffer.span().last<1>()), 1);
              batch.Launch(*set_, {}, Out(buffer.span().subspan(50)), 0);
              batch.Launch(*set_, {}, buffer.data() + 50, 0);
              batch.Copy(Out(buffer.span().first(1)),
                         In(std::span<const float>(buffer.span().last(1))));
            }),
            "");
  std::vector<float> expected(50, 0.0f);
  std::fill_n(expected.begin() + 10, 5, 7.0f);
  expected.front() = expected.back() = 7;
  EXPECT_EQ(Values(buffer), expected);
}

TEST_F(HostMemoryTest, CopiesOfTheStreamAreChecked) {
  std::vector<float> values(10'000);
  const Buffer<float> small = Make(50);
  EXPECT_EQ(
      Message(stream_.CopyToDevice(small.data(), values.data(), 10'000)),
      "cannot copy 10000 elements of 4 bytes: 40000 bytes from byte 0 on of a "
      "buffer of 200 bytes: give a larger one, or name less of it");
  EXPECT_EQ(Message(stream_.CopyToHost(values.data(), small.data() + 1, 50)),
            "cannot copy 50 elements of 4 bytes: 200 bytes from byte 4 on of a "
            "buffer of 200 bytes: give a larger one, or name less of it");
  const float* const old = Make(50).data();
  const auto copy = stream_.Download(std::span(old, 50));
  ASSERT_FALSE(copy);
  EXPECT_EQ(copy.error().message(),
            std::string("cannot copy 50 elements of 4 bytes: ") + kGone);
  // A device's memory is no host's.
  EXPECT_EQ(Message(stream_.CopyToDevice(small.data(), other_.data(), 8)),
            "the host's end of the copy is in a buffer of the device: "
            "Batch::Copy copies within the device");
  EXPECT_NE(Message(stream_.CopyToHost(other_.data(), small.data(), 8)), "");
  EXPECT_EQ(Message(stream_.CopyToDevice(small.data(), values.data(), 50)), "");
}

TEST_F(HostMemoryTest, BuffersOfAnotherRuntimeAreRefused) {
  const Runtime another = *Runtime::Create({.device = RuntimeOptions::kHost});
  const Buffer<float> foreign = *another.Allocate<float>(50);
  EXPECT_EQ(
      Why([&](Batch& batch) { batch.Launch(*set_, {}, Out(foreign), 50); }),
      "launch 1 (kernel 'set'): argument 0: 200 bytes of a buffer of "
      "another runtime: allocate it with the stream's");
  EXPECT_NE(Message(stream_.CopyToDevice(foreign, std::vector<float>(50))), "");
}

TEST_F(HostMemoryTest, PlansAreCheckedAtEachLaunch) {
  Buffer<float> buffer = Make(50);
  const Buffer<float> small = Make(10);
  Batch batch = stream_.BeginBatch();
  batch.Fill(Out(other_), 1.0f);
  const uint32_t launch = batch.Launch(*set_, {}, Out(buffer), 10);
  auto plan = batch.Prepare();
  ASSERT_TRUE(plan);
  EXPECT_EQ(Message(plan->Launch()), "");
  ASSERT_TRUE(plan->Set(launch, 0, small.data()));
  EXPECT_EQ(Message(plan->Launch()),
            "launch 1 (kernel 'set'): argument 0: 200 bytes from byte 0 on of "
            "a buffer of 40 bytes: give a larger one, or name less of it");
  ASSERT_TRUE(plan->Set(launch, 0, buffer.data()));
  EXPECT_EQ(Message(plan->Launch()), "");
  buffer = {};
  EXPECT_EQ(Message(plan->Launch()),
            std::string("launch 1 (kernel 'set'): argument 0: ") + kGone);
  EXPECT_EQ(calls_, 2);

  Batch late = stream_.BeginBatch();
  {
    const Buffer<float> ended = Make(50);
    late.Launch(*set_, {}, Out(ended), 10);
  }
  EXPECT_FALSE(late.Prepare());
}

// Small buffers that live between large ones keep their own pages alone.
TEST_F(HostMemoryTest, FreedMemoryGoesBackToTheHost) {
  constexpr size_t kLarge = size_t{4} << 20;
  constexpr size_t kBuffers = 32;
  const size_t before = ResidentBytes();
  std::vector<Buffer<char>> small;
  for (size_t i = 0; i < kBuffers; ++i) {
    const Buffer<char> large = *runtime_.Allocate<char>(kLarge);
    small.push_back(*runtime_.Allocate<char>(100));
  }
  EXPECT_LT(ResidentBytes(), before + kBuffers * kLarge / 4);
}

TEST_F(HostMemoryTest, MemoryOfTheProgramIsTakenAsItIs) {
  std::vector<float> own(4);
  EXPECT_EQ(Why([&](Batch& batch) {
              batch.Launch(*set_, {}, Out(own.data(), 4), 4);
              batch.Copy(Out(other_.data(), 4), In(own.data(), 4));
            }),
            "");
  EXPECT_EQ(Values(other_)[3], 7.0f);
}

}  // namespace
}  // namespace reprise
