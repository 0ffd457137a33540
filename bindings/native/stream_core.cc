#include "bindings/native/stream_core.h"

#include <span>
#include <utility>

#include "engine/batch/dependencies.h"

namespace reprise::native {
namespace {

// A graph of one launch costs more than the launch.
constexpr size_t kFewestLaunches = 2;
constexpr size_t kRecordsKept = 8;
// A graph that was not used for so many batches may be taken over.
constexpr uint64_t kIdleBatches = 16;

cache::Signature NameOf(const std::vector<batch::Node>& nodes) {
  return cache::HashWords(
      {reinterpret_cast<const uint64_t*>(nodes.data()),
       nodes.size() * sizeof(batch::Node) / sizeof(uint64_t)});
}

bool Same(const std::vector<batch::Access>& a,
          const std::vector<batch::Access>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(),
                                   a.size() * sizeof(batch::Access)) == 0);
}

}  // namespace

StreamCore::~StreamCore() {
  if (owned_) {
    runtime_->device().EndStream(stream_);
  } else if (!runtime_->device().on_host()) {
    runtime_->device().ReleaseStream(stream_);
  }
}

std::unique_ptr<batch::BatchRecord> StreamCore::TakeRecord() {
  const base::MutexLock lock(mutex_);
  if (records_.empty()) return std::make_unique<batch::BatchRecord>();
  std::unique_ptr<batch::BatchRecord> record = std::move(records_.back());
  records_.pop_back();
  return record;
}

void StreamCore::ReturnRecord(std::unique_ptr<batch::BatchRecord> record) {
  record->Clear();
  const base::MutexLock lock(mutex_);
  if (records_.size() < kRecordsKept) records_.push_back(std::move(record));
}

Status StreamCore::Check(const batch::BatchRecord& record) const {
  if (record.mistake().has_value()) {
    return base::Fail(Code::kInvalidArgument, *record.mistake());
  }
  for (size_t i = 0; i < record.nodes().size(); ++i) {
    const batch::Node& node = record.nodes()[i];
    if (node.kind != batch::Node::Kind::kKernel) continue;
    const auto place = [&] {
      return "launch " + std::to_string(i) + " (kernel '" +
             node.kernel->name() + "')";
    };
    if (Status compiled = node.kernel->Wait(); !compiled) {
      return tl::unexpected(compiled.error().In(place()));
    }
    if ((node.kernel->host() != nullptr) != runtime_->device().on_host()) {
      return base::Fail(Code::kInvalidArgument,
                        place() + " is of a runtime of another kind");
    }
    if (node.kernel->context() != runtime_->device().context().context) {
      return base::Fail(Code::kInvalidArgument,
                        place() +
                            " is of another runtime's device or context than "
                            "the stream");
    }
    if (Status admitted = runtime_->device().Admit(node); !admitted) {
      return tl::unexpected(admitted.error().In(place()));
    }
  }
  return {};
}

Status StreamCore::CheckWaits(const batch::BatchRecord& record) {
  for (const batch::BatchRecord::EventUse& wait : record.waits()) {
    if (wait.event->recorded()) continue;
    return base::Fail(Code::kFailedPrecondition,
                      "launch " + std::to_string(wait.node) +
                          " (wait) waits for a point of a batch that was not "
                          "submitted yet");
  }
  return {};
}

Result<batch::Captures> StreamCore::CaptureAll(
    const batch::BatchRecord& record) const {
  batch::Captures captures;
  if (record.captures().empty()) return captures;
  const batch::DeviceScope scope(runtime_->device());
  REPRISE_RETURN_IF_ERROR(scope.status());
  for (const batch::CaptureFunction& work : record.captures()) {
    REPRISE_ASSIGN_OR_RETURN(auto captured, runtime_->device().Capture(work));
    captures.push_back(std::move(captured));
  }
  return captures;
}

Status StreamCore::Submit(const batch::BatchRecord& record) {
  const base::MutexLock lock(mutex_);
  if (record.mistake().has_value()) return Check(record);
  REPRISE_RETURN_IF_ERROR(CheckWaits(record));
  ++stats_.batches;
  if (record.nodes().empty()) return {};
  const batch::DeviceScope scope(runtime_->device());
  REPRISE_RETURN_IF_ERROR(scope.status());
  // A host runtime's captures are functions that live no longer than this call.
  const bool unknown =
      record.has_unknown_work() ||
      (runtime_->device().on_host() && !record.captures().empty());
  if (unknown || runtime_->device().Capturing(stream_)) {
    REPRISE_RETURN_IF_ERROR(Check(record));
    return LaunchAll(record);
  }
  BatchEntry& entry = EntryFor(record);
  entry.used = stats_.batches;
  if (entry.state == BatchEntry::State::kBuilding) CollectBuild(entry);
  if (entry.state == BatchEntry::State::kReady) return Replay(entry, record);
  // What has a graph was checked before it was built.
  REPRISE_RETURN_IF_ERROR(Check(record));
  ++entry.seen;
  if (BuildIsDue(entry)) {
    StartBuild(entries_.front(), record);
  } else if (entry.seen == 1) {
    TakeGraphOver(entry, record);
    if (entry.state == BatchEntry::State::kReady) return Replay(entry, record);
  }
  return LaunchAll(record);
}

