// Proves that a runtime of the host needs neither a driver nor a recorder, and
// which streams are its own.

#include "scheduler/runtime_devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/task.h"
#include "tests/engine/base/manual_task_runner.h"

namespace reprise::scheduler {
namespace {

using ::testing::ElementsAre;

TEST(RuntimeDevicesTest, TheHostNeedsNothingLoaded) {
  RuntimeDevices devices({DeviceKind::kHost});
  ASSERT_TRUE(devices.Load());
  EXPECT_TRUE(devices.is_host());
  EXPECT_EQ(devices.driver(), nullptr);
  EXPECT_EQ(devices.recorder(), nullptr);
  EXPECT_THAT(devices.InUse(), ElementsAre(0));
}

TEST(RuntimeDevicesTest, TheHostPreparesNothing) {
  RuntimeDevices devices({DeviceKind::kHost});
  ASSERT_TRUE(devices.Load());
  base::ManualTaskRunner tasks;
  devices.Prepare({DeviceKind::kHost}, /*may_attach=*/true, tasks);
  EXPECT_EQ(tasks.pending(), 0u);
  EXPECT_FALSE(devices.attached_once());
}

// However much memory the machine has.
TEST(RuntimeDevicesTest, TheHostCountsAs16GiB) {
  const auto bytes = RuntimeDevices::MemoryBytes({DeviceKind::kHost});
  ASSERT_TRUE(bytes);
  EXPECT_EQ(*bytes, size_t{16} << 30);
}

TEST(RuntimeDevicesTest, ServesAllDevicesOrTheOne) {
  const RuntimeDevices all({DeviceKind::kCuda});
  const RuntimeDevices one({DeviceKind::kCuda, 1});
  for (const int device : {0, 1, 2}) {
    const StreamKey key = {DeviceKind::kCuda, device, nullptr};
    EXPECT_TRUE(all.Serves(key));
    EXPECT_EQ(one.Serves(key), device == 1);
  }
  EXPECT_FALSE(all.is_host());
}

}  // namespace
}  // namespace reprise::scheduler
