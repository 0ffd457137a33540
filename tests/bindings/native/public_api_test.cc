// A program that has libreprise.so alone links, and its mistakes are refused.

#include <gtest/gtest.h>
#include <reprise.h>

#include <array>
#include <string>

namespace reprise {
namespace {

TEST(PublicApiTest, PatchingHasNames) {
  EXPECT_STREQ(ToString(Patching::kMeasured), "measured");
  EXPECT_STREQ(ToString(Patching::kSetParams), "SetParams");
  EXPECT_STREQ(ToString(Patching::kTable), "a table");
  EXPECT_STREQ(ToString(Patching::kExecUpdate), "ExecUpdate");
}

TEST(PublicApiTest, CodesHaveNames) {
  EXPECT_STREQ(ToString(Code::kInvalidArgument), "invalid argument");
  EXPECT_STREQ(ToString(Code::kFailedPrecondition), "failed precondition");
  EXPECT_STREQ(ToString(Code::kUnavailable), "unavailable");
  EXPECT_STREQ(ToString(Code::kResourceExhausted), "resource exhausted");
  EXPECT_STREQ(ToString(Code::kInternal), "internal error");
}

TEST(PublicApiTest, VersionIsTheProjects) {
  EXPECT_STREQ(REPRISE_VERSION, REPRISE_TEST_VERSION);
  EXPECT_EQ(REPRISE_VERSION, std::to_string(REPRISE_VERSION_MAJOR) + "." +
                                 std::to_string(REPRISE_VERSION_MINOR) + "." +
                                 std::to_string(REPRISE_VERSION_PATCH));
}

// Every function of the interface is called, so that one that the library does
// not show does not link.
TEST(PublicApiTest, EverythingLinks) {
  const Runtime runtime =
      *Runtime::Create({.device = RuntimeOptions::kHost, .build_after = 1});
  const Stream stream = *runtime.CreateStream();
  EXPECT_FALSE(runtime.AdoptStream(nullptr));
  const auto compiled =
      *runtime.CompileKernel<void(float*)>({.source = "", .name = "none"});
  EXPECT_FALSE(compiled.Wait());
  EXPECT_FALSE(compiled.Log());
  EXPECT_FALSE(compiled.Variable<float>("none"));
  EXPECT_FALSE(CheckSource({.source = "no source"}));
  int handle = 0;
  EXPECT_FALSE(runtime.AdoptKernel<void(float*)>(&handle, "none"));
  EXPECT_FALSE(runtime.AdoptKernel(&handle, "none"));
  EXPECT_EQ(runtime.stats().compiled, 0u);
  EXPECT_EQ(stream.handle(), nullptr);
  EXPECT_EQ(runtime.device()->name, "host");
  if (const auto devices = Runtime::Devices()) {
    EXPECT_FALSE(devices->empty());
  } else {
    EXPECT_EQ(devices.error().code(), Code::kUnavailable);
  }
  EXPECT_TRUE(runtime.CreateStream(runtime.priorities().greatest));

  const auto twice = *runtime.HostKernel<void(float*, int)>(
      "twice", [](const LaunchConfig&, float* x, int count) {
        for (int i = 0; i < count; ++i) x[i] *= 2;
      });
  const std::array<size_t, 1> sizes{sizeof(float*)};
  const AnyKernel any = *runtime.HostKernel(
      "once", sizes, [](const LaunchConfig&, std::span<const Argument>) {});
  EXPECT_EQ(*runtime.BlocksPerMultiprocessor(any, {.block = {1024}}), 2u);
  EXPECT_EQ(runtime.SuggestBlock(twice)->threads, 1024u);
  ASSERT_EQ(any.parameters(), 1u);
  EXPECT_EQ(any.size_bytes(0), sizeof(float*));

  Buffer<float> x = *runtime.Allocate<float>(2);
  const Buffer<float> y = *runtime.Allocate<float>(2);
  float* const address = x.data();
  const Event begun = *stream.Record();
  ASSERT_TRUE(stream.Wait(begun));
  EXPECT_TRUE(*begun.Passed());
  EXPECT_TRUE(begun.Synchronize());
  EXPECT_FALSE(stream.Record(Timing::kTimed)->Since(begun));
  const auto fill = [&](Batch& batch) -> Result<Event> {
    batch.Wait(begun);
    batch.Fill(Out(x), 1.5f);
    batch.Launch(twice, {}, InOut(x), 2);
    batch.Launch(any, {}, std::array{Argument(address)});
    batch.Copy(Out(y), In(x));
    batch.Capture(CaptureKey(1), [](CUstream_st*) {});
    return batch.Record();
  };
  Batch first = stream.BeginBatch();
  ASSERT_TRUE(fill(first));
  Batch second(std::move(first));
  ASSERT_TRUE(second.Submit());
  Batch prepared = stream.BeginBatch();
  ASSERT_TRUE(fill(prepared));
  Plan made = *prepared.Prepare();
  Plan plan = std::move(made);
  ASSERT_TRUE(plan.Set(1, 1, 2.5f));
  ASSERT_TRUE(plan.SetEvent(0, begun));
  ASSERT_TRUE(plan.Launch());
  EXPECT_EQ(plan.report().launches, 7u);
  stream.WaitForBuilds();
  ASSERT_TRUE(stream.Synchronize());
  std::array<float, 2> back{};
  ASSERT_TRUE(stream.CopyToHost(back.data(), y.data(), 2));
  EXPECT_EQ(back, (std::array<float, 2>{5, 5}));
  ASSERT_TRUE(stream.CopyToDevice(x.data(), back.data(), 2));
  const Buffer<float> uploaded = *stream.Upload(back);
  ASSERT_TRUE(stream.CopyToDevice(x, back));
  ASSERT_TRUE(stream.CopyToDevice(x.span().first(1), std::array{5.0f}));
  ASSERT_TRUE(stream.CopyToHost(back, uploaded));
  const HostCopy<float> copy = *stream.Download(x);
  EXPECT_TRUE(*copy.Arrived());
  EXPECT_EQ((*copy.Wait())[1], 5);
  EXPECT_EQ(stream.stats().batches, 1u);
  EXPECT_TRUE(stream.plans().empty());
  x = Buffer<float>();
}

std::string Why(const Status& status) {
  return status ? "" : status.error().message();
}

class SizesTest : public testing::Test {
 protected:
  static constexpr size_t kMany = size_t{1} << 61;

