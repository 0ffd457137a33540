// Switches of the process and the thread change the words of the operators that
// read them, and of no others.

#include "bindings/torch/runtime/switches.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace reprise::bindings {
namespace {

using scheduler::DeviceKind;
using Words = std::vector<uint64_t>;

constexpr uint8_t kClasses[] = {kMatmulSwitches,    kConvolutionSwitches,
                                kAttentionSwitches, kRnnSwitches,
                                kLinalgSwitches,    kCudnnSwitches};

Words WordsOf(uint8_t classes, DeviceKind kind) {
  WordBuffer words;
  AddSwitches(classes, kind, words);
  return Words(words.span().begin(), words.span().end());
}
Words AllWords() {
  WordBuffer words;
  AddAllSwitches(words);
  return Words(words.span().begin(), words.span().end());
}

// Sets a switch to another value, and back.
struct Switch {
  std::string name;
  std::function<void(bool)> set;
};

at::Context& Context() { return at::globalContext(); }

class SwitchesTest : public testing::Test {
 protected:
  // While the switch is set otherwise, `words` are others; then they are what
  // they were.
  template <typename Read>
  static void ExpectChange(const Switch& by, const Read& read, bool changes) {
    const auto before = read();
    by.set(true);
    const auto with = read();
    by.set(false);
    EXPECT_EQ(with != before, changes) << by.name;
    EXPECT_EQ(read(), before) << by.name;
  }

