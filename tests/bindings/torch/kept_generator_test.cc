// Random generators are put back where they were.

#include "bindings/torch/runtime/kept_generator.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

namespace reprise::bindings {
namespace {

struct ForeignGenerator final : public c10::GeneratorImpl {
  ForeignGenerator()
      : GeneratorImpl(c10::Device(c10::kCPU),
                      c10::DispatchKeySet(c10::DispatchKey::CustomRNGKeyId)) {}
  void set_current_seed(uint64_t) override {}
  void set_offset(uint64_t) override {}
  uint64_t get_offset() const override { return 0; }
  uint64_t current_seed() const override { return 0; }
  uint64_t seed() override { return 0; }
  void set_state(const c10::TensorImpl&) override {}
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    return at::zeros({1}).getIntrusivePtr();
  }
  GeneratorImpl* clone_impl() const override { return new ForeignGenerator; }
};

TEST(KeptGeneratorTest, WhatIsDrawnBehindItIsDrawnAgain) {
  for (at::Generator generator :
       {at::detail::getDefaultCPUGenerator(),
        at::make_generator<at::CPUGeneratorImpl>(7)}) {
    ASSERT_TRUE(KeptGenerator::MayKeep(generator));
    (void)at::normal(0, 1, {1}, generator);  // a second sample is kept
    const KeptGenerator kept(generator);
    const at::Tensor state = generator.get_state();
    const at::Tensor first = at::normal(0, 1, {3}, generator);
    const at::Tensor second = at::rand({700}, generator);
    kept.PutBack();
    EXPECT_TRUE(generator.get_state().equal(state));
    EXPECT_TRUE(at::normal(0, 1, {3}, generator).equal(first));
    EXPECT_TRUE(at::rand({700}, generator).equal(second));
    kept.PutBack();
    EXPECT_TRUE(at::normal(0, 1, {3}, generator).equal(first)) << "once more";
  }
}

TEST(KeptGeneratorTest, KeepsNoneOfOthers) {
  EXPECT_FALSE(KeptGenerator::MayKeep(at::make_generator<ForeignGenerator>()));
}

}  // namespace
}  // namespace reprise::bindings
