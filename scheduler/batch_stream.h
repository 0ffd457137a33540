// Which batches of a stream have come before, and the graphs for them.

#ifndef REPRISE_SCHEDULER_BATCH_STREAM_H_
#define REPRISE_SCHEDULER_BATCH_STREAM_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "cache/signature.h"
#include "engine/base/mutex.h"
#include "engine/base/status.h"
#include "engine/batch/batch_device.h"
#include "engine/batch/batch_record.h"
#include "engine/batch/graph.h"
#include "engine/batch/plan_report.h"
#include "engine/batch/stream_stats.h"
#include "engine/device/launch_graph.h"
#include "scheduler/adaptive_graph.h"
#include "scheduler/batch_checks.h"

namespace reprise::scheduler {

// A batch without its arguments, and the graph for it once there is one.
//
//   seen ─(came often)─► building ─► ready ─(another batch took it over)─► seen
//    │                      └─(refused, for twice as many batches)─► seen
//    └──────(took over the graph of another)──► ready
//
// Owned by its stream and, while it is built, by the build. Guarded by the
// stream's mutex, but for `outcome`, which the build writes before it sets
// `built` with release order.
struct BatchEntry {
  enum class State : uint8_t { kSeen, kBuilding, kReady };

  std::vector<engine::Node> nodes;
  device::Dependencies dependencies;
  std::vector<engine::Access> accesses;  // that the dependencies were made from
  State state = State::kSeen;
  uint64_t seen = 0;
  uint64_t due = 0;       // not built before it was seen so often
  uint64_t used = 0;      // when: a number of batches
  uint64_t replayed = 0;  // since it has its graph
  std::unique_ptr<AdaptiveGraph> graph;
  std::string why_refused;  // the last time; empty once it was built
  // For people, of its last build; empty if nobody looked then.
  std::string label;

  std::atomic<bool> built{false};
  std::optional<base::Result<std::unique_ptr<AdaptiveGraph>>> outcome;
};

// Thread-safe; submitting holds the mutex, as the order of a stream asks for.
class BatchStream {
 public:
  struct Options {
    uint64_t build_after;  // a graph is built once a batch has come so often
    size_t most_graphs;    // the one not used for the longest time goes
  };

  // All that the workshop names outlives it; builds may outlive it.
  BatchStream(const AdaptiveGraph::Workshop& workshop, const Options& options)
      : workshop_(workshop), options_(options), checks_(workshop.device) {}
  BatchStream(const BatchStream&) = delete;
  BatchStream& operator=(const BatchStream&) = delete;

  // Records go round, so that their vectors keep their memory.
  std::unique_ptr<engine::BatchRecord> TakeRecord() REPRISE_EXCLUDES(mutex_);
  void ReturnRecord(std::unique_ptr<engine::BatchRecord> record)
      REPRISE_EXCLUDES(mutex_);

  base::Status Submit(const engine::BatchRecord& record)
      REPRISE_EXCLUDES(mutex_);
  // Calls the works of its captures to have them captured.
  base::Result<engine::Captures> CaptureAll(
      const engine::BatchRecord& record) const;

  engine::StreamStats stats() const REPRISE_EXCLUDES(mutex_);
  std::vector<engine::PlanReport> plans() const REPRISE_EXCLUDES(mutex_);
  const AdaptiveGraph::Workshop& workshop() const { return workshop_; }
  const BatchChecks& checks() const { return checks_; }

 private:
  using Entries = std::list<std::shared_ptr<BatchEntry>>;  // latest first

  // The record's entry, made if there is none, at the front of entries_.
  BatchEntry& EntryFor(const engine::BatchRecord& record)
      REPRISE_REQUIRES(mutex_);
  // It came often enough to be built, or to be tried again.
  bool BuildIsDue(const BatchEntry& entry) const REPRISE_REQUIRES(mutex_);
  bool Fits(const BatchEntry& entry, const engine::BatchRecord& record)
      REPRISE_REQUIRES(mutex_);
  // One that is no more in entries_. The end of its graph may wait for the
  // device, so it is no work for this thread.
  void End(std::shared_ptr<BatchEntry> entry) REPRISE_REQUIRES(mutex_);
  void StartBuild(const std::shared_ptr<BatchEntry>& entry,
                  const engine::BatchRecord& record) REPRISE_REQUIRES(mutex_);
  void CollectBuild(BatchEntry& entry) REPRISE_REQUIRES(mutex_);
  void Refuse(BatchEntry& entry, const base::Error& why)
      REPRISE_REQUIRES(mutex_);
  base::Status Replay(BatchEntry& entry, const engine::BatchRecord& record)
      REPRISE_REQUIRES(mutex_);
  // The entry is ready if a graph that nobody wants has become its.
  void TakeGraphOver(BatchEntry& entry, const engine::BatchRecord& record)
      REPRISE_REQUIRES(mutex_);
  base::Status LaunchAll(const engine::BatchRecord& record)
      REPRISE_REQUIRES(mutex_);

  engine::BatchDevice& device() const { return *workshop_.device; }

  const AdaptiveGraph::Workshop workshop_;
  const Options options_;
  const BatchChecks checks_;

  mutable base::Mutex mutex_;
  Entries entries_ REPRISE_GUARDED_BY(mutex_);
  std::unordered_multimap<cache::Signature, Entries::iterator> by_name_
      REPRISE_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<engine::BatchRecord>> records_
      REPRISE_GUARDED_BY(mutex_);
  engine::StreamStats stats_ REPRISE_GUARDED_BY(mutex_);
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_BATCH_STREAM_H_
