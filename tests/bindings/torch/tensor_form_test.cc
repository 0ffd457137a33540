// What of a tensor is known before a call: another form is told, other data is
// not.

#include "bindings/torch/base/tensor_form.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace reprise::bindings {
namespace {

using Change = std::function<void(at::Tensor&)>;

struct NamedChange {
  std::string name;
  Change change;
};

// Of a leaf of the host of [2, 3] that requires no gradient: all that its form
// tells.
std::vector<NamedChange> Changes() {
  return {
      {"sizes",
       [](at::Tensor& t) {
         t.set_data(at::ones({3, 2}));
       }},
      {"rank",
       [](at::Tensor& t) {
         t.set_data(at::ones({2, 3, 1}));
       }},
      {"strides",
       [](at::Tensor& t) {
         t.set_data(at::ones({3, 2}).t());
       }},
      {"dtype",
       [](at::Tensor& t) {
         t.set_data(at::ones({2, 3}, at::kInt));
       }},
      {"gradient is asked for",
       [](at::Tensor& t) { t.set_requires_grad(true); }},
      {"hook",
       [](at::Tensor& t) {
         t.set_requires_grad(true);
         t.register_hook([](const at::Tensor& gradient) { return gradient; });
       }},
      {"history",
       [](at::Tensor& t) {
         t.add_(at::ones({2, 3}).requires_grad_());
       }},
  };
}

at::Tensor Ones() { return at::ones({2, 3}); }

TEST(TensorFormTest, IsEqualWhateverTheDataAre) {
  EXPECT_EQ(TensorForm::Of(Ones()), TensorForm::Of(at::randn({2, 3})));
  for (const NamedChange& by : Changes()) {
    at::Tensor changed = Ones();
    by.change(changed);
    EXPECT_NE(TensorForm::Of(changed), TensorForm::Of(Ones())) << by.name;
  }
}

TEST(TensorFormTest, HoldsTheOffset) {
  const at::Tensor part = at::ones({4, 3}, at::kDouble).narrow(0, 2, 2);
  const TensorForm form = TensorForm::Of(part);
  EXPECT_EQ(form.storage_offset, 6);
  EXPECT_EQ(form.offset_bytes(), 48);
  // It is no part of what fits.
  EXPECT_TRUE(
      form.FitsValue(*at::ones({2, 3}, at::kDouble).unsafeGetTensorImpl()));
}

TEST(TensorFormTest, FitsNothingElse) {
  const TensorForm form = TensorForm::Of(Ones());
  EXPECT_TRUE(form.Fits(*at::randn({2, 3}).unsafeGetTensorImpl(), false));
  for (const NamedChange& by : Changes()) {
    at::Tensor changed = Ones();
    by.change(changed);
    EXPECT_FALSE(form.Fits(*changed.unsafeGetTensorImpl(), false)) << by.name;
    EXPECT_TRUE(
        TensorForm::Of(changed).Fits(*changed.unsafeGetTensorImpl(), false))
        << by.name;
  }
}

TEST(TensorFormTest, AGradientIsToldApart) {
  at::Tensor tensor = Ones().requires_grad_();
  const TensorForm form = TensorForm::Of(tensor);
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  EXPECT_EQ(GradientOf(impl), nullptr);
  EXPECT_TRUE(form.Fits(impl, false));
  EXPECT_FALSE(form.Fits(impl, true));
  tensor.mutable_grad() = Ones();
  EXPECT_EQ(GradientOf(impl), tensor.grad().unsafeGetTensorImpl());
  EXPECT_TRUE(form.Fits(impl, true));
  EXPECT_FALSE(form.Fits(impl, false));
  EXPECT_EQ(GradientOf(*Ones().unsafeGetTensorImpl()), nullptr);
}

TEST(TensorFormTest, AValueFitsWithOtherHooks) {
  at::Tensor hooked = Ones().requires_grad_();
  const TensorForm form = TensorForm::Of(hooked);
  hooked.register_hook([](const at::Tensor& gradient) { return gradient; });
  EXPECT_FALSE(form.Fits(*hooked.unsafeGetTensorImpl(), false));
  EXPECT_TRUE(form.FitsValue(*hooked.unsafeGetTensorImpl()));
}

TEST(TensorFormTest, OfNoOrdinaryTensorHasNoSizes) {
  const at::Tensor sparse = Ones().to_sparse();
  const TensorForm form = TensorForm::Of(sparse);
  EXPECT_TRUE(form.sizes.empty());
  EXPECT_TRUE(form.strides.empty());
  EXPECT_TRUE(form.Fits(*sparse.unsafeGetTensorImpl(), false));
  EXPECT_FALSE(form.Fits(*Ones().unsafeGetTensorImpl(), false));
}

// One of them, or many in rows: both hold alike.
class WatchedTensorsTest : public testing::Test {
 protected:
  // Sparse ones fit into no row.
  void Watch(std::vector<at::Tensor> tensors) {
    kept_ = std::move(tensors);
    for (const at::Tensor& tensor : kept_) {
      each_.push_back(WatchedTensor::Of(tensor));
      all_.Add(each_.back());
    }
  }
  bool Hold(Storages elsewhere = {}) {
    const bool each = std::ranges::all_of(
        each_,
        [elsewhere](const WatchedTensor& one) { return one.Holds(elsewhere); });
    EXPECT_EQ(all_.Hold(elsewhere), each);
    return each;
  }

