#include "scheduler/chrome_trace.h"

#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

namespace reprise::scheduler {
namespace {

using nlohmann::json;

// Process and thread are numbers. Ours are none that the system gives (its
// largest is 2**22), so that they meet nobody's in a merged file.
constexpr int64_t kOurs = int64_t{1} << 22;
// As torch.profiler does it: times in a file count from a multiple of three
// months, for which a double of microseconds keeps its nanoseconds.
constexpr int64_t kBaseSeconds = 7'889'238;

bool HasLength(Doing doing) {
  return doing != Doing::kRejected && doing != Doing::kEvicted;
}

bool IsOfAThread(Doing doing) { return doing == Doing::kBuilding; }

int64_t RowOf(const Timeline::Event& event) {
  return IsOfAThread(event.doing) ? kOurs + event.thread
                                  : int64_t{1} + static_cast<int>(event.track);
}

json Metadata(const char* what, int64_t process, int64_t row, json told) {
  return {{"ph", "M"},
          {"name", what},
          {"pid", process},
          {"tid", row},
          {"args", std::move(told)}};
}

// A span of an excerpt, or a moment. `begin` is in microseconds.
json Told(const Timeline::Event& event, const std::string& track,
          int64_t process, double begin) {
  json args = {{"launches", event.ops}, {"signature", event.signature.ToHex()}};
  std::string name = ToString(event.doing);
  if (HasLength(event.doing)) {
    name.append(" ").append(event.text());
  } else {
    args["note"] = event.text();
  }
  if (IsOfAThread(event.doing)) args["for"] = track;
  json told = {{"cat", "reprise"}, {"name", std::move(name)},
               {"pid", process},   {"tid", RowOf(event)},
               {"ts", begin},      {"args", std::move(args)}};
  if (HasLength(event.doing)) {
    told["ph"] = "X";
    told["dur"] =
        std::chrono::duration<double, std::micro>(event.end - event.begin)
            .count();
  } else {
    told["ph"] = "i";
    told["s"] = "t";
  }
  return told;
}

}  // namespace

std::string ChromeTraceJson(const Timeline::Excerpt& excerpt) {
  const std::chrono::nanoseconds epoch = ToUnixEpoch();
  const int64_t now = std::chrono::duration_cast<std::chrono::seconds>(
                          std::chrono::system_clock::now().time_since_epoch())
                          .count();
  const int64_t base_ns = now / kBaseSeconds * kBaseSeconds * 1'000'000'000;
  const auto microseconds = [&](Timeline::TimePoint time) {
    return static_cast<double>((time.time_since_epoch() + epoch).count() -
                               base_ns) /
           1e3;
  };
  const int64_t process = kOurs + getpid();
  json rows = json::array();
  rows.push_back(
      Metadata("process_name", process, 0,
               {{"name", "Reprise in process " + std::to_string(getpid())}}));
  std::map<int64_t, std::string> names;
  for (const Timeline::Event& event : excerpt.events) {
    const std::string& track =
        excerpt.tracks.at(static_cast<size_t>(event.track));
    names[RowOf(event)] =
        IsOfAThread(event.doing)
            ? "builds on thread " + std::to_string(event.thread)
            : track;
    rows.push_back(Told(event, track, process, microseconds(event.begin)));
  }
  for (const auto& [row, name] : names) {
    rows.push_back(Metadata("thread_name", process, row, {{"name", name}}));
    rows.push_back(
        Metadata("thread_sort_index", process, row, {{"sort_index", row}}));
  }
  const json trace = {{"schemaVersion", 1},
                      {"displayTimeUnit", "ms"},
                      {"baseTimeNanoseconds", base_ns},
                      {"lostEvents", excerpt.lost},
                      {"traceEvents", std::move(rows)}};
  // What was cut short may end within a character.
  return trace.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace reprise::scheduler