bool StreamCore::Fits(const BatchEntry& entry,
                      const batch::BatchRecord& record) {
  if (!record.SameNodes(entry.nodes)) return false;
  // Other memory may be in each other's way in other places.
  return Same(record.accesses(), entry.accesses) ||
         batch::DependenciesOf(record.nodes(), record.accesses()) ==
             entry.dependencies;
}

BatchEntry& StreamCore::EntryFor(const batch::BatchRecord& record) {
  if (!entries_.empty() && Fits(*entries_.front(), record)) {
    return *entries_.front();
  }
  const cache::Signature name = NameOf(record.nodes());
  const auto [begin, end] = by_name_.equal_range(name);
  for (auto found = begin; found != end; ++found) {
    if (!Fits(**found->second, record)) continue;
    entries_.splice(entries_.begin(), entries_, found->second);
    return *entries_.front();
  }
  if (entries_.size() >= runtime_->options().plans_per_stream) {
    const auto last = std::prev(entries_.end());
    const auto [first, past] = by_name_.equal_range(NameOf((*last)->nodes));
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
      batch::DependenciesOf(record.nodes(), record.accesses());
  entries_.push_front(std::move(entry));
  by_name_.emplace(name, entries_.begin());
  return *entries_.front();
}

void StreamCore::End(std::shared_ptr<BatchEntry> entry) {
  if (entry->graph == nullptr) return;
  base::ReleaseOn(runtime_->builds(), std::move(entry->graph));
}

bool StreamCore::BuildIsDue(const BatchEntry& entry) const {
  return entry.state == BatchEntry::State::kSeen &&
         entry.nodes.size() >= kFewestLaunches && entry.seen >= entry.due &&
         entry.seen >= runtime_->options().build_after;
}

void StreamCore::StartBuild(const std::shared_ptr<BatchEntry>& entry,
                            const batch::BatchRecord& record) {
  auto captured = CaptureAll(record);
  if (!captured) return Refuse(*entry, captured.error());
  entry->state = BatchEntry::State::kBuilding;
  // An earlier graph of it may have been taken over.
  entry->built.store(false, std::memory_order_relaxed);
  // A build that outlives its stream keeps what it uses. Events are kept until
  // the graph keeps them.
  auto recipe = std::make_shared<const AdaptiveGraph::Recipe>(
      entry->nodes, entry->dependencies);
  runtime_->builds().Post([entry, workshop = workshop(),
                           recipe = std::move(recipe), image = record.image(),
                           hold = runtime_->device().HoldMemory(),
                           waits = record.waits(), points = record.points(),
                           captured = *std::move(captured)]() mutable {
    entry->outcome = AdaptiveGraph::Build(workshop, std::move(recipe),
                                          std::move(image), hold, captured);
    entry->built.store(true, std::memory_order_release);
  });
}

void StreamCore::CollectBuild(BatchEntry& entry) {
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

void StreamCore::Refuse(BatchEntry& entry, const Error& why) {
  ++stats_.refused;
  // What was in the way, as memory that was short, may have gone by then.
  entry.due = 2 * entry.seen;
  entry.why_refused = why.message();
  entry.state = BatchEntry::State::kSeen;
}

Status StreamCore::Replay(BatchEntry& entry, const batch::BatchRecord& record) {
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

void StreamCore::TakeGraphOver(BatchEntry& entry,
                               const batch::BatchRecord& record) {
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
          entry.nodes, entry.dependencies);
    }
    if (!victim.graph->MayBecome(*recipe)) continue;
    const Status taken =
        victim.graph->TakeOver(std::move(recipe), record.image());
    if (!taken && taken.error().code() == Code::kFailedPrecondition) {
      victim.used = stats_.batches;  // not again soon
      return;
    }
    if (taken) {
      entry.graph = std::move(victim.graph);
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

Status StreamCore::LaunchAll(const batch::BatchRecord& record) {
  for (const batch::Node& node : record.nodes()) {
    const std::byte* image = record.image().data() + node.image_begin;
    if (node.kind == batch::Node::Kind::kCapture) {
      const batch::CaptureFunction& work =
          record.captures()[batch::BatchRecord::CaptureIn(image)];
      REPRISE_RETURN_IF_ERROR(runtime_->device().Call(work, stream_));
    } else {
      REPRISE_RETURN_IF_ERROR(runtime_->device().Enqueue(node, image, stream_));
    }
    ++stats_.launches;
  }
  return {};
}

StreamStats StreamCore::stats() const {
  const base::MutexLock lock(mutex_);
  StreamStats stats = stats_;
  for (const std::shared_ptr<BatchEntry>& entry : entries_) {
    if (entry->state == BatchEntry::State::kReady) ++stats.plans;
  }
  return stats;
}

std::vector<PlanReport> StreamCore::plans() const {
  const base::MutexLock lock(mutex_);
  std::vector<PlanReport> plans;
  for (const std::shared_ptr<BatchEntry>& entry : entries_) {
    if (entry->state == BatchEntry::State::kReady) {
      plans.push_back(entry->graph->report());
    } else if (!entry->why_refused.empty()) {
      PlanReport& refused = plans.emplace_back();
      refused.launches = entry->nodes.size();
      refused.why_not = entry->why_refused;
    }
  }
  return plans;
}

}  // namespace reprise::native
