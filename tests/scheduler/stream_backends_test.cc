// Which backend a stream gets: that of the host runs calls, and needs no
// driver.

#include "scheduler/stream_backends.h"

#include <gtest/gtest.h>

#include "engine/base/task.h"
#include "tests/engine/base/manual_task_runner.h"
#include "tests/engine/fake_frontend.h"

namespace reprise::scheduler {
namespace {

TEST(StreamBackendsTest, TheHostsRunsCalls) {
  RuntimeDevices devices({DeviceKind::kHost});
  ASSERT_TRUE(devices.Load());
  const base::Options options;
  const StreamWrites writes(nullptr, DeviceKind::kHost);
  StreamBackends backends(
      {.devices = &devices, .options = &options, .writes = &writes});
  engine::FakeFrontend frontend;
  base::ManualTaskRunner builds;
  const auto made = backends.Make({DeviceKind::kHost}, &frontend, &builds);
  ASSERT_TRUE(made);
  EXPECT_TRUE((*made)->wants_call());
  EXPECT_EQ(builds.pending(), 0u);
}

}  // namespace
}  // namespace reprise::scheduler
