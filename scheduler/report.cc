#include "scheduler/report.h"

#include <chrono>
#include <nlohmann/json.hpp>

namespace reprise::scheduler {
namespace {

using nlohmann::json;

double Microseconds(Profit::Duration time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

const char* ToString(Profit::Finding finding) {
  switch (finding) {
    case Profit::Finding::kUnknown:
      return "";
    case Profit::Finding::kSaves:
      return "saves time";
    case Profit::Finding::kSavesNoHost:
      return "takes the host as long as eager";
    case Profit::Finding::kSavesNoTime:
      return "saves nothing: the program waits for the device";
  }
  return "";
}

json PlanJson(const TraceEntry& entry, const Journal& journal,
              const engine::Frontend& frontend) {
  json plan = {{"signature", entry.signature.ToHex()},
               {"state", ToString(entry.state)},
               {"ops", entry.ops},
               {"seen", entry.seen},
               {"replays", entry.replays},
               {"squashes", entry.squashes},
               {"validations", entry.validations},
               {"reason", entry.reason},
               {"places", journal.places.Find(Places::OfHead(entry.head_hash))},
               {"operators", json::array()}};
  plan["finding"] = ToString(entry.profit.finding());
  plan["saving_us"] = Microseconds(entry.profit.saving());
  plan["eager_us"] = Microseconds(entry.profit.Median(Profit::Mode::kEager));
  plan["replay_us"] = Microseconds(entry.profit.Median(Profit::Mode::kReplay));
  if (const auto recording = entry.recording()) {
    for (const engine::TracedOp& op : recording->ops) {
      plan["operators"].push_back(frontend.OpName(op.op));
    }
  }
  plan["launches"] = entry.summary.launches;
  plan["segments"] = entry.summary.segments;
  plan["gates"] = entry.summary.gates;
  plan["lanes"] = entry.summary.lanes;
  plan["arena_bytes"] = entry.instances.bytes();
  plan["layout_bytes"] = entry.summary.layout_bytes;
  plan["bytes_at_once"] = entry.summary.bytes_at_once;
  plan["instances"] = json::array();
  for (const InstanceUse& use : entry.instances) {
    plan["instances"].push_back({{"arena_bytes", use.bytes},
                                 {"shares_arena", use.shares},
                                 {"replays", use.replays},
                                 {"validations", use.validations}});
  }
  plan["mechanism"] = entry.summary.mechanism;
  plan["notes"] = entry.summary.notes;
  return plan;
}

void AddSession(json& report, const Journal& journal,
                const std::vector<const TraceEntry*>& entries,
                const engine::Frontend& frontend) {
  for (const TraceEntry* entry : entries) {
    report["plans"].push_back(PlanJson(*entry, journal, frontend));
  }
  for (const auto& [key, count] : journal.cuts) {
    report["cuts"].push_back(
        {{"op", engine::NameOf(frontend, key.first)},
         {"reason", key.second},
         {"places", journal.places.Find(Places::OfCut(key.first, key.second))},
         {"count", count}});
  }
  for (const auto& [key, count] : journal.rejections) {
    report["rejections"].push_back(
        {{"signature", key.first}, {"reason", key.second}, {"count", count}});
  }
  for (const auto& [key, count] : journal.squashes) {
    const auto& [signature, op, found] = key;
    report["squashes"].push_back(
        {{"signature", signature},
         {"op", op},
         {"found", found},
         {"places",
          journal.places.Find(Places::OfSquash(signature, op, found))},
         {"count", count}});
  }
  for (const auto& [note, count] : journal.notes) {
    report["notes"].push_back(note);
  }
}

}  // namespace

std::string ReportJson(const std::string& mode, const Stats& stats,
                       const std::vector<StreamSession*>& sessions) {
  json report = {{"mode", mode},
                 {"sessions", sessions.size()},
                 {"plans", json::array()},
                 {"cuts", json::array()},
                 {"rejections", json::array()},
                 {"squashes", json::array()},
                 {"notes", json::array()}};
#define REPRISE_STATS_JSON(name, meaning) report["stats"][#name] = stats.name;
  REPRISE_STATS(REPRISE_STATS_JSON)
#undef REPRISE_STATS_JSON
  for (StreamSession* session : sessions) {
    session->Inspect([&report](const Journal& journal,
                               const std::vector<const TraceEntry*>& entries,
                               const engine::Frontend& frontend) {
      AddSession(report, journal, entries, frontend);
    });
  }
  return report.dump();
}

Stats SumOfStats(const std::vector<StreamSession*>& sessions) {
  Stats sum;
  for (StreamSession* session : sessions) {
    session->Inspect([&sum](const Journal& journal, const auto&, const auto&) {
#define REPRISE_STATS_ADD(name, meaning) sum.name += journal.stats.name;
      REPRISE_STATS(REPRISE_STATS_ADD)
#undef REPRISE_STATS_ADD
    });
  }
  return sum;
}

void AddPlaces(Timeline::Excerpt& excerpt,
               const std::vector<StreamSession*>& sessions) {
  std::map<TrackId, std::vector<size_t>> squashes;
  for (size_t i = 0; i < excerpt.events.size(); ++i) {
    const Timeline::Event& event = excerpt.events[i];
    if (event.doing == Doing::kSquashing) squashes[event.track].push_back(i);
  }
  for (StreamSession* session : sessions) {
    const auto found = squashes.find(session->track().id());
    if (found == squashes.end()) continue;
    session->Inspect([&](const Journal& journal, const auto&, const auto&) {
      for (const size_t i : found->second) {
        const Timeline::Event& event = excerpt.events[i];
        const auto places = journal.places.Find(Places::OfSquash(
            event.signature.ToHex(), event.left_at, event.text()));
        if (places.empty()) continue;
        excerpt.places[i] = {places.begin(), places.end()};
      }
    });
  }
}

}  // namespace reprise::scheduler
