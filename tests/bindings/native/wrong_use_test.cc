// Ways of using the API that are wrong, each of which is answered with one
// sentence that says what was given and what to do in its place:
//
//    1. arguments of another number or size than the parameters
//    2. a Buffer that is smaller than what a launch says
//    3. a copy onto its own memory, and a plan's memory in another one's way
//    4. a Buffer that has ended, or that was moved from
//    5. an empty grid
//    6. a block that is too large
//    7. a kernel that is not there
//    8. an option that the compiler does not take
//    9. a batch that is submitted twice, or that was moved from
//   10. kernels, buffers and events of another runtime
//   11. points of a batch that was not submitted
//
// Mistakes that the compiler sees are those of compile_errors_test.py. A handle
// that was moved from, and a stream whose runtime's handles are gone, are none.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bindings/native/reprise.h"
#include "tests/kernels/nvrtc_fixture.h"

namespace reprise {
namespace {

constexpr int kCount = 50;

using Scale = void(const float*, float*, int);

std::string Why(const Status& status, Code code = Code::kInvalidArgument) {
  if (status) return "nothing is wrong";
  EXPECT_EQ(status.error().code(), code);
  return status.error().message();
}

class WrongUseTest : public testing::Test {
 protected:
  Buffer<float> Make(size_t count = kCount) const {
    return *runtime_.Allocate<float>(count);
  }
  // Why a batch with this is refused, of which nothing is launched then.
  template <typename F>
  std::string WhyBatch(F&& add, Code code = Code::kInvalidArgument) {
    Batch batch = stream_.BeginBatch();
    add(batch);
    const std::string why = Why(batch.Submit(), code);
    EXPECT_EQ(calls_, 0);
    return why;
  }