  std::vector<at::Tensor> kept_;
  std::vector<WatchedTensor> each_;
  WatchedTensors all_;
};

TEST_F(WatchedTensorsTest, HoldWhateverTheirDataAre) {
  EXPECT_TRUE(Hold()) << "there are none";
  Watch({Ones(), at::ones({}), Ones().to_sparse(), Ones()});
  EXPECT_TRUE(Hold());
  kept_[0].fill_(7);
  kept_[1].set_data(at::zeros({}));
  EXPECT_TRUE(Hold());
}

TEST_F(WatchedTensorsTest, EachChangeOfAFormIsSeen) {
  for (const NamedChange& by : Changes()) {
    each_.clear();
    all_ = WatchedTensors();
    std::vector<at::Tensor> tensors;
    // More than are on their way at once.
    for (int i = 0; i < 9; ++i) tensors.push_back(Ones());
    Watch(std::move(tensors));
    EXPECT_TRUE(Hold()) << by.name;
    by.change(kept_[7]);
    EXPECT_FALSE(Hold()) << by.name;
  }
}

TEST_F(WatchedTensorsTest, TheOffsetAndTheGradientAreSeen) {
  const at::Tensor whole = at::ones({8});
  at::Tensor leaf = Ones().requires_grad_();
  Watch({whole.narrow(0, 0, 4), leaf});
  kept_[0].set_data(whole.narrow(0, 4, 4));
  EXPECT_FALSE(Hold());
  kept_[0].set_data(whole.narrow(0, 0, 4));
  EXPECT_TRUE(Hold());
  leaf.mutable_grad() = Ones();
  EXPECT_FALSE(Hold());
}

TEST_F(WatchedTensorsTest, WhatIsGoneDoesNotHold) {
  Watch({Ones(), Ones()});
  kept_[1].reset();
  EXPECT_FALSE(Hold());
}

TEST_F(WatchedTensorsTest, NoneLiesInTheStoragesThatAreNamed) {
  Watch({Ones(), Ones()});
  const at::Tensor other = Ones();
  const auto of = [](const at::Tensor& tensor) {
    return tensor.storage().unsafeGetStorageImpl();
  };
  std::vector<const c10::StorageImpl*> storages = {of(other)};
  EXPECT_TRUE(Hold(storages));
  storages.push_back(of(kept_[1]));
  std::ranges::sort(storages);
  EXPECT_FALSE(Hold(storages));
}

TEST_F(WatchedTensorsTest, KnowWhichOnesTheyAre) {
  Watch({Ones(), Ones().to_sparse(), Ones()});
  for (const at::Tensor& tensor : kept_) {
    EXPECT_TRUE(all_.Has(tensor.unsafeGetTensorImpl()));
  }
  EXPECT_FALSE(all_.Has(Ones().unsafeGetTensorImpl()));
}

// Its address may be another tensor's one day: the weak reference keeps that
// from happening.
TEST_F(WatchedTensorsTest, HoldNoMemory) {
  at::Tensor tensor = Ones();
  const WatchedTensor watched = WatchedTensor::Of(tensor);
  EXPECT_EQ(tensor.use_count(), 1u);
  const c10::weak_intrusive_ptr<c10::StorageImpl> storage(
      c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(
          tensor.storage().unsafeGetStorageImpl()));
  tensor.reset();
  EXPECT_EQ(storage.use_count(), 0u);
  EXPECT_FALSE(watched.Holds());
}

}  // namespace
}  // namespace reprise::bindings
