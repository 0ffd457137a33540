// What regions are to Python, called as Python calls it: by operators, in
// numbers for names.

#include "bindings/torch/region_library.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <torch/csrc/autograd/function.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bindings/torch/region/tape_recorder.h"
#include "tests/bindings/torch/host_runtime.h"

namespace reprise::bindings {
namespace {

using Tensors = std::vector<at::Tensor>;
using Names = std::vector<int64_t>;
using Step = RegionVariants::Step;
using Verdict = RegionVariants::Verdict;

// The operator's results.
template <typename... T>
torch::jit::Stack Op(const std::string& name, const T&... arguments) {
  torch::jit::Stack stack;
  (stack.emplace_back(arguments), ...);
  c10::Dispatcher::singleton()
      .findSchemaOrThrow(("reprise::" + name).c_str(), "")
      .callBoxed(stack);
  return stack;
}

class RegionLibraryTest : public HostRuntimeTest {
 protected:
  RegionLibraryTest() { made_ = MakeRegion(); }
  ~RegionLibraryTest() override { Op("drop_region", made_); }

  static int64_t MakeRegion(int64_t check = 0) {
    return Op("make_region", check, int64_t{0})[0].toInt();
  }
  // Of a call that gives y + 1.
  Verdict Record(int64_t region) {
    const at::NoGradGuard no_grad;
    EXPECT_TRUE(Op("begin_region", region, int64_t{0}, Tensors{y_},
                   std::vector<double>{}, int64_t{0}, Tensors{})[0]
                    .toBool());
    const auto ended =
        Op("end_region", region, Tensors{y_ + 1}, Names{}, int64_t{1});
    tape_ = ended[0].toIntVector().at(1);
    return static_cast<Verdict>(ended[0].toIntVector().at(0));
  }
  RegionCall Run(int64_t region, int64_t watch = 0, int64_t given_watch = 0) {
    const at::NoGradGuard no_grad;
    const std::shared_ptr<RegionVariants> found = FindRegion(region);
    return RunRegion(found.get(), watch, given_watch, {{&y_, 1}, {}}, nullptr);
  }
  static int64_t Of(Step step) { return static_cast<int64_t>(step); }

