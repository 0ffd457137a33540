// torch's host as the engine sees it: nothing that a program can read changes.

#include "bindings/torch/runtime/torch_frontend.h"

#include <ATen/ATen.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/COW.h>
#include <gtest/gtest.h>

#include <cstring>
#include <iterator>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace reprise::bindings {
namespace {

class HostFrontendTest : public ::testing::Test {
 protected:
  static std::string Name(engine::OpId op) { return "op" + std::to_string(op); }

  std::unique_ptr<engine::Frontend> frontend_ =
      MakeFrontend({scheduler::DeviceKind::kHost, 0, nullptr}, &Name);
};

engine::StorageToken Token(const at::Tensor& tensor) {
  return TokenOf(*tensor.storage().unsafeGetStorageImpl());
}

TEST_F(HostFrontendTest, NamesOpsAndTheLackOfOne) {
  EXPECT_EQ(frontend_->OpName(7), "op7");
  EXPECT_EQ(engine::NameOf(*frontend_, engine::kNoOp), "(no op)");
}

TEST_F(HostFrontendTest, OpsOfTorchsThatKeepTheirOrderMayRunBesideOthers) {
  static constexpr const char* kNames[] = {
      "aten::mm",        "aten::convolution", "aten::scatter_add_",
      "aten::mm_sketch", "other::mm",         "aten::gelu_backward",
      "aten::cumsum",    "aten::index_put_"};
  const auto frontend =
      MakeFrontend({scheduler::DeviceKind::kHost, 0, nullptr},
                   [](engine::OpId op) { return std::string(kNames[op]); });
  std::vector<bool> may;
  for (engine::OpId op = 0; op < std::size(kNames); ++op) {
    may.push_back(frontend->MayRunBeside(op));
  }
  EXPECT_EQ(may, (std::vector<bool>{true, true, false, true, false, false,
                                    false, false}));
}

TEST_F(HostFrontendTest, RetainingChangesNoUseCount) {
  at::Tensor tensor = at::rand({4});
  const auto storage_uses = tensor.storage().use_count();
  frontend_->Retain(Token(tensor));
  EXPECT_EQ(tensor.storage().use_count(), storage_uses);
  EXPECT_EQ(tensor.use_count(), 1u);
  frontend_->Release(Token(tensor));
}

TEST_F(HostFrontendTest, SeesAStorageDieAndItsMemoryGo) {
  at::Tensor tensor = at::rand({4});
  const engine::StorageToken token = Token(tensor);
  frontend_->Retain(token);
  EXPECT_TRUE(frontend_->Alive(token));
  EXPECT_EQ(frontend_->Base(token),
            reinterpret_cast<uint64_t>(tensor.const_data_ptr()));
  tensor.reset();
  EXPECT_FALSE(frontend_->Alive(token));
  EXPECT_EQ(frontend_->Base(token), 0u);
  frontend_->Release(token);
}

TEST_F(HostFrontendTest, HoldsStoragesThatAreWhereTheyWere) {
  const at::Tensor kept = at::rand({4});
  at::Tensor freed = at::rand({4});
  at::Tensor moved = at::rand({4});
  std::vector<engine::StoragePlace> places;
  for (const at::Tensor& tensor : {kept, freed, moved}) {
    frontend_->Retain(Token(tensor));
    places.push_back({Token(tensor), frontend_->Base(Token(tensor))});
  }
  EXPECT_EQ(frontend_->Hold(places), 3u);
  EXPECT_EQ(kept.storage().use_count(), 2u);
  frontend_->Drop(places);
  EXPECT_EQ(kept.storage().use_count(), 1u);
  // As far as the first one that is not.
  moved.storage().unsafeGetStorageImpl()->set_data_ptr_noswap(
      c10::GetCPUAllocator()->allocate(64));
  EXPECT_EQ(frontend_->Hold(places), 2u);
  frontend_->Drop(std::span(places).first(2));
  freed.reset();
  EXPECT_EQ(frontend_->Hold(places), 1u);
  frontend_->Drop(std::span(places).first(1));
  EXPECT_EQ(kept.storage().use_count(), 1u);
  for (const engine::StoragePlace& place : places) {
    frontend_->Release(place.storage);
  }
}

// The last reference may be the one that was held.
TEST_F(HostFrontendTest, DropFreesWhatTheProgramHasGivenUp) {
  at::Tensor tensor = at::rand({4});
  const engine::StorageToken token = Token(tensor);
  frontend_->Retain(token);
  const std::vector<engine::StoragePlace> place = {
      {token, frontend_->Base(token)}};
  ASSERT_EQ(frontend_->Hold(place), 1u);
  tensor.reset();
  EXPECT_TRUE(frontend_->Alive(token));
  frontend_->Drop(place);
  EXPECT_FALSE(frontend_->Alive(token));
  frontend_->Release(token);
}

TEST_F(HostFrontendTest, ARetainedTokenIsNotUsedAgain) {
  std::set<engine::StorageToken> seen;
  for (int i = 0; i < 50; ++i) {
    at::Tensor tensor = at::rand({4});
    frontend_->Retain(Token(tensor));
    EXPECT_TRUE(seen.insert(Token(tensor)).second);
  }
  for (engine::StorageToken token : seen) frontend_->Release(token);
}

TEST_F(HostFrontendTest, ReadsTheBaseOfALazyCloneWithoutCopyingIt) {
  at::Tensor tensor = at::rand({1024});
  at::Tensor lazy = at::_lazy_clone(tensor);
  const auto& storage = *lazy.storage().unsafeGetStorageImpl();
  ASSERT_TRUE(c10::impl::cow::is_cow_data_ptr(storage.data_ptr()));
  EXPECT_EQ(BaseOf(storage),
            reinterpret_cast<uint64_t>(tensor.const_data_ptr()));
  EXPECT_TRUE(c10::impl::cow::is_cow_data_ptr(storage.data_ptr()));
}

TEST_F(HostFrontendTest, AllocatesAlignedMemoryThatATensorCanOwn) {
  auto block = frontend_->Allocate(1000);
  ASSERT_TRUE(block.has_value());
  EXPECT_EQ(block->address() % 64, 0u);
  std::memset(reinterpret_cast<void*>(block->address()), 1, 1000);
  const auto parts = block->Detach();
  at::DataPtr data(reinterpret_cast<void*>(parts.address), parts.context,
                   parts.release, at::kCPU);
  EXPECT_EQ(*static_cast<char*>(data.get()), 1);
}

TEST_F(HostFrontendTest, AllocatesForNothingAndRefusesTheImpossible) {
  EXPECT_TRUE(frontend_->Allocate(0).has_value());
  auto block = frontend_->Allocate(size_t{1} << 60);
  ASSERT_FALSE(block.has_value());
  EXPECT_EQ(block.error().code(), base::Code::kResourceExhausted);
}

TEST_F(HostFrontendTest, EveryUseOfTheGeneratorShows) {
  at::manual_seed(1);
  const auto changes = [&](auto use) {
    const engine::GeneratorState before = frontend_->Generator();
    EXPECT_EQ(frontend_->Generator(), before);
    use();
    return frontend_->Generator() != before;
  };
  EXPECT_TRUE(changes([] { at::rand({1}); }));
  EXPECT_TRUE(changes([] { at::randn({1}); }));   // draws a pair, keeps one
  EXPECT_TRUE(changes([] { at::randn({1}); }));   // the one that was kept
  EXPECT_TRUE(changes([] { at::rand({624}); }));  // a whole block
  EXPECT_TRUE(changes([] { at::rand({1248}); }));
  EXPECT_TRUE(changes([] { at::manual_seed(2); }));
  EXPECT_FALSE(changes([] { at::ones({4}).add_(1); }));
}

}  // namespace
}  // namespace reprise::bindings
