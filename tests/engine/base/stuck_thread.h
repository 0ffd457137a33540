// A thread that the kernel keeps from running.

#ifndef REPRISE_TESTS_ENGINE_BASE_STUCK_THREAD_H_
#define REPRISE_TESTS_ENGINE_BASE_STUCK_THREAD_H_

#include <fcntl.h>
#include <linux/sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>

#include "engine/base/thread_progress.h"

namespace reprise::tests {

// It is within a call of the kernel's that ends with a child process, and
// sleeps there without being woken by anything else (state D), as a thread does
// that waits for a page. So a test can have one that does not go on, without a
// busy machine.
class StuckThread {
 public:
  StuckThread() {
    if (pipe2(pipe_.data(), O_CLOEXEC) != 0) throw std::runtime_error("pipe");
    thread_ = std::thread([this] {
      id_ = gettid();
      // As fork(), but for the parent's waiting.
      const long child = syscall(SYS_clone, CLONE_VFORK | SIGCHLD, nullptr,
                                 nullptr, nullptr, nullptr);
      if (child < 0) {
        failed_ = true;
        return;
      }
      if (child == 0) {
        close(pipe_[1]);
        char byte = 0;
        while (read(pipe_[0], &byte, 1) > 0) {
        }
        _exit(0);
      }
      waitpid(static_cast<pid_t>(child), nullptr, 0);
    });
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (!IsHeld() && !failed_ && std::chrono::steady_clock::now() < end) {
      std::this_thread::yield();
    }
    is_stuck_ = IsHeld();
    if (!failed_) return;
    thread_.join();
    throw std::runtime_error("clone");
  }
  ~StuckThread() {
    LetGo();
    thread_.join();
    close(pipe_[0]);
  }
  StuckThread(const StuckThread&) = delete;
  StuckThread& operator=(const StuckThread&) = delete;

  // False: the kernel does not show that (a sandbox's may not).
  bool is_stuck() const { return is_stuck_; }

  // It goes on, and ends.
  void LetGo() {
    if (pipe_[1] >= 0) close(pipe_[1]);
    pipe_[1] = -1;
  }

 private:
  bool IsHeld() const {
    std::ifstream stat("/proc/self/task/" + std::to_string(id_.load()) +
                       "/stat");
    std::string text;
    std::getline(stat, text);
    return base::StateOfThread(text) == 'D';
  }

  std::array<int, 2> pipe_{-1, -1};
  std::atomic<pid_t> id_{0};
  std::atomic<bool> failed_{false};
  bool is_stuck_ = false;
  std::thread thread_;
};

}  // namespace reprise::tests

#endif  // REPRISE_TESTS_ENGINE_BASE_STUCK_THREAD_H_
