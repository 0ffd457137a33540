#include "scheduler/trace_entry.h"

#include <string>
#include <string_view>

namespace reprise::scheduler {

const char* ToString(TraceEntry::State state) {
  using State = TraceEntry::State;
  switch (state) {
    case State::kSeen:
      return "seen";
    case State::kRecord:
      return "waiting to be recorded";
    case State::kConfirm:
      return "waiting to be recorded again";
    case State::kBuilding:
      return "building";
    case State::kCheckOps:
      return "validating op by op";
    case State::kCheckWhole:
      return "validating whole segments";
    case State::kReady:
      return "ready";
    case State::kGivenUp:
      return "given up";
  }
  return "?";
}

void Say(base::LogLevel level, const TraceEntry& entry, std::string_view what) {
  if (!base::LogEnabled(level)) [[likely]]
    return;
  constexpr size_t kShown = 8;
  base::Log(level, "trace " + entry.signature.ToHex().substr(0, kShown) +
                       " of " + std::to_string(entry.ops) +
                       " ops: " + std::string(what));
}

}  // namespace reprise::scheduler
