// Which gradients leaves had, and whether they have them still.

#include "bindings/torch/region/leaf_gradients.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <optional>

namespace reprise::bindings {
namespace {

at::Tensor Leaf(const at::Tensor& gradient) {
  at::Tensor leaf = at::zeros({3}).requires_grad_();
  leaf.mutable_grad() = gradient;
  return leaf;
}

TEST(LeafGradientsTest, KnowsWhoseGradientATensorIs) {
  const at::Tensor gradient = at::ones({3});
  const at::Tensor leaf = Leaf(gradient);
  LeafGradients gradients;
  gradients.Add(leaf);
  gradients.Add(leaf);
  gradients.Add(Leaf({}));
  EXPECT_EQ(gradients.size(), 2u);
  const auto* found = gradients.LeafOf(gradient.unsafeGetTensorImpl());
  ASSERT_NE(found, nullptr);
  EXPECT_TRUE(found->tensor.is_same(leaf));
  EXPECT_EQ(gradients.LeafOf(leaf.unsafeGetTensorImpl()), nullptr);
}

TEST(LeafGradientsTest, NoticesGradientsInOnePlace) {
  const at::Tensor both = at::ones({6});
  const at::Tensor one = both.slice(0, 0, 3);
  const at::Tensor same = both.slice(0, 0, 3);
  const at::Tensor other = both.slice(0, 3, 6);
  LeafGradients gradients;
  gradients.Add(Leaf(one));
  gradients.Add(Leaf(other));
  EXPECT_FALSE(gradients.SharesPlace(one));
  gradients.Add(Leaf(same));
  EXPECT_TRUE(gradients.SharesPlace(one));
  EXPECT_TRUE(gradients.SharesPlace(same));
  EXPECT_FALSE(gradients.SharesPlace(other));
}

TEST(LeafGradientsTest, NotesWhenTheFirstOneIsLost) {
  at::Tensor had_none = Leaf({});
  at::Tensor replaced = Leaf(at::ones({3}));
  LeafGradients gradients;
  gradients.Add(had_none);
  gradients.Add(replaced);
  had_none.mutable_grad() = at::ones({3});
  EXPECT_TRUE(gradients[0].has_changed());
  gradients.LookForDropped(4);
  EXPECT_EQ(gradients.dropped_at(), std::nullopt) << "nothing was lost";
  replaced.mutable_grad() = at::ones({3});
  EXPECT_TRUE(gradients[1].has_changed());
  gradients.LookForDropped(5);
  gradients.LookForDropped(6);
  EXPECT_EQ(gradients.dropped_at(), std::optional<size_t>(5));
}

}  // namespace
}  // namespace reprise::bindings