  const Runtime runtime_ = *Runtime::Create({.device = RuntimeOptions::kHost});
  const Stream stream_ = *runtime_.CreateStream();
  std::array<double, 2> values_{1, 2};
};

TEST_F(SizesTest, MoreThanASizeCanSayIsNotAllocated) {
  for (const size_t count : {kMany, kMany + 1, ~size_t{0}}) {
    const auto buffer = runtime_.Allocate<double>(count);
    ASSERT_FALSE(buffer);
    EXPECT_EQ(buffer.error().code(), Code::kInvalidArgument);
    EXPECT_EQ(buffer.error().message(),
              "cannot allocate " + std::to_string(count) +
                  " elements of 8 bytes: they have more bytes than a size can "
                  "say");
  }
}

TEST_F(SizesTest, MoreThanASizeCanSayIsNotCopied) {
  const std::string sentence =
      "cannot copy 2305843009213693952 elements of 8 bytes: they have more "
      "bytes than a size can say";
  double* const data = values_.data();
  EXPECT_EQ(Why(stream_.CopyToDevice(data, data, kMany)), sentence);
  EXPECT_EQ(Why(stream_.CopyToHost(data, data, kMany)), sentence);
}

TEST_F(SizesTest, LaunchesOfMoreThanMemoryAreRefused) {
  double* const data = values_.data();
  const auto use = *runtime_.HostKernel<void(double*)>(
      "use", [](const LaunchConfig&, double*) { FAIL() << "launched"; });
  for (const size_t count : {kMany, kMany - 1}) {
    const std::string elements = std::to_string(count) +
                                 " elements of 8 bytes as argument 0, which go "
                                 "beyond the last address";
    Batch launch = stream_.BeginBatch();
    launch.Launch(use, {}, InOut(data, count));
    EXPECT_EQ(Why(launch.Submit()), "launch 0 (kernel 'use') has " + elements);
    Batch copy = stream_.BeginBatch();
    copy.Copy(Out(data, count), In(data, count));
    EXPECT_EQ(Why(copy.Submit()), "launch 0 (copy) has " + elements);
    Batch fill = stream_.BeginBatch();
    fill.Fill(Out(data, count), 0.0);
    EXPECT_EQ(Why(fill.Submit()), "launch 0 (fill) has " + elements);
  }
}

TEST_F(SizesTest, DoublesAreFilledWithWhatRepeatsFourBytes) {
  std::array<double, 4> doubles{1, 2, 3, 4};
  std::array<int64_t, 3> integers{1, 2, 3};
  Batch batch = stream_.BeginBatch();
  batch.Fill(Out(doubles.data(), 3), 0.0);
  batch.Fill(Out(integers.data(), 2), -1);
  ASSERT_TRUE(batch.Submit());
  EXPECT_EQ(doubles, (std::array<double, 4>{0, 0, 0, 4}));
  EXPECT_EQ(integers, (std::array<int64_t, 3>{-1, -1, 3}));

  Batch wrong = stream_.BeginBatch();
  wrong.Fill(Out(doubles.data(), 4), 1.5);
  EXPECT_EQ(Why(wrong.Submit()),
            "launch 0 (fill) fills elements of type double with "
            "0x3ff8000000000000, whose halves differ: a device repeats 1, 2 or "
            "4 bytes, so that of values of 8 bytes it takes those of two equal "
            "halves, as 0");
  EXPECT_EQ(doubles[3], 4);
}

}  // namespace
}  // namespace reprise
