// Before anything is enabled nobody watches.

#include "bindings/torch/runtime/runtime_epoch.h"

#include <gtest/gtest.h>
#include <torch/library.h>

#include <optional>

#include "tests/bindings/torch/fake_session.h"

namespace reprise::bindings {
namespace {

TEST(RuntimeEpochTest, NobodyWatchesAtFirst) {
  EXPECT_TRUE(g_unwatched.on());
  EXPECT_EQ(g_activations.load(), 0u);
}

TEST(RuntimeEpochTest, MovesWithWhoIsActiveAndWithWhatIsRegistered) {
  const FakeSession session;  // is active
  EXPECT_FALSE(g_unwatched.on());
  const uint64_t epoch = g_runtime_epoch.load();
  const uint64_t activations = g_activations.load();
  torch::Library library(torch::Library::DEF, "reprise_epoch", std::nullopt,
                         __FILE__, __LINE__);
  library.def("op() -> ()");
  EXPECT_NE(g_runtime_epoch.load(), epoch);
  EXPECT_EQ(g_activations.load(), activations) << "the same one is active";
}

}  // namespace
}  // namespace reprise::bindings
