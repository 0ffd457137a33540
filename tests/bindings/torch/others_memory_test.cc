// Which memory of the host others than torch may write.

#include "bindings/torch/runtime/others_memory.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <vector>

namespace reprise::bindings {
namespace {

bool Theirs(const at::Tensor& tensor) {
  return OthersMayWrite(*tensor.storage().unsafeGetStorageImpl());
}

void GiveAddress(const at::Tensor& tensor) {
  NoteAddressGiven(*tensor.storage().unsafeGetStorageImpl());
}

TEST(OthersMemoryTest, TorchsOwnMemoryIsNobodyElses) {
  EXPECT_FALSE(Theirs(at::ones({3})));
  EXPECT_FALSE(Theirs(at::empty({0})));
}

TEST(OthersMemoryTest, MemoryThatTorchWasGivenIsOthers) {
  std::vector<float> memory(3);
  EXPECT_TRUE(Theirs(at::from_blob(memory.data(), {3})));
}

TEST(OthersMemoryTest, WhoeverHasTheAddressMayWrite) {
  const at::Tensor given = at::ones({3});
  const at::Tensor other = at::ones({3});
  GiveAddress(given);
  EXPECT_TRUE(Theirs(given.slice(0, 1)));
  EXPECT_FALSE(Theirs(other));
}

TEST(OthersMemoryTest, AnAddressIsOfNoUseWhenTheMemoryIsGone) {
  const at::Tensor given = at::ones({3});
  GiveAddress(given);
  for (int i = 0; i < 2000; ++i) {
    const at::Tensor other = at::ones({3});
    EXPECT_FALSE(Theirs(other));
    GiveAddress(other);
  }
  EXPECT_TRUE(Theirs(given));
}

TEST(OthersMemoryTest, MemoryOfDevicesIsNotLookedAt) {
  GiveAddress(at::empty({3}, at::kMeta));  // does nothing
}

}  // namespace
}  // namespace reprise::bindings
