// Where Python may read a value: a run of the tape could go back from there.

#include "bindings/torch/region/read_check.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "tests/bindings/torch/recording.h"

namespace reprise::bindings {
namespace {

class ReadCheckTest : public testing::Test {
 protected:
  // Why the callable's calls are no tape; empty: they are one.
  std::string Refused(const std::function<void()>& callable,
                      TapePass pass = TapePass::kWhole) {
    auto recorder =
        TapeRecorder::Begin({.pass = pass, .inputs = {x_}, .watched = {leaf_}});
    callable();
    const auto outcome =
        recorder->End({}, {}, pass == TapePass::kForward ? 0 : SIZE_MAX);
    no_forward_pass_ = outcome.no_forward_pass;
    if (outcome.tape != nullptr) reads_ = outcome.tape->reads().size();
    return outcome.tape == nullptr ? outcome.reason : "";
  }
  void Read() { (void)x_.sum().item(); }

  const at::Tensor x_ = at::ones({3});
  at::Tensor leaf_ = at::ones({3}).requires_grad_();
  at::Tensor total_ = at::zeros({3});
  std::string no_forward_pass_;
  size_t reads_ = 0;
};

bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_F(ReadCheckTest, ReadsBehindDraws) {
  const at::NoGradGuard no_grad;
  EXPECT_EQ(Refused([this] {
              (void)at::rand({3});
              Read();
              (void)at::bernoulli(x_);
              Read();
            }),
            "");
  EXPECT_EQ(reads_, 2u);
}

TEST_F(ReadCheckTest, ReadsBehindABackwardPassThatMakesGradients) {
  EXPECT_EQ(Refused([this] {
              leaf_.mul(x_).sum().backward();
              Read();
            }),
            "");
}

TEST_F(ReadCheckTest, NamesWhatHasWritten) {
  const at::NoGradGuard no_grad;
  const std::string reason = Refused([this] {
    total_.add_(x_);
    Read();
  });
  EXPECT_TRUE(Has(reason,
                  "hands data to the host, behind a write to memory "
                  "from outside (or that no operator has filled) by "
                  "aten::add_.Tensor"))
      << reason;
}

TEST_F(ReadCheckTest, ForwardPassesReadNothingBehindDraws) {
  const at::NoGradGuard no_grad;
  const std::string reason = Refused(
      [this] {
        (void)at::rand({3});
        Read();
      },
      TapePass::kForward);
  EXPECT_TRUE(Has(reason, "behind random numbers")) << reason;
  EXPECT_EQ(Refused([this] { Read(); }, TapePass::kForward), "");
  EXPECT_TRUE(no_forward_pass_.empty()) << "no forward pass is in question";
}

}  // namespace
}  // namespace reprise::bindings
