// What Reprise says on stderr.

#ifndef REPRISE_ENGINE_BASE_LOG_H_
#define REPRISE_ENGINE_BASE_LOG_H_

#include <cstdint>
#include <string_view>

namespace reprise::base {

// Each level includes those before it.
enum class LogLevel : uint8_t { kOff, kError, kWarning, kInfo, kDebug };

// The process's level; kWarning at first. Thread-safe.
void SetLogLevel(LogLevel level);

// True if a message of this level would be written: asked before one is put
// together. One relaxed load. Thread-safe.
bool LogEnabled(LogLevel level);

// Writes a line to stderr if the level is enabled. Never throws, and takes a
// lock only to write. Thread-safe.
void Log(LogLevel level, std::string_view message);

}  // namespace reprise::base

#endif  // REPRISE_ENGINE_BASE_LOG_H_
