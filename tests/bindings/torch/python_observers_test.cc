// Functions of C that Python calls, observed: what has run ahead is taken back
// before they use it, and what is recorded knows of them.

#include "bindings/torch/observe/python_observers.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/library.h>

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/torch/base/python_api.h"
#include "bindings/torch/region/tape_recorder.h"
#include "bindings/torch/runtime/session_source.h"
#include "bindings/torch/runtime/thread_state.h"
#include "scheduler/interrupts.h"
#include "tests/bindings/torch/host_runtime.h"

namespace reprise::bindings {
namespace {

using Function = void* (*)(void*, void*, void*, void*, void*);

// As Python names them (`Use` in _enums.py).
enum class Use : int64_t {
  kTensor = 0,
  kStorage = 1,
  kMemory = 2,
  kStreams = 3,
  kLaunches = 4,
  kGraph = 5,
  kSeeds = 6,
  kScripts = 7,
  kWaits = 8,
  kKernels = 9,
  kSavedTensors = 10,
  kLibraries = 12,
  kModes = 13,
  kPlans = 14,
  kOffset = 15,
};

// What the function does that is observed. Null: it raises an error.
std::function<void*()> g_does;
std::array<void*, 5> g_given;

void* Observed(void* a, void* b, void* c, void* d, void* e) {
  g_given = {a, b, c, d, e};
  return g_does ? g_does() : nullptr;
}

class PythonObserversTest : public HostRuntimeTest {
 protected:
  PythonObserversTest() {
    const std::vector<int64_t> functions = PlainFunctions();
    observer_of_ =
        reinterpret_cast<int64_t (*)(int64_t, int64_t)>(functions.at(0));
    interrupt_ = reinterpret_cast<void (*)()>(functions.at(1));
    enter_ = reinterpret_cast<void (*)()>(functions.at(2));
    leave_ = reinterpret_cast<void (*)()>(functions.at(3));
    g_does = [this] { return &done_; };
  }
  ~PythonObserversTest() override { g_does = nullptr; }

  Function Observer(Use use) {
    const int64_t observer = observer_of_(reinterpret_cast<int64_t>(&Observed),
                                          static_cast<int64_t>(use));
    return reinterpret_cast<Function>(observer);
  }
  // Python calls it, with what has that in it.
  void* Call(Use use, void* held = nullptr) {
    PythonObject object{{}, held};
    return Observer(use)(&object, nullptr, nullptr, nullptr, nullptr);
  }
  // The same, and whether a replay that is under way ends there.
  bool Ends(Use use, void* held = nullptr) {
    return SquashedBy([&] { Call(use, held); }) == 1;
  }
  // Why calls cannot be written down among which that is; empty: they can.
  std::string Refused(Use use, void* held = nullptr) {
    const at::NoGradGuard no_grad;
    auto recorder = TapeRecorder::Begin({.inputs = {x_}});
    Call(use, held);
    const std::vector<at::Tensor> outputs = {x_ + 1};
    auto outcome = recorder->End(outputs, {});
    if (outcome.tape != nullptr) tape_ = outcome.tape;
    return outcome.reason;
  }

