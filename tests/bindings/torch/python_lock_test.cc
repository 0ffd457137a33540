// Python's lock is given up by the thread that has it, and taken back.

#include "bindings/torch/base/python_lock.h"

#include <gtest/gtest.h>

namespace reprise::bindings {
namespace {

// A process with Python, as far as the lock goes.
struct Interpreter {
  bool running = true;
  bool locked_here = true;
  int given_up = 0;
  int taken_back = 0;
};
Interpreter g_python;
int g_state = 0;  // its address stands for the thread's

class PythonLockTest : public ::testing::Test {
 protected:
  PythonLockTest() { g_python = {}; }
};

TEST_F(PythonLockTest, IsGivenUpWhileTheGuardLives) {
  {
    const PythonLockGivenUp guard;
    EXPECT_FALSE(g_python.locked_here);
    EXPECT_EQ(g_python.taken_back, 0);
  }
  EXPECT_TRUE(g_python.locked_here);
  EXPECT_EQ(g_python.given_up, 1);
  EXPECT_EQ(g_python.taken_back, 1);
}

TEST_F(PythonLockTest, IsGivenUpOnce) {
  const PythonLockGivenUp outer;
  { const PythonLockGivenUp inner; }
  EXPECT_EQ(g_python.given_up, 1);
  EXPECT_EQ(g_python.taken_back, 0) << "the outer one has it given up still";
}

TEST_F(PythonLockTest, AThreadThatHasItNotIsLeftAlone) {
  g_python.locked_here = false;
  { const PythonLockGivenUp guard; }
  EXPECT_EQ(g_python.given_up + g_python.taken_back, 0);
  EXPECT_FALSE(g_python.locked_here);
}

// Asked whether the thread has the lock, it would crash.
TEST_F(PythonLockTest, AnInterpreterThatDoesNotRunIsLeftAlone) {
  g_python.running = false;
  { const PythonLockGivenUp guard; }
  EXPECT_EQ(g_python.given_up + g_python.taken_back, 0);
}

}  // namespace
}  // namespace reprise::bindings

// Found by their names, as the interpreter's are.
extern "C" {
[[gnu::visibility("default")]] int Py_IsInitialized() {
  return reprise::bindings::g_python.running ? 1 : 0;
}
[[gnu::visibility("default")]] int PyGILState_Check() {
  EXPECT_TRUE(reprise::bindings::g_python.running);
  return reprise::bindings::g_python.locked_here ? 1 : 0;
}
[[gnu::visibility("default")]] void* PyEval_SaveThread() {
  ++reprise::bindings::g_python.given_up;
  reprise::bindings::g_python.locked_here = false;
  return &reprise::bindings::g_state;
}
[[gnu::visibility("default")]] void PyEval_RestoreThread(void* state) {
  EXPECT_EQ(state, &reprise::bindings::g_state);
  ++reprise::bindings::g_python.taken_back;
  reprise::bindings::g_python.locked_here = true;
}
}
