// Proves that the end of the process and a fork are noticed.

#include "engine/device/exiting.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

namespace reprise::device {
namespace {

TEST(ExitingTest, AForkedChildIsExitingAndItsParentIsNot) {
  WatchForExit();
  WatchForExit();
  EXPECT_FALSE(Exiting());
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit(Exiting() ? 0 : 1);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_FALSE(Exiting());
}

// In a process of its own, which nobody has watched or forked yet.
TEST(ExitingTest, StaticObjectsEndInAProcessThatIsExiting) {
  struct Last {
    ~Last() { _exit(Exiting() ? 0 : 3); }
  };
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        static const Last last;
        WatchForExit();
        std::exit(1);
      },
      ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace reprise::device
