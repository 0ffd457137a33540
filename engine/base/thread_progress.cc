#include "engine/base/thread_progress.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <set>
#include <string>
#include <system_error>

namespace reprise::base {
namespace {

using std::chrono::nanoseconds;

constexpr int kMostListings = 8;

// As Linux makes the number of a clock of a thread's (posix-timers.h).
clockid_t ClockOf(pid_t thread) {
  constexpr int kScheduled = 2;
  constexpr int kOfThread = 4;
  return static_cast<clockid_t>((~static_cast<unsigned>(thread) << 3) |
                                kScheduled | kOfThread);
}

// None: it has ended.
std::optional<nanoseconds> RanFor(pid_t thread) {
  timespec ran{};
  if (clock_gettime(ClockOf(thread), &ran) != 0) return std::nullopt;
  return std::chrono::seconds(ran.tv_sec) + nanoseconds(ran.tv_nsec);
}

// None: it has ended, or Linux does not say.
std::optional<char> StateOf(pid_t thread) {
  const std::string path =
      "/proc/self/task/" + std::to_string(thread) + "/stat";
  std::FILE* const file = std::fopen(path.c_str(), "re");
  if (file == nullptr) return std::nullopt;
  std::array<char, 256> text;
  const size_t size = std::fread(text.data(), 1, text.size(), file);
  std::fclose(file);
  return StateOfThread({text.data(), size});
}

// Adds those that are not in `found`.
std::error_code FindThreads(std::set<pid_t>& found) {
  std::error_code error;
  std::filesystem::directory_iterator tasks("/proc/self/task", error);
  while (!error && tasks != std::filesystem::directory_iterator()) {
    const std::string name = tasks->path().filename().string();
    pid_t id = 0;
    std::from_chars(name.data(), name.data() + name.size(), id);
    found.insert(id);
    tasks.increment(error);
  }
  return error;
}

// It is none of those that wait in the kernel, or that are no more. One that
// waits for a page may do so anywhere (D), and so is one that a debugger holds.
bool MayBeAnywhere(char state) {
  return state != 'S' && state != 'Z' && state != 'X';
}

}  // namespace

std::optional<char> StateOfThread(std::string_view stat) {
  // Its name stands before that in parentheses, and may have some itself.
  const size_t end = stat.rfind(") ");
  if (end == std::string_view::npos || end + 2 >= stat.size()) {
    return std::nullopt;
  }
  return stat[end + 2];
}

ThreadProgress::ThreadProgress() {
  // A listing may pass over a thread where the one before it ends meanwhile: it
  // is in another one.
  std::set<pid_t> ids;
  for (int i = 0; i < kMostListings; ++i) {
    const size_t before = ids.size();
    if (const std::error_code error = FindThreads(ids)) {
      failed_ = error != std::errc::no_such_file_or_directory;
      return;
    }
    if (ids.size() == before) break;
  }
  const pid_t self = gettid();
  if (ids.erase(self) == 0 || !RanFor(self).has_value()) return;
  for (const pid_t id : ids) {
    if (const auto ran = RanFor(id)) {
      others_.push_back({id, *ran});
    } else if (StateOf(id).has_value()) {
      return;  // it is there, and has no clock
    }
  }
  known_ = true;
}

bool ThreadProgress::AllRanFor(nanoseconds time) {
  if (!known_) return false;
  std::erase_if(others_, [time](const Other& other) {
    const std::optional<nanoseconds> ran = RanFor(other.id);
    if (ran.has_value() && *ran - other.ran >= time) return true;
    if (ran.has_value() && *ran < other.ran)
      return true;  // a later thread's id
    const std::optional<char> state = StateOf(other.id);
    return state.has_value() ? !MayBeAnywhere(*state) : !ran.has_value();
  });
  return others_.empty();
}

}  // namespace reprise::base