  at::Tensor y_ = at::randn({3});
  int64_t made_ = 0;
  int64_t tape_ = 0;
};

TEST_F(RegionLibraryTest, RegionsAreFoundUntilTheyAreDropped) {
  const int64_t other = MakeRegion();
  EXPECT_NE(other, made_);
  const auto region = FindRegion(made_);
  ASSERT_NE(region, nullptr);
  EXPECT_NE(FindRegion(other), region);
  Op("drop_region", made_);
  EXPECT_EQ(FindRegion(made_), nullptr);
  EXPECT_NE(FindRegion(other), nullptr);
  Op("drop_region", made_);  // once more does nothing
  EXPECT_FALSE(Op("begin_region", made_, int64_t{0}, Tensors{y_},
                  std::vector<double>{}, int64_t{0}, Tensors{})[0]
                   .toBool());
  EXPECT_EQ(Run(made_).step, Of(Step::kPlain));
  Op("drop_region", other);
}

TEST_F(RegionLibraryTest, ACallIsRecordedTwiceAndThenRun) {
  EXPECT_EQ(Run(made_).step, Of(Step::kRecord));
  EXPECT_EQ(Record(made_), Verdict::kSeen);
  EXPECT_EQ(Run(made_).step, Of(Step::kRecord));
  EXPECT_EQ(Record(made_), Verdict::kTrusted);
  const RegionCall call = Run(made_);
  EXPECT_EQ(call.step, Of(Step::kDone));
  EXPECT_EQ(call.tape, tape_);
  ASSERT_EQ(call.outputs.size(), 1u);
  EXPECT_TRUE(call.outputs[0].equal(y_ + 1));
}

TEST_F(RegionLibraryTest, ACheckRecordsEveryCall) {
  const int64_t checked = MakeRegion(1);
  for (int call = 0; call < 4; ++call) {
    EXPECT_EQ(Run(checked).step, Of(Step::kRecord));
    Record(checked);
  }
  Op("drop_region", checked);
}

TEST_F(RegionLibraryTest, WhatIsWatchedIsLookedAtBeforeACall) {
  Run(made_);
  Record(made_);
  Run(made_);
  Record(made_);
  std::array<int64_t, 2> words = {1, 2};
  const auto watch = [&words](size_t i) {
    const Names watched = {reinterpret_cast<int64_t>(&words[i])};
    return Op("watch_words", watched, Names{})[0].toInt();
  };
  const int64_t of_code = watch(0);
  const int64_t of_given = watch(1);
  EXPECT_EQ(Run(made_, of_code, of_given).step, Of(Step::kDone));
  words[1] = 7;
  EXPECT_EQ(Run(made_, of_code, of_given).step, RegionCall::kLookGiven);
  words[0] = 7;
  EXPECT_EQ(Run(made_, of_code, of_given).step, RegionCall::kLook);
  const int64_t anew = Op("watch_anew", of_code)[0].toInt();
  EXPECT_NE(anew, 0);
  EXPECT_EQ(Run(made_, anew).step, Of(Step::kDone));
  // Who does not watch any more may have missed something.
  Op("unwatch_words", anew);
  EXPECT_EQ(Run(made_, anew).step, RegionCall::kLook);
  EXPECT_EQ(Op("watch_anew", anew)[0].toInt(), 0);
}

TEST_F(RegionLibraryTest, OfOtherThanOrdinaryTensorsNothingIsRun) {
  y_ = y_.to_sparse();
  EXPECT_EQ(Run(made_).step, Of(Step::kPlain));
}

TEST_F(RegionLibraryTest, InAForkedChildNothingIsRun) {
  const pid_t child = fork();
  if (child == 0) _exit(Run(made_).step == RegionCall::kForked ? 0 : 1);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(Run(made_).step, Of(Step::kRecord));
}

TEST_F(RegionLibraryTest, ItsOwnerAloneAbandonsARecording) {
  const auto begin = [this](int64_t owner) {
    return Op("begin_region", made_, owner, Tensors{y_}, std::vector<double>{},
              int64_t{0}, Tensors{})[0]
        .toBool();
  };
  ASSERT_TRUE(begin(5));
  Op("abandon_region", made_, int64_t{6});
  EXPECT_TRUE(TapeRecorder::RecordsHere());
  EXPECT_FALSE(begin(6)) << "somebody else records";
  Op("abandon_region", made_, int64_t{5});
  EXPECT_FALSE(TapeRecorder::RecordsHere());
}

TEST_F(RegionLibraryTest, HistoriesEndWithTheirRegion) {
  Run(made_);
  Record(made_);
  Run(made_);
  Record(made_);
  Op("keep_history", made_, tape_, /*name=*/int64_t{7}, /*outputs=*/int64_t{1},
     /*tracked=*/int64_t{0}, Names{0}, Names{}, Names{0}, Tensors{});
  EXPECT_TRUE(Op("has_history", int64_t{7})[0].toBool());
  EXPECT_FALSE(Op("has_history", int64_t{8})[0].toBool());
  ASSERT_EQ(Run(made_).histories.size(), 1u);
  EXPECT_EQ(Run(made_).histories[0]->name(), 7);
  // No tape is known of its backward pass.
  EXPECT_TRUE(Op("replay_backward", int64_t{7}, Tensors{y_}, y_)[0]
                  .toTensorVector()
                  .empty());
  EXPECT_EQ(Op("replayed_backward", made_)[0].toInt(), 0);
  Op("drop_region", made_);
  EXPECT_FALSE(Op("has_history", int64_t{7})[0].toBool());
}

TEST_F(RegionLibraryTest, TellsWhichTensorsAreOrdinaryAndWhole) {
  const auto is = [](const char* what, const at::Tensor& tensor) {
    return Op(what, Tensors{tensor})[0].toBool();
  };
  EXPECT_TRUE(is("are_ordinary", y_.narrow(0, 1, 2)));
  EXPECT_FALSE(is("are_ordinary", y_.to_sparse()));
  EXPECT_TRUE(is("are_whole", at::empty_strided({2, 3}, {1, 2})));
  EXPECT_FALSE(is("are_whole", at::ones({2, 3}).narrow(0, 1, 1)));
  EXPECT_FALSE(is("are_whole", at::ones({1}).expand({3})));
  EXPECT_FALSE(is("are_whole", at::ones({3}).requires_grad_()));
  const at::Tensor shared = y_.view({3});
  EXPECT_FALSE(is("are_whole", shared)) << "another one has a part of it";
}

TEST_F(RegionLibraryTest, TellsByWhichArgumentsOperatorsDecide) {
  const auto arguments = [](const char* name, const char* overload) {
    std::vector<std::string> found;
    const auto results =
        Op("deciding_arguments", std::string(name), std::string(overload));
    for (const c10::IValue& each : results[0].toListRef()) {
      found.push_back(each.toStringRef());
    }
    return found;
  };
  EXPECT_EQ(arguments("aten::ctc_loss", "Tensor"),
            (std::vector<std::string>{"input_lengths", "target_lengths"}));
  EXPECT_TRUE(arguments("aten::mm", "").empty());
  EXPECT_TRUE(arguments("aten::no_such_op", "").empty());
}

TEST_F(RegionLibraryTest, HooksOnHistoriesAreFoundFromANodeOn) {
  const at::Tensor leaf = at::ones({3}).requires_grad_();
  const at::Tensor first = leaf * 2;
  const at::Tensor second = first.sin();
  const auto has_hooks = [&second](uint64_t from) {
    return Op("history_has_hooks", Tensors{second},
              static_cast<int64_t>(from))[0]
        .toBool();
  };
  EXPECT_FALSE(has_hooks(0));
  first.register_hook([](const at::Tensor& gradient) { return gradient; });
  EXPECT_TRUE(has_hooks(0));
  EXPECT_TRUE(has_hooks(first.grad_fn()->sequence_nr()));
  EXPECT_FALSE(has_hooks(second.grad_fn()->sequence_nr()));
}

TEST_F(RegionLibraryTest, WithoutARecordingThereIsNothingToPause) {
  EXPECT_EQ(Op("pause_region")[0].toStringRef(), "-");
}

// They are Python's, which is not here.
TEST_F(RegionLibraryTest, WithoutPythonThereAreNoFunctionsForIt) {
  EXPECT_EQ(RegionFunctions(), 0);
  EXPECT_EQ(Op("region_functions")[0].toInt(), 0);
}

}  // namespace
}  // namespace reprise::bindings
