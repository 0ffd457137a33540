// Memory that a replay has made is shared as torch shares its own, and its
// lease ends with the last tensor that has it.

#include <ATen/ATen.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/impl/COW.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <utility>

#include "engine/replay/ledger.h"
#include "tests/bindings/torch/fake_session.h"

namespace reprise::bindings {
namespace {

bool IsShared(const at::Tensor& tensor) {
  return c10::impl::cow::is_cow_data_ptr(
      tensor.unsafeGetTensorImpl()->unsafe_storage().data_ptr());
}

class LentMemoryTest : public ::testing::Test {
 protected:
  // Of four elements, over a place that is leased to it.
  at::Tensor Leased() {
    engine::Block::Parts lease =
        ledger_->Lease(0, reinterpret_cast<uint64_t>(memory_)).Detach();
    c10::Storage storage(c10::Storage::use_byte_size_t(), sizeof memory_,
                         c10::DataPtr(reinterpret_cast<void*>(lease.address),
                                      lease.context, lease.release, at::kCPU),
                         c10::GetCPUAllocator(), /*resizable=*/true);
    at::Tensor tensor = at::empty({0});
    tensor.set_(std::move(storage), 0, {4}, {1});
    return tensor;
  }

  FakeSession session_;  // hooks are there
  alignas(64) float memory_[4] = {1, 2, 3, 4};
  const engine::Ledger::Handle ledger_ = engine::Ledger::Create(
      engine::Block(reinterpret_cast<uint64_t>(memory_), nullptr, [](void*) {}),
      /*places=*/1);
};

TEST_F(LentMemoryTest, IsSharedUntilSomebodyWrites) {
  at::Tensor leased = Leased();
  at::Tensor clone = at::_lazy_clone(leased);
  EXPECT_TRUE(IsShared(clone));
  EXPECT_EQ(clone.const_data_ptr(), leased.const_data_ptr());
  clone.add_(1);
  EXPECT_NE(clone.const_data_ptr(), leased.const_data_ptr());
  EXPECT_TRUE(clone.equal(at::tensor({2.f, 3.f, 4.f, 5.f})));
  EXPECT_TRUE(leased.equal(at::tensor({1.f, 2.f, 3.f, 4.f})));
}

TEST_F(LentMemoryTest, EndsItsLeaseWithTheLastTensor) {
  at::Tensor leased = Leased();
  at::Tensor clone = at::_lazy_clone(leased);
  at::Tensor of_clone = at::_lazy_clone(clone);
  EXPECT_TRUE(ledger_->leased(0));
  leased.reset();
  EXPECT_TRUE(ledger_->leased(0));
  of_clone.reset();
  EXPECT_TRUE(ledger_->leased(0));
  EXPECT_TRUE(clone.equal(at::tensor({1.f, 2.f, 3.f, 4.f})));
  clone.reset();
  EXPECT_FALSE(ledger_->leased(0));
}

// The one who writes first moves out.
TEST_F(LentMemoryTest, EndsItsLeaseWhereAllOthersHaveMovedOut) {
  at::Tensor leased = Leased();
  at::Tensor clone = at::_lazy_clone(leased);
  leased.add_(1);
  EXPECT_TRUE(ledger_->leased(0));
  clone.reset();
  EXPECT_FALSE(ledger_->leased(0));
}

// A place is leased again when its lease has ended.
TEST_F(LentMemoryTest, IsSharedAgainAtTheSameAddress) {
  for (int i = 0; i < 2; ++i) {
    const at::Tensor leased = Leased();
    const at::Tensor clone = at::_lazy_clone(leased);
    EXPECT_EQ(clone.const_data_ptr(), memory_);
    EXPECT_TRUE(ledger_->leased(0));
  }
  EXPECT_FALSE(ledger_->leased(0));
}

TEST_F(LentMemoryTest, TorchsOwnIsSharedAsBefore) {
  const at::Tensor own = at::ones({4});
  const at::Tensor clone = at::_lazy_clone(own);
  EXPECT_TRUE(IsShared(clone));
  EXPECT_EQ(clone.const_data_ptr(), own.const_data_ptr());
}

}  // namespace
}  // namespace reprise::bindings