  const int threads_ = at::get_num_threads();
  const at::ScalarType dtype_ = c10::get_default_dtype_as_scalartype();
  const Switch default_dtype_ = {
      "default dtype", [this](bool on) {
        c10::set_default_dtype(
            c10::scalarTypeToTypeMeta(on ? at::kDouble : dtype_));
      }};
  const Switch deterministic_ = {
      "deterministic algorithms",
      [](bool on) { Context().setDeterministicAlgorithms(on, false); }};
  const Switch number_of_threads_ = {
      "threads",
      [this](bool on) { at::set_num_threads(on ? threads_ + 2 : threads_); }};
  const Switch denormals_ = {"flush denormals",
                             [](bool on) { Context().setFlushDenormal(on); }};
  const Switch mkldnn_ = {"oneDNN",
                          [](bool on) { Context().setUserEnabledMkldnn(!on); }};
  const Switch precision_ = {
      "precision of oneDNN's products", [](bool on) {
        Context().setFloat32Precision(
            at::Float32Backend::MKLDNN, at::Float32Op::MATMUL,
            on ? at::Float32Precision::BF16 : at::Float32Precision::NONE);
      }};
  const Switch no_gradients_ = {
      "grad mode", [](bool on) { at::GradMode::set_enabled(!on); }};
};

TEST_F(SwitchesTest, AnyKernelReadsTheDefaultDtypeAndDeterminism) {
  for (const DeviceKind kind : {DeviceKind::kHost, DeviceKind::kCuda}) {
    const auto read = [kind] { return CommonSwitches(kind); };
    ExpectChange(default_dtype_, read, true);
    ExpectChange(deterministic_, read, true);
  }
}

TEST_F(SwitchesTest, KernelsOfTheHostReadMore) {
  for (const Switch& by :
       {number_of_threads_, denormals_, mkldnn_, precision_}) {
    ExpectChange(
        by, [] { return CommonSwitches(DeviceKind::kHost); }, true);
    ExpectChange(
        by, [] { return CommonSwitches(DeviceKind::kCuda); }, false);
  }
}

TEST_F(SwitchesTest, WarningsCountWhereAlgorithmsAreDeterministic) {
  const auto words = [](bool deterministic, bool warns) {
    Context().setDeterministicAlgorithms(deterministic, warns);
    const uint64_t word = CommonSwitches(DeviceKind::kCuda);
    Context().setDeterministicAlgorithms(false, false);
    return word;
  };
  EXPECT_EQ(words(false, false), words(false, true));
  EXPECT_NE(words(true, false), words(true, true));
  EXPECT_NE(words(true, true), words(false, true));
}

TEST_F(SwitchesTest, OperatorsOfNoClassHaveNoWordsOfTheirOwn) {
  EXPECT_TRUE(WordsOf(kNoSwitches, DeviceKind::kHost).empty());
  EXPECT_TRUE(WordsOf(kNoSwitches, DeviceKind::kCuda).empty());
}

// By class: the switches are read by these, and by no other class.
TEST_F(SwitchesTest, EachClassReadsItsOwn) {
  struct Row {
    Switch by;
    uint8_t classes;
  };
  const bool benchmark = Context().benchmarkCuDNN();
  ASSERT_FALSE(benchmark);
  const Row rows[] = {
      {{"sums in half precision",
        [](bool on) { Context().setAllowFP16AccumulationCuBLAS(on); }},
       kMatmulSwitches},
      {{"cuDNN", [](bool on) { Context().setUserEnabledCuDNN(!on); }},
       kConvolutionSwitches | kCudnnSwitches | kRnnSwitches},
      {{"deterministic cuDNN",
        [](bool on) { Context().setDeterministicCuDNN(on); }},
       kConvolutionSwitches | kCudnnSwitches | kRnnSwitches},
      {{"efficient attention",
        [](bool on) { Context().setSDPUseMemEfficient(!on); }},
       kAttentionSwitches},
      {no_gradients_,
       kConvolutionSwitches | kCudnnSwitches | kAttentionSwitches},
  };
  for (const Row& row : rows) {
    for (const uint8_t one : kClasses) {
      ExpectChange(
          row.by, [one] { return WordsOf(one, DeviceKind::kCuda); },
          (row.classes & one) != 0);
    }
  }
}

TEST_F(SwitchesTest, ClassesAreAppendedOneAfterTheOther) {
  Words apart;
  uint8_t all = 0;
  for (const uint8_t one : {kMatmulSwitches, kConvolutionSwitches}) {
    for (const uint64_t word : WordsOf(one, DeviceKind::kCuda)) {
      apart.push_back(word);
    }
    all |= one;
  }
  EXPECT_EQ(WordsOf(all, DeviceKind::kCuda), apart);
  WordBuffer words;
  words.Push(7);
  AddSwitches(all, DeviceKind::kCuda, words);
  EXPECT_EQ(words[0], 7u);
  EXPECT_EQ(words.size(), apart.size() + 1);
}

// Of the device's own kind: autocast of the host is nothing to a GPU.
TEST_F(SwitchesTest, AutocastIsThatOfTheDevice) {
  const Switch on_host = {"autocast of the host", [](bool on) {
                            at::autocast::set_autocast_enabled(at::kCPU, on);
                          }};
  ExpectChange(
      on_host, [] { return WordsOf(kMatmulSwitches, DeviceKind::kHost); },
      true);
  ExpectChange(
      on_host, [] { return WordsOf(kMatmulSwitches, DeviceKind::kCuda); },
      false);
  at::autocast::set_autocast_enabled(at::kCPU, true);
  const at::ScalarType dtype = at::autocast::get_autocast_dtype(at::kCPU);
  const Switch to_half = {"dtype of autocast", [dtype](bool on) {
                            at::autocast::set_autocast_dtype(
                                at::kCPU, on ? at::kHalf : dtype);
                          }};
  ExpectChange(
      to_half, [] { return WordsOf(kMatmulSwitches, DeviceKind::kHost); },
      dtype != at::kHalf);
  at::autocast::set_autocast_enabled(at::kCPU, false);
}

TEST_F(SwitchesTest, AllOfThemAreTold) {
  for (const Switch& by : {default_dtype_, deterministic_, number_of_threads_,
                           denormals_, mkldnn_, precision_, no_gradients_}) {
    ExpectChange(by, &AllWords, true);
  }
}

TEST_F(SwitchesTest, WritesAreCountedAboveAutogradsOwnKernels) {
  EXPECT_TRUE(CountsWrites());
  {
    const c10::impl::ExcludeDispatchKeyGuard below(
        c10::DispatchKey::ADInplaceOrView);
    EXPECT_FALSE(CountsWrites());
  }
  EXPECT_TRUE(CountsWrites());
}

// Last: threads may have different kernels from then on.
TEST_F(SwitchesTest, ConvolutionsTryKernelsWhereCudnnIsToBenchmark) {
  const auto tries = [](uint8_t classes, DeviceKind kind) {
    return MayTryKernels(classes, kind);
  };
  const auto words = [] {
    return WordsOf(kConvolutionSwitches, DeviceKind::kCuda);
  };
  const auto of_another_thread = [&words] {
    Words found;
    std::thread([&] { found = words(); }).join();
    return found;
  };
  EXPECT_FALSE(tries(kConvolutionSwitches, DeviceKind::kCuda));
  const Words before = words();
  EXPECT_EQ(of_another_thread(), before);
  Context().setBenchmarkCuDNN(true);
  EXPECT_TRUE(tries(kConvolutionSwitches, DeviceKind::kCuda));
  EXPECT_FALSE(tries(kConvolutionSwitches, DeviceKind::kHost));
  EXPECT_FALSE(tries(kMatmulSwitches, DeviceKind::kCuda));
  EXPECT_NE(words(), before);
  EXPECT_NE(of_another_thread(), words());
  Context().setUserEnabledCuDNN(false);
  EXPECT_FALSE(tries(kConvolutionSwitches, DeviceKind::kCuda));
  Context().setUserEnabledCuDNN(true);
  Context().setBenchmarkCuDNN(false);
  EXPECT_FALSE(tries(kConvolutionSwitches, DeviceKind::kCuda));
  EXPECT_NE(of_another_thread(), words()) << "each keeps what it has chosen";
}

}  // namespace
}  // namespace reprise::bindings
