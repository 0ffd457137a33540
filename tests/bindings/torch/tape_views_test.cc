// Which calls of a tape give the same views each time, and which of them need
// not be made.

#include "bindings/torch/region/tape_views.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bindings/torch/region/tape.h"
#include "bindings/torch/region/tape_recorder.h"

namespace reprise::bindings {
namespace {

using Tensors = std::vector<at::Tensor>;

std::shared_ptr<const Tape> Record(const Tensors& inputs,
                                   const std::function<Tensors()>& callable) {
  auto recorder = TapeRecorder::Begin({.inputs = inputs});
  const Tensors outputs = callable();
  const auto outcome = recorder->End(outputs, {});
  EXPECT_NE(outcome.tape, nullptr) << outcome.reason;
  return outcome.tape;
}

// The first call of that operator.
const TapeCall& CallOf(const Tape& tape, const std::string& name) {
  for (const TapeCall& call : tape.record().calls) {
    if (call.op.operator_name().name == name) return call;
  }
  ADD_FAILURE() << name;
  return tape.record().calls.front();
}

TEST(TapeViewsTest, MakesTensorsOverMemoryThatThereIs) {
  const at::Tensor whole = at::randn({4, 6});
  const at::Tensor part = whole.slice(1, 2, 5).t();
  const at::Tensor made = MakeOver(whole.storage(), TensorForm::Of(part));
  EXPECT_TRUE(made.equal(part));
  EXPECT_EQ(made.data_ptr(), part.data_ptr());
  EXPECT_EQ(made.key_set(), part.key_set());
}

TEST(TapeViewsTest, ViewOfAResultIsOnlyAView) {
  const at::NoGradGuard no_grad;
  const at::Tensor x = at::randn({4, 3});
  const auto tape = Record({x}, [&] { return Tensors{x.sin().t().exp()}; });
  EXPECT_TRUE(CallOf(*tape, "aten::t").only_views);
  EXPECT_FALSE(CallOf(*tape, "aten::sin").views);
}

TEST(TapeViewsTest, ViewThatIsHandedOutIsMade) {
  const at::NoGradGuard no_grad;
  const at::Tensor x = at::randn({4, 3});
  const auto tape = Record({x}, [&] { return Tensors{x.sin().t()}; });
  EXPECT_TRUE(CallOf(*tape, "aten::t").views);
  EXPECT_FALSE(CallOf(*tape, "aten::t").only_views);
}

TEST(TapeViewsTest, DetachedOneThatIsHandedOutIsNone) {
  const at::NoGradGuard no_grad;
  const at::Tensor x = at::randn({4, 3});
  const auto tape = Record({x}, [&] { return Tensors{x.sin().t().detach()}; });
  EXPECT_TRUE(CallOf(*tape, "aten::detach").only_views);
  EXPECT_TRUE(CallOf(*tape, "aten::t").only_views);
}

TEST(TapeViewsTest, DetachedOneWithAViewThatIsHandedOutIsMade) {
  const at::NoGradGuard no_grad;
  const at::Tensor x = at::randn({4, 3});
  const auto tape = Record({x}, [&] {
    const at::Tensor detached = x.sin().detach();
    return Tensors{detached, detached.t()};
  });
  EXPECT_FALSE(CallOf(*tape, "aten::detach").only_views);
  EXPECT_FALSE(CallOf(*tape, "aten::t").only_views);
}

TEST(TapeViewsTest, ViewThatIsWrittenIsMade) {
  const at::NoGradGuard no_grad;
  const at::Tensor x = at::randn({4, 3});
  const auto tape = Record({x}, [&] {
    const at::Tensor turned = x.sin().t();
    turned.add_(1);
    return Tensors{turned.exp()};
  });
  EXPECT_FALSE(CallOf(*tape, "aten::t").only_views);
}

// It begins at another place in its storage in each call.
TEST(TapeViewsTest, ViewOfAnArgumentIsAnotherOneEachTime) {
  const at::NoGradGuard no_grad;
  const at::Tensor x = at::randn({4, 3});
  const auto tape = Record({x}, [&] { return Tensors{x.t().exp()}; });
  EXPECT_FALSE(CallOf(*tape, "aten::t").views);
}

TEST(TapeViewsTest, RegistersOfMemoryThatOthersSeeAreOutside) {
  const at::NoGradGuard no_grad;
  const at::Tensor x = at::randn({4, 3});
  const auto tape = Record({x}, [&] { return Tensors{x.sin().exp()}; });
  const TapeRecord& record = tape->record();
  ASSERT_EQ(record.registers.size(), 3u);
  EXPECT_TRUE(record.registers[0].outside) << "an argument";
  EXPECT_FALSE(record.registers[1].outside);
  EXPECT_TRUE(record.registers[2].outside) << "an output";
}

}  // namespace
}  // namespace reprise::bindings