  const Runtime runtime_ = *Runtime::Create({.device = RuntimeOptions::kHost});
  const Runtime other_ = *Runtime::Create({.device = RuntimeOptions::kHost});
  const Stream stream_ = *runtime_.CreateStream();
  int calls_ = 0;
  const Kernel<Scale> scale_ = *runtime_.HostKernel<Scale>(
      "scale", [this](const LaunchConfig&, const float* x, float* y, int n) {
        ++calls_;
        std::transform(x, x + n, y, [](float v) { return 2 * v; });
      });
  const Buffer<float> x_ = Make();
  const Buffer<float> y_ = Make();
};

TEST_F(WrongUseTest, ArgumentsOfAnotherNumberOrSize) {
  const std::array<size_t, 2> sizes{sizeof(float*), sizeof(int)};
  const AnyKernel any = *runtime_.HostKernel(
      "any", sizes,
      [this](const LaunchConfig&, std::span<const Argument>) { ++calls_; });
  float* const x = x_.data();
  const double wide = 1;
  EXPECT_EQ(WhyBatch([&](Batch& batch) {
              batch.Launch(any, {}, std::array{Argument(x)});
            }),
            "launch 0 (kernel 'any') takes 2 arguments, not 1: give one for "
            "each parameter");
  EXPECT_EQ(WhyBatch([&](Batch& batch) {
              batch.Launch(any, {}, std::array{Argument(x), Argument(wide)});
            }),
            "launch 0 (kernel 'any') takes 4 bytes as argument 1, not 8: give "
            "a value of the parameter's type");
  EXPECT_EQ(WhyBatch([&](Batch& batch) {
              batch.Launch(scale_, {}, In(x_), Out(y_), 5'000'000'000);
            }),
            "launch 0 (kernel 'scale') has 5000000000 as argument 2, which the "
            "parameter's type, int, cannot hold");
}

TEST_F(WrongUseTest, BuffersThatAreTooSmall) {
  const Buffer<float> small = Make(10);
  EXPECT_EQ(WhyBatch([&](Batch& batch) {
              batch.Launch(scale_, {}, In(x_), Out(small.data(), kCount),
                           kCount);
            }),
            "launch 0 (kernel 'scale'): argument 1: 200 bytes from byte 0 on "
            "of a buffer of 40 bytes: give a larger one, or name less of it");
  EXPECT_EQ(WhyBatch([&](Batch& batch) { batch.Copy(Out(small), In(x_)); }),
            "launch 0 (copy) copies 50 elements to 10: name as many of both, "
            "as in span().first(10)");
  EXPECT_EQ(Why(stream_.CopyToDevice(small, std::vector<float>(kCount))),
            "cannot copy 50 elements of 4 bytes to 10: name as many of both, "
            "as in span().first(10)");
}

TEST_F(WrongUseTest, CopiesOntoTheirOwnMemory) {
  const std::span<float> x = x_.span();
  EXPECT_EQ(
      WhyBatch([&](Batch& batch) {
        batch.Copy(Out(x.subspan(4, 10)),
                   In(std::span<const float>(x.first(10))));
      }),
      "launch 0 (copy) copies 10 elements of 4 bytes to memory that begins 16 "
      "bytes from their own: copy by way of another Buffer");
  EXPECT_EQ(WhyBatch([&](Batch& batch) { batch.Copy(Out(x_), In(x_)); }),
            "launch 0 (copy) copies 50 elements of 4 bytes to memory that is "
            "their own: copy by way of another Buffer");
  Batch beside = stream_.BeginBatch();
  beside.Copy(Out(x.last(10)), In(std::span<const float>(x.first(10))));
  EXPECT_TRUE(beside.Submit());
}

TEST_F(WrongUseTest, PlansWithMemoryInAnotherLaunchsWay) {
  const Buffer<float> z = Make();
  const Buffer<float> free = Make();
  Batch batch = stream_.BeginBatch();
  batch.Launch(scale_, {}, In(x_), Out(y_), kCount);
  const uint32_t second = batch.Launch(scale_, {}, In(x_), Out(z), kCount);
  auto plan = batch.Prepare();
  ASSERT_TRUE(plan) << plan.error().message();
  ASSERT_TRUE(plan->Set(second, 1, free.data()));
  EXPECT_TRUE(plan->Launch());
  EXPECT_EQ(calls_, 2);
  ASSERT_TRUE(plan->Set(second, 1, y_.data()));
  const std::string why =
      "launch 1 (kernel 'scale') now touches memory of launch 0 (kernel "
      "'scale'), beside which the plan runs it: prepare another plan for this "
      "memory";
  EXPECT_EQ(Why(plan->Launch()), why);
  EXPECT_EQ(Why(plan->Launch()), why);
  EXPECT_EQ(calls_, 2);
  ASSERT_TRUE(plan->Set(second, 1, z.data()));
  EXPECT_TRUE(plan->Launch());
  Plan moved = *std::move(plan);
  EXPECT_EQ(Why(plan->Launch(), Code::kFailedPrecondition),
            "the plan was moved from: use the one that it was moved to");
  EXPECT_TRUE(moved.Launch());
}

TEST_F(WrongUseTest, BuffersThatHaveEnded) {
  EXPECT_EQ(WhyBatch([&](Batch& batch) {
              const Buffer<float> ended = Make();
              batch.Launch(scale_, {}, In(ended), Out(y_), kCount);
            }),
            "launch 0 (kernel 'scale'): argument 0: 200 bytes where no buffer "
            "is: it has ended, or ends before that; keep the Buffer until its "
            "work is submitted");
  EXPECT_EQ(WhyBatch([&](Batch& batch) {
              Buffer<float> from = Make();
              const Buffer<float> to = std::move(from);
              batch.Launch(scale_, {}, In(from), Out(y_), kCount);
            }),
            "launch 0 (kernel 'scale') has a null pointer as argument 0: give "
            "memory of a Buffer that was allocated and not moved from");
}

TEST_F(WrongUseTest, EmptyGrids) {
  const int n = 0;
  EXPECT_EQ(WhyBatch([&](Batch& batch) {
              batch.Launch(scale_, {.grid = {(n + 127) / 128}, .block = {128}},
                           In(x_), Out(y_), n);
            }),
            "launch 0 (kernel 'scale') has a grid of 0 in direction 0: give 1 "
            "or more, or leave the launch out");
}

TEST_F(WrongUseTest, BlocksThatAreTooLarge) {
  EXPECT_EQ(WhyBatch([&](Batch& batch) {
              batch.Launch(scale_, {.block = {2048}}, In(x_), Out(y_), kCount);
            }),
            "launch 0 (kernel 'scale'): a block of 2048 in direction 0, the "
            "device takes 1024: give more blocks of fewer threads");
  EXPECT_EQ(
      WhyBatch([&](Batch& batch) {
        batch.Launch(scale_, {.block = {64, 32}}, In(x_), Out(y_), kCount);
      }),
      "launch 0 (kernel 'scale'): a block of 2048 threads, the device "
      "takes 1024: give more blocks of fewer threads");
}

TEST_F(WrongUseTest, KernelsThatAHostRuntimeHasNot) {
  const auto compiled =
      *runtime_.CompileKernel<Scale>({.source = "", .name = "scale"});
  EXPECT_EQ(WhyBatch(
                [&](Batch& batch) {
                  batch.Launch(compiled, {}, In(x_), Out(y_), kCount);
                },
                Code::kUnavailable),
            "launch 0 (kernel 'scale'): a host runtime compiles no CUDA: make "
            "kernel 'scale' with HostKernel");
}

TEST_F(WrongUseTest, BatchesThatAreSubmittedTwice) {
  Batch batch = stream_.BeginBatch();
  batch.Launch(scale_, {}, In(x_), Out(y_), kCount);
  EXPECT_TRUE(batch.Submit());
  const std::string why =
      "the batch was submitted, prepared or moved from before: begin another "
      "one with Stream::BeginBatch";
  batch.Launch(scale_, {}, In(x_), Out(y_), kCount);
  EXPECT_EQ(Why(batch.Submit(), Code::kFailedPrecondition), why);
  const auto plan = batch.Prepare();
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().message(), why);
  EXPECT_EQ(calls_, 1);

  Batch first = stream_.BeginBatch();
  first.Launch(scale_, {}, In(x_), Out(y_), kCount);
  Batch second = std::move(first);
  first.Launch(scale_, {}, In(x_), Out(y_), kCount);
  first.Fill(Out(x_), 1.0f);
  EXPECT_EQ(Why(first.Submit(), Code::kFailedPrecondition), why);
  EXPECT_EQ(calls_, 1);
  EXPECT_TRUE(second.Submit());
  EXPECT_EQ(calls_, 2);
}

TEST_F(WrongUseTest, ThingsOfAnotherRuntime) {
  const Stream elsewhere = *other_.CreateStream();
  const Kernel<void()> nothing =
      *runtime_.HostKernel<void()>("nothing", [](const LaunchConfig&) {});
  Batch batch = elsewhere.BeginBatch();
  batch.Launch(nothing, {});
  EXPECT_EQ(Why(batch.Submit()),
            "launch 0 (kernel 'nothing') is of another runtime's device or "
            "context than the stream: make it with the stream's runtime");
  const Buffer<float> foreign = *other_.Allocate<float>(kCount);
  EXPECT_EQ(WhyBatch([&](Batch& mixed) {
              mixed.Launch(scale_, {}, In(foreign), Out(y_), kCount);
            }),
            "launch 0 (kernel 'scale'): argument 0: 200 bytes of a buffer of "
            "another runtime: allocate it with the stream's");
  const Event event = *elsewhere.Record();
  EXPECT_EQ(WhyBatch([&](Batch& waiting) { waiting.Wait(event); }),
            "launch 0 (wait) waits for an event of another runtime: record it "
            "on a stream of this one");
  EXPECT_EQ(Why(stream_.Wait(event)),
            "the event is of another runtime: record it on a stream of this "
            "one");
}

TEST_F(WrongUseTest, PointsOfABatchThatWasNotSubmitted) {
  Batch late = stream_.BeginBatch();
  late.Launch(scale_, {}, In(x_), Out(y_), kCount);
  const Event point = *late.Record();
  EXPECT_EQ(WhyBatch([&](Batch& batch) { batch.Wait(point); },
                     Code::kFailedPrecondition),
            "launch 0 (wait) waits for a point of a batch that was not "
            "submitted yet: submit that batch before");
  EXPECT_TRUE(late.Submit());
  EXPECT_TRUE(stream_.Wait(point));
}

// What outlives a runtime's handles keeps the runtime.
TEST_F(WrongUseTest, HandlesThatWereMovedFromAndStreamsWithoutARuntimeWork) {
  std::optional<Runtime> runtime(
      *Runtime::Create({.device = RuntimeOptions::kHost}));
  Stream stream = *runtime->CreateStream();
  Kernel<Scale> scale = *runtime->HostKernel<Scale>(
      "scale", [](const LaunchConfig&, const float* x, float* y, int n) {
        std::transform(x, x + n, y, [](float v) { return 2 * v; });
      });
  const Runtime moved_runtime = std::move(*runtime);
  const Stream moved_stream = std::move(stream);
  const Kernel<Scale> moved_kernel = std::move(scale);
  const Buffer<float> x = *stream.Upload(std::vector<float>(kCount, 3.0f));
  const Buffer<float> y = *runtime->Allocate<float>(kCount);
  runtime.reset();
  Batch batch = stream.BeginBatch();
  batch.Launch(scale, {}, In(x), Out(y), kCount);
  ASSERT_TRUE(batch.Submit());
  std::vector<float> values(kCount);
  ASSERT_TRUE(stream.CopyToHost(values, y));
  EXPECT_EQ(values, std::vector<float>(kCount, 6.0f));
}

class WrongSourceTest : public kernels::NvrtcFixture {
 protected:
  static std::string WhySource(const KernelSource& source) {
    const auto checked = CheckSource(source);
    if (checked) return "nothing is wrong";
    EXPECT_EQ(checked.error().code(), Code::kInvalidArgument);
    return checked.error().message();
  }
  static constexpr char kSource[] =
      "extern \"C\" __global__ void scale(const float* x, float* y, int n) {}"
      "extern \"C\" __global__ void axpy(float a) {}";
};

TEST_F(WrongSourceTest, KernelsThatASourceHasNot) {
  EXPECT_EQ(WhySource({.source = kSource, .name = "skale"}),
            "kernel.cu has no kernel 'skale': it has scale, axpy");
}

TEST_F(WrongSourceTest, OptionsThatTheCompilerDoesNotTake) {
  EXPECT_EQ(WhySource({.source = kSource,
                       .options = {"--use-fast-maths"},
                       .file = "mine.cu"}),
            "mine.cu has an option that NVRTC does not take (unrecognized "
            "option --use-fast-maths found): give NVRTC's own, each as one "
            "string, as in \"--use_fast_math\"");
}

// On a machine without a driver, which is no reason to read paths.
TEST(WrongMachineTest, ADriverThatIsMissingIsOneSentence) {
  const auto runtime = Runtime::Create({});
  if (runtime) GTEST_SKIP() << "there is a driver and a device";
  EXPECT_EQ(runtime.error().code(), Code::kUnavailable);
  const std::string& why = runtime.error().message();
  EXPECT_TRUE(
      why.ends_with(", or use the host runtime (RuntimeOptions::device "
                    "= RuntimeOptions::kHost)"))
      << why;
  EXPECT_EQ(why.find("/lib"), std::string::npos) << why;
  EXPECT_EQ(why.find('\n'), std::string::npos) << why;
}

}  // namespace
}  // namespace reprise
