#include "scheduler/batch_stream.h"

#include <cstring>
#include <string>
#include <utility>

#include "engine/batch/dependencies.h"
#include "scheduler/batch_span.h"

namespace reprise::scheduler {

using base::Code;
using base::Error;
using base::Result;
using base::Status;

namespace {

// A graph of one launch costs more than the launch.
constexpr size_t kFewestLaunches = 2;
constexpr size_t kRecordsKept = 8;
// A graph that was not used for so many batches may be taken over.
constexpr uint64_t kIdleBatches = 16;

bool Same(const std::vector<engine::Access>& a,
          const std::vector<engine::Access>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(),
                                   a.size() * sizeof(engine::Access)) == 0);
}

}  // namespace

std::unique_ptr<engine::BatchRecord> BatchStream::TakeRecord() {
  const base::MutexLock lock(mutex_);
  if (records_.empty()) return std::make_unique<engine::BatchRecord>();
  std::unique_ptr<engine::BatchRecord> record = std::move(records_.back());
  records_.pop_back();
  return record;
}

void BatchStream::ReturnRecord(std::unique_ptr<engine::BatchRecord> record) {
  record->Clear();
  const base::MutexLock lock(mutex_);
  if (records_.size() < kRecordsKept) records_.push_back(std::move(record));
}

Result<engine::Captures> BatchStream::CaptureAll(
    const engine::BatchRecord& record) const {
  engine::Captures captures;
  if (record.captures().empty()) return captures;
  const engine::DeviceScope scope(device());
  REPRISE_RETURN_IF_ERROR(scope.status());
  for (const engine::CaptureFunction& work : record.captures()) {
    REPRISE_ASSIGN_OR_RETURN(auto captured, device().Capture(work));
    captures.push_back(std::move(captured));
  }
  return captures;
}

Status BatchStream::Submit(const engine::BatchRecord& record) {
  const base::MutexLock lock(mutex_);
  if (record.mistake().has_value()) return checks_.Check(record);
  REPRISE_RETURN_IF_ERROR(BatchChecks::CheckWaits(record));
  REPRISE_RETURN_IF_ERROR(
      checks_.CheckMemory(record.nodes(), record.accesses(), record.image()));
  ++stats_.batches;
  if (record.nodes().empty()) return {};
  const engine::DeviceScope scope(device());
  REPRISE_RETURN_IF_ERROR(scope.status());
  // A host runtime's captures are functions that live no longer than this call.
  const bool unknown = record.has_unknown_work() ||
                       (device().on_host() && !record.captures().empty());
  if (unknown || device().Capturing(workshop_.stream)) {
    REPRISE_RETURN_IF_ERROR(checks_.Check(record));
    return LaunchAll(record);
  }
  BatchEntry& entry = EntryFor(record);
  entry.used = stats_.batches;
  if (entry.state == BatchEntry::State::kBuilding) CollectBuild(entry);
  if (entry.state == BatchEntry::State::kReady) return Replay(entry, record);
  // What has a graph was checked before it was built.
  REPRISE_RETURN_IF_ERROR(checks_.Check(record));
  ++entry.seen;
  if (BuildIsDue(entry)) {
    StartBuild(entries_.front(), record);
  } else if (entry.seen == 1) {
    TakeGraphOver(entry, record);
    if (entry.state == BatchEntry::State::kReady) return Replay(entry, record);
  }
  return LaunchAll(record);
}

bool BatchStream::Fits(const BatchEntry& entry,
                       const engine::BatchRecord& record) {
  if (!record.SameNodes(entry.nodes)) return false;
  // Other memory may be in each other's way in other places.
  return Same(record.accesses(), entry.accesses) ||
         engine::DependenciesOf(record.nodes(), record.accesses()) ==
             entry.dependencies;
}

