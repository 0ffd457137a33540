// The only source file that includes spdlog and fmt (see
// cmake/RepriseDependencies.cmake).

#include "engine/base/log.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <atomic>
#include <memory>

namespace reprise::base {
namespace {

// Relaxed throughout: a message near a change of level may go either way.
std::atomic<LogLevel> g_level{LogLevel::kWarning};

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kOff:
      break;
  }
  return spdlog::level::off;
}

// Made at the first message and never destroyed: threads may log until the
// process has gone. Not in spdlog's registry, which has a destructor.
spdlog::logger& Logger() {
  static spdlog::logger* const logger = [] {
    auto* made = new spdlog::logger(
        "reprise", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("[%H:%M:%S.%e] [reprise] [%l] %v");
    made->set_level(spdlog::level::trace);
    return made;
  }();
  return *logger;
}

}  // namespace

void SetLogLevel(LogLevel level) {
  g_level.store(level, std::memory_order_relaxed);
}

bool LogEnabled(LogLevel level) {
  return level != LogLevel::kOff &&
         level <= g_level.load(std::memory_order_relaxed);
}

void Log(LogLevel level, std::string_view message) {
  if (!LogEnabled(level)) return;
  Logger().log(ToSpdlog(level),
               spdlog::string_view_t(message.data(), message.size()));
}

}  // namespace reprise::base