  int64_t (*observer_of_)(int64_t, int64_t) = nullptr;
  void (*interrupt_)() = nullptr;
  void (*enter_)() = nullptr;
  void (*leave_)() = nullptr;
  int done_ = 0;
  const at::Tensor x_ = at::ones({3});
  std::shared_ptr<const Tape> tape_;
};

TEST_F(PythonObserversTest, DoesWhatItObserves) {
  std::array<int, 5> words = {};
  for (const Use use : {Use::kMemory, Use::kSeeds, Use::kLaunches}) {
    EXPECT_EQ(
        Observer(use)(&words[0], &words[1], &words[2], &words[3], &words[4]),
        &done_);
    for (size_t i = 0; i < words.size(); ++i) EXPECT_EQ(g_given[i], &words[i]);
  }
}

TEST_F(PythonObserversTest, AReplayEndsBeforeItsMemoryIsUsed) {
  EXPECT_FALSE(Ends(Use::kSeeds));
  EXPECT_TRUE(Ends(Use::kMemory));
  EXPECT_TRUE(Ends(Use::kTensor, x_.unsafeGetTensorImpl()));
  EXPECT_TRUE(Ends(Use::kStorage, x_.storage().unsafeGetStorageImpl()));
  EXPECT_TRUE(Ends(Use::kLaunches));
  EXPECT_TRUE(Ends(Use::kKernels));
  EXPECT_EQ(SquashedBy(interrupt_), 1u);
}

TEST_F(PythonObserversTest, TheReplayHasEndedWhenTheFunctionBegins) {
  for (const Use use : {Use::kMemory, Use::kLaunches, Use::kKernels}) {
    uint64_t squashes = 0;
    g_does = [&] {
      squashes = Stats().squashes;
      return &done_;
    };
    uint64_t before = 0;
    SquashedBy([&] {
      before = Stats().squashes;
      Call(use);
    });
    EXPECT_EQ(squashes, before + 1) << static_cast<int64_t>(use);
  }
}

TEST_F(PythonObserversTest, MemoryOfOthersIsNoneOfItsBusiness) {
  const at::Tensor elsewhere = at::empty({3}, at::kMeta);
  EXPECT_FALSE(Ends(Use::kTensor, elsewhere.unsafeGetTensorImpl()));
  EXPECT_FALSE(Ends(Use::kStorage, elsewhere.storage().unsafeGetStorageImpl()));
  EXPECT_FALSE(Ends(Use::kTensor)) << "an object that holds no tensor";
}

TEST_F(PythonObserversTest, OnTheHostStreamsOfCudaAreNotUsed) {
  for (const Use use : {Use::kStreams, Use::kScripts}) {
    EXPECT_FALSE(Ends(use)) << static_cast<int64_t>(use);
  }
}

TEST_F(PythonObserversTest, WhatAsksOrSetsUsesNoMemory) {
  for (const Use use : {Use::kSeeds, Use::kSavedTensors, Use::kModes}) {
    EXPECT_FALSE(Ends(use)) << static_cast<int64_t>(use);
  }
}

// A device may have written memory of the host meanwhile.
TEST_F(PythonObserversTest, AReplayEndsWhereTheHostHasWaited) {
  // A runtime of which no memory was used unseen.
  base::Options options = HostOptions();
  options.margin = 0.5;
  ASSERT_TRUE(EnableRuntime({scheduler::DeviceKind::kHost}, options));
  Learn();
  scheduler::HostWait wait;  // for what was enqueued before
  Active().scheduler().interrupts().NoteWaitForDevice(0, wait);
  HostHasWaited(wait);
  EXPECT_TRUE(Ends(Use::kWaits));
}

TEST_F(PythonObserversTest, AReplayThatBeginsMeanwhileEndsBehindTheUse) {
  Learn();
  const uint64_t before = Stats().squashes;
  g_does = [this] {
    BeginReplay();
    return &done_;
  };
  Call(Use::kMemory);
  EXPECT_EQ(Stats().squashes, before + 1);
  Finish();
}

TEST_F(PythonObserversTest, OpsOfWhatLaunchesBelongToIt) {
  Learn();
  bool was_inside = false;
  g_does = [&] {
    was_inside = t_thread_state.depth == 1 && t_thread_state.under_way();
    return &done_;
  };
  Call(Use::kLaunches);
  EXPECT_TRUE(was_inside);
  EXPECT_EQ(t_thread_state.depth, 0u);
  EXPECT_FALSE(t_thread_state.under_way());
}

TEST_F(PythonObserversTest, WhatIsEnteredTwiceIsLeftTwice) {
  EXPECT_EQ(SquashedBy([this] {
              enter_();
              enter_();
              EXPECT_TRUE(t_thread_state.under_way());
              leave_();
              EXPECT_EQ(t_thread_state.depth, 1u);
              EXPECT_TRUE(t_thread_state.under_way()) << "of the first one";
              leave_();
            }),
            1u);
  EXPECT_EQ(t_thread_state.depth, 0u);
  EXPECT_FALSE(t_thread_state.under_way());
}

TEST_F(PythonObserversTest, WhatIsRecordedKnowsOfUses) {
  EXPECT_EQ(Refused(Use::kSeeds), "a random generator is set");
  EXPECT_EQ(Refused(Use::kModes),
            "a dispatch mode begins inside, whose Python no replay runs");
  EXPECT_NE(Refused(Use::kMemory).find("memory is used without an op"),
            std::string::npos);
  EXPECT_EQ(Refused(Use::kStreams), "streams or graphs of CUDA are used");
}

TEST_F(PythonObserversTest, WhereAnArgumentBeginsIsAFormOnceItIsAskedFor) {
  EXPECT_EQ(Refused(Use::kOffset), "") << "an object that holds no tensor";
  ASSERT_NE(tape_, nullptr);
  EXPECT_FALSE(tape_->record().placement.fixed_offsets);
  EXPECT_EQ(Refused(Use::kOffset, x_.unsafeGetTensorImpl()), "");
  EXPECT_TRUE(tape_->record().placement.fixed_offsets);
}

TEST_F(PythonObserversTest, OnlyKernelsThatChangeAreAReason) {
  // It stays: the observer looks behind the call.
  static std::vector<torch::Library> kept;
  for (const auto& [use, replaced] :
       {std::pair(Use::kKernels, "erfinv"), {Use::kLibraries, "erfc"}}) {
    g_does = [this] { return &done_; };
    EXPECT_EQ(Refused(use), "");
    g_does = [this, replaced] {
      torch::Library& kernels =
          kept.emplace_back(torch::Library::IMPL, "aten", c10::DispatchKey::CPU,
                            __FILE__, __LINE__);
      kernels.impl(replaced,
                   [](const at::Tensor& tensor) { return tensor.clone(); });
      return &done_;
    };
    EXPECT_EQ(Refused(use), "kernels of operators are registered") << replaced;
  }
}

TEST_F(PythonObserversTest, WithoutARuntimeFunctionsAreCalledAllTheSame) {
  ASSERT_TRUE(ActivateRuntime(nullptr));
  for (const Use use : {Use::kTensor, Use::kMemory, Use::kGraph, Use::kPlans,
                        Use::kWaits, Use::kLaunches}) {
    EXPECT_EQ(Call(use, x_.unsafeGetTensorImpl()), &done_);
  }
}

// The last test: no more can be observed in this process.
TEST_F(PythonObserversTest, TooManyAreNotObserved) {
  int observed = 0;
  while (Observer(Use::kSeeds) != nullptr && observed <= 2000) ++observed;
  EXPECT_GT(observed, 500);
  EXPECT_LE(observed, 1024);
}

}  // namespace
}  // namespace reprise::bindings