BatchEntry& BatchStream::EntryFor(const engine::BatchRecord& record) {
  if (!entries_.empty() && Fits(*entries_.front(), record)) {
    return *entries_.front();
  }
  const cache::Signature name = SignatureOf(record.nodes());
  const auto [begin, end] = by_name_.equal_range(name);
  for (auto found = begin; found != end; ++found) {
    if (!Fits(**found->second, record)) continue;
    entries_.splice(entries_.begin(), entries_, found->second);
    return *entries_.front();
  }
  if (entries_.size() >= options_.most_graphs) {
    const auto last = std::prev(entries_.end());
    const auto [first, past] =
        by_name_.equal_range(SignatureOf((*last)->nodes));
    for (auto old = first; old != past; ++old) {
      if (old->second != last) continue;
      by_name_.erase(old);
      break;
    }
    End(std::move(*last));
    entries_.pop_back();
  }
  auto entry = std::make_shared<BatchEntry>();
  entry->nodes = record.nodes();
  entry->accesses = record.accesses();
  entry->dependencies =
      engine::DependenciesOf(record.nodes(), record.accesses());
  entries_.push_front(std::move(entry));
  by_name_.emplace(name, entries_.begin());
  return *entries_.front();
}

void BatchStream::End(std::shared_ptr<BatchEntry> entry) {
  if (entry->graph == nullptr) return;
  workshop_.track.Tell(Doing::kEvicted, SignatureOf(entry->nodes),
                       static_cast<uint32_t>(entry->nodes.size()),
                       entry->label);
  base::ReleaseOn(*workshop_.queue, std::move(entry->graph));
}

bool BatchStream::BuildIsDue(const BatchEntry& entry) const {
  return entry.state == BatchEntry::State::kSeen &&
         entry.nodes.size() >= kFewestLaunches && entry.seen >= entry.due &&
         entry.seen >= options_.build_after;
}

void BatchStream::StartBuild(const std::shared_ptr<BatchEntry>& entry,
                             const engine::BatchRecord& record) {
  auto captured = CaptureAll(record);
  if (!captured) return Refuse(*entry, captured.error());
  entry->state = BatchEntry::State::kBuilding;
  entry->label =
      workshop_.track.noted() ? LabelOf(entry->nodes, record.name()) : "";
  // An earlier graph of it may have been taken over.
  entry->built.store(false, std::memory_order_relaxed);
  // A build that outlives its stream keeps what it uses. Events are kept until
  // the graph keeps them.
  auto recipe = std::make_shared<const AdaptiveGraph::Recipe>(
      entry->nodes, entry->dependencies, record.name());
  workshop_.queue->Post([entry, workshop = workshop_,
                         recipe = std::move(recipe), image = record.image(),
                         hold = device().HoldMemory(), waits = record.waits(),
                         points = record.points(),
                         captured = *std::move(captured)]() mutable {
    const BatchSpan span(workshop.track, Doing::kBuilding, entry->nodes,
                         recipe->name);
    entry->outcome = AdaptiveGraph::Build(workshop, std::move(recipe),
                                          std::move(image), hold, captured);
    entry->built.store(true, std::memory_order_release);
  });
}

void BatchStream::CollectBuild(BatchEntry& entry) {
  // Acquire: the outcome was written before.
  if (!entry.built.load(std::memory_order_acquire)) return;
  Result<std::unique_ptr<AdaptiveGraph>> outcome = *std::move(entry.outcome);
  entry.outcome.reset();
  if (outcome) {
    ++stats_.built;
    entry.graph = *std::move(outcome);
    entry.state = BatchEntry::State::kReady;
    entry.why_refused.clear();
    entry.due = 0;
  } else {
    Refuse(entry, outcome.error());
  }
}

void BatchStream::Refuse(BatchEntry& entry, const Error& why) {
  ++stats_.refused;
  // What was in the way, as memory that was short, may have gone by then.
  entry.due = 2 * entry.seen;
  entry.why_refused = why.message();
  if (workshop_.track.noted()) {
    workshop_.track.Tell(Doing::kRejected, SignatureOf(entry.nodes),
                         static_cast<uint32_t>(entry.nodes.size()),
                         entry.label + ": " + why.message());
  }
  entry.state = BatchEntry::State::kSeen;
}

