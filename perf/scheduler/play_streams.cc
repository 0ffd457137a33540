// Plays streams that `perf/programs.py --record` has written through the
// scheduler, with builds at the ends of passes and simulated kernels, and
// prints a line of JSON for each: what share of its ops was followed, pass by
// pass. Needs no GPU.
//
//   play_streams [--traces] FOLDER/*.jsonl
//
// `--traces` adds what became of each trace.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/task.h"
#include "scheduler/journal.h"
#include "scheduler/stats.h"
#include "scheduler/stream_session.h"
#include "tests/engine/base/manual_task_runner.h"
#include "tests/scheduler/model_session.h"
#include "tests/sim/recorded_stream.h"
#include "tests/sim/stream_player.h"

namespace reprise::scheduler {
namespace {

using nlohmann::json;

Stats StatsOf(StreamSession& session) {
  Stats stats;
  session.Inspect([&stats](const Journal& journal, const auto&, const auto&) {
    stats = journal.stats;
  });
  return stats;
}

double ShareOf(const Stats& before, const Stats& now) {
  const uint64_t ops = now.ops - before.ops;
  return ops == 0 ? 0
                  : static_cast<double>(now.followed - before.followed) /
                        static_cast<double>(ops);
}

json TraceOf(const TraceEntry& entry, const engine::Frontend& frontend) {
  const std::shared_ptr<const engine::Trace> recording = entry.recording();
  const std::string head =
      recording == nullptr ? "?" : frontend.OpName(recording->ops.front().op);
  return {{"trace", entry.signature.ToHex().substr(0, 8)},
          {"head", head},
          {"ops", entry.ops},
          {"seen", entry.seen},
          {"state", ToString(entry.state)},
          {"replays", entry.replays},
          {"squashes", entry.squashes},
          {"joined", entry.joined.is_joined()},
          {"reason", entry.reason}};
}

json Play(const sim::RecordedStream& stream, bool with_traces) {
  auto owned = std::make_unique<sim::RecordedFrontend>(stream.names);
  sim::RecordedFrontend* const frontend = owned.get();
  PlanCache plans(size_t{1} << 30);
  base::ManualTaskRunner builds;
  ModelSession model(&plans, &builds, {}, std::move(owned));
  StreamSession& session = model.session();
  sim::StreamPlayer player(&stream, frontend, &session);
  json shares(std::vector<double>(stream.passes, 0.0));
  Stats before;
  Stats half;
  Stats but_last;
  while (player.position() < stream.ops.size()) {
    const size_t pass = stream.ops[player.position()].pass;
    player.Step();
    const bool last = player.position() == stream.ops.size();
    if (!last && stream.ops[player.position()].pass == pass) continue;
    builds.RunAll();
    const Stats now = StatsOf(session);
    shares.at(pass) = std::round(1000 * ShareOf(before, now)) / 1000;
    before = now;
    if (pass < stream.passes / 2) half = now;
    // The last pass keeps alive what it makes, as no other does.
    if (pass + 2 <= stream.passes) but_last = now;
  }
  (void)session.Interrupt("the stream has ended");
  json rejections = json::object();
  json traces = json::array();
  json cuts = json::object();
  session.Inspect([&](const Journal& journal,
                      const std::vector<const TraceEntry*>& entries,
                      const engine::Frontend& frontend) {
    for (const TraceEntry* entry : entries) {
      if (with_traces) traces.push_back(TraceOf(*entry, frontend));
    }
    for (const auto& [rejection, count] : journal.rejections) {
      rejections[rejection.second] =
          rejections.value(rejection.second, uint64_t{0}) + count;
    }
    for (const auto& [cut, count] : journal.cuts) {
      const std::string op = cut.first == engine::kNoOp
                                 ? std::string("no op")
                                 : frontend.OpName(cut.first);
      cuts[op + ": " + cut.second] = count;
    }
  });
  const Stats stats = StatsOf(session);
  json played = {
      {"program", stream.program},
      {"ops_a_pass", stream.ops.size() / std::max<size_t>(stream.passes, 1)},
      {"share_of_second_half", ShareOf(half, but_last)},
      {"shares", shares},
      {"signatures", stats.signatures},
      {"recorded", stats.recorded},
      {"builds", stats.builds},
      {"validated", stats.validated},
      {"replays", stats.replays},
      {"squashes", stats.squashes},
      {"rejections", rejections},
      {"cuts", cuts},
      {"same_bits", player.CompareAll()}};
  if (with_traces) played["traces"] = traces;
  return played;
}

int Main(int argc, char** argv) {
  const bool with_traces = argc > 1 && std::string_view(argv[1]) == "--traces";
  if (argc < (with_traces ? 3 : 2)) {
    std::cerr << "usage: play_streams [--traces] STREAM.jsonl...\n";
    return EXIT_FAILURE;
  }
  bool same = true;
  for (int i = with_traces ? 2 : 1; i < argc; ++i) {
    std::ifstream file(argv[i]);
    const base::Result<sim::RecordedStream> stream = sim::ReadStream(file);
    if (!file.eof() || !stream) {
      std::cerr << argv[i] << ": "
                << (stream ? "cannot be read" : stream.error().message())
                << "\n";
      return EXIT_FAILURE;
    }
    const json played = Play(*stream, with_traces);
    same = same && played.at("same_bits");
    std::cout << played.dump() << std::endl;
  }
  return same ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace
}  // namespace reprise::scheduler

int main(int argc, char** argv) {
  try {
    return reprise::scheduler::Main(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return EXIT_FAILURE;
  }
}
