// What is done of a batch is one event, with a name that people know.

#include "scheduler/batch_span.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/clock.h"
#include "engine/batch/kernel_code.h"
#include "tests/engine/base/manual_clock.h"

namespace reprise::scheduler {
namespace {

using engine::Node;

class BatchSpanTest : public testing::Test {
 protected:
  void Launch(const std::string& kernel) {
    for (const auto& code : codes_) {
      if (code->name() == kernel) return AddNode(Node::Kind::kKernel, &*code);
    }
    codes_.push_back(std::make_shared<engine::KernelCode>(
        kernel, std::vector<device::ParamSpan>()));
    AddNode(Node::Kind::kKernel, &*codes_.back());
  }
  void AddNode(Node::Kind kind, engine::KernelCode* kernel = nullptr) {
    Node& node = nodes_.emplace_back();
    node.kind = kind;
    node.kernel = kernel;
  }

  std::vector<std::shared_ptr<engine::KernelCode>> codes_;
  std::vector<Node> nodes_;
};

TEST_F(BatchSpanTest, TheProgramsNameIsTheLabel) {
  Launch("axpy");
  EXPECT_EQ(LabelOf(nodes_, "step"), "step");
  EXPECT_EQ(LabelOf({}, ""), "");
}

TEST_F(BatchSpanTest, WithoutANameEachKindIsNamedOnce) {
  AddNode(Node::Kind::kFill);
  for (int i = 0; i < 3; ++i) {
    Launch("dot");
    Launch("axpy");
  }
  AddNode(Node::Kind::kCopy);
  AddNode(Node::Kind::kWait);
  AddNode(Node::Kind::kRecord);
  AddNode(Node::Kind::kCapture);
  EXPECT_EQ(LabelOf(nodes_, ""), "fill, dot, axpy, copy, event, captured work");
}

TEST_F(BatchSpanTest, LongLabelsAreCutBetweenNames) {
  for (int i = 0; i < 40; ++i) Launch("kernel_" + std::to_string(i));
  const std::string label = LabelOf(nodes_, "");
  EXPECT_TRUE(label.starts_with("kernel_0, kernel_1, ")) << label;
  EXPECT_TRUE(label.ends_with(", ...")) << label;
  EXPECT_LT(label.size(), 64u);
}

TEST_F(BatchSpanTest, IsAnEventWhileSomebodyLooks) {
  base::ManualClock clock;
  Timeline timeline(&clock);
  const Track track(&timeline, nullptr, "stream 1");
  Launch("axpy");
  { const BatchSpan unseen(track, Doing::kLaunching, nodes_, "before"); }
  const Timeline::Position begin = timeline.Start();
  {
    const BatchSpan span(track, Doing::kReplaying, nodes_, "step");
    clock.Advance(std::chrono::microseconds(7));
  }
  const auto events = timeline.Since(begin).events;
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].doing, Doing::kReplaying);
  EXPECT_EQ(events[0].text(), "step");
  EXPECT_EQ(events[0].ops, 1u);
  EXPECT_EQ(events[0].signature, SignatureOf(nodes_));
  EXPECT_EQ(events[0].end - events[0].begin, std::chrono::microseconds(7));
}

}  // namespace
}  // namespace reprise::scheduler