Status BatchStream::Replay(BatchEntry& entry,
                           const engine::BatchRecord& record) {
  const BatchSpan span(workshop_.track, Doing::kReplaying, record.nodes(),
                       record.name());
  entry.graph->SetAll(record.image());
  // What was not launched can be launched one by one.
  if (!entry.graph->Give()) return LaunchAll(record);
  const uint64_t before = entry.graph->patched();
  REPRISE_RETURN_IF_ERROR(entry.graph->Launch());
  stats_.patched += entry.graph->patched() - before;
  ++entry.replayed;
  ++stats_.replayed;
  return {};
}

void BatchStream::TakeGraphOver(BatchEntry& entry,
                                const engine::BatchRecord& record) {
  if (entry.nodes.size() < kFewestLaunches) return;
  std::shared_ptr<const AdaptiveGraph::Recipe> recipe;
  // Least recently used first.
  for (auto old = entries_.rbegin(); old != entries_.rend(); ++old) {
    BatchEntry& victim = **old;
    if (victim.state == BatchEntry::State::kBuilding) CollectBuild(victim);
    if (victim.state != BatchEntry::State::kReady) continue;
    // One that has never come again since it was made is no loss.
    const bool idle = stats_.batches - victim.used >= kIdleBatches ||
                      (victim.seen == 1 && victim.replayed == 1);
    if (!idle || victim.nodes.size() != entry.nodes.size()) continue;
    if (recipe == nullptr) {
      recipe = std::make_shared<const AdaptiveGraph::Recipe>(
          entry.nodes, entry.dependencies, record.name());
    }
    if (!victim.graph->MayBecome(*recipe)) continue;
    const BatchSpan span(workshop_.track, Doing::kTakingOver, record.nodes(),
                         record.name());
    const Status taken =
        victim.graph->TakeOver(std::move(recipe), record.image());
    if (!taken && taken.error().code() == Code::kFailedPrecondition) {
      victim.used = stats_.batches;  // not again soon
      return;
    }
    if (taken) {
      entry.graph = std::move(victim.graph);
      entry.label =
          workshop_.track.noted() ? LabelOf(entry.nodes, record.name()) : "";
      entry.state = BatchEntry::State::kReady;
      entry.replayed = 0;
      ++stats_.taken_over;
    }
    // Also where the driver failed in between: nobody knows what it is now.
    victim.graph.reset();
    victim.state = BatchEntry::State::kSeen;
    victim.seen = 0;
    return;
  }
}

Status BatchStream::LaunchAll(const engine::BatchRecord& record) {
  const BatchSpan span(workshop_.track, Doing::kLaunching, record.nodes(),
                       record.name());
  for (const engine::Node& node : record.nodes()) {
    const std::byte* image = record.image().data() + node.image_begin;
    if (node.kind == engine::Node::Kind::kCapture) {
      const engine::CaptureFunction& work =
          record.captures()[engine::BatchRecord::CaptureIn(image)];
      REPRISE_RETURN_IF_ERROR(device().Call(work, workshop_.stream));
    } else {
      REPRISE_RETURN_IF_ERROR(device().Enqueue(node, image, workshop_.stream));
    }
    ++stats_.launches;
  }
  return {};
}

engine::StreamStats BatchStream::stats() const {
  const base::MutexLock lock(mutex_);
  engine::StreamStats stats = stats_;
  for (const std::shared_ptr<BatchEntry>& entry : entries_) {
    if (entry->state == BatchEntry::State::kReady) ++stats.plans;
  }
  return stats;
}

std::vector<engine::PlanReport> BatchStream::plans() const {
  const base::MutexLock lock(mutex_);
  std::vector<engine::PlanReport> plans;
  for (const std::shared_ptr<BatchEntry>& entry : entries_) {
    if (entry->state == BatchEntry::State::kReady) {
      plans.push_back(entry->graph->report());
    } else if (!entry->why_refused.empty()) {
      engine::PlanReport& refused = plans.emplace_back();
      refused.launches = entry->nodes.size();
      refused.why_not = entry->why_refused;
    }
  }
  return plans;
}

}  // namespace reprise::scheduler
