// What the handles of one stream share: its graphs and how batches find them.

#ifndef REPRISE_BINDINGS_NATIVE_STREAM_CORE_H_
#define REPRISE_BINDINGS_NATIVE_STREAM_CORE_H_

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "bindings/native/adaptive_graph.h"
#include "bindings/native/device.h"
#include "bindings/native/event_core.h"
#include "bindings/native/runtime_core.h"
#include "bindings/native/stream.h"
#include "cache/signature.h"
#include "engine/base/mutex.h"
#include "engine/batch/batch_record.h"

namespace reprise::native {

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

  std::vector<batch::Node> nodes;
  device::Dependencies dependencies;
  std::vector<batch::Access> accesses;  // that the dependencies were made from
  State state = State::kSeen;
  uint64_t seen = 0;
  uint64_t due = 0;       // not built before it was seen so often
  uint64_t used = 0;      // when: a number of batches
  uint64_t replayed = 0;  // since it has its graph
  std::unique_ptr<AdaptiveGraph> graph;
  std::string why_refused;  // the last time; empty once it was built

  std::atomic<bool> built{false};
  std::optional<Result<std::unique_ptr<AdaptiveGraph>>> outcome;
};

// Thread-safe; submitting holds the mutex, as the order of a stream asks for.
class StreamCore : public std::enable_shared_from_this<StreamCore> {
 public:
  StreamCore(std::shared_ptr<RuntimeCore> runtime, CUstream stream, bool owned)
      : runtime_(std::move(runtime)), stream_(stream), owned_(owned) {}
  ~StreamCore();
  StreamCore(const StreamCore&) = delete;
  StreamCore& operator=(const StreamCore&) = delete;

  // Records go round, so that their vectors keep their memory.
  std::unique_ptr<batch::BatchRecord> TakeRecord() REPRISE_EXCLUDES(mutex_);
  void ReturnRecord(std::unique_ptr<batch::BatchRecord> record)
      REPRISE_EXCLUDES(mutex_);

  Status Submit(const batch::BatchRecord& record) REPRISE_EXCLUDES(mutex_);
  // Everything about the record that can be wrong; waits for its kernels.
  Status Check(const batch::BatchRecord& record) const;
  // Calls the works of its captures to have them captured.
  Result<batch::Captures> CaptureAll(const batch::BatchRecord& record) const;
  // kFailedPrecondition where it waits for what nobody has recorded.
  static Status CheckWaits(const batch::BatchRecord& record);

  RuntimeCore& runtime() const { return *runtime_; }
  const std::shared_ptr<RuntimeCore>& shared_runtime() const {
    return runtime_;
  }
  CUstream stream() const { return stream_; }
  StreamStats stats() const REPRISE_EXCLUDES(mutex_);
  std::vector<PlanReport> plans() const REPRISE_EXCLUDES(mutex_);
  AdaptiveGraph::Workshop workshop() const {
    return {&runtime_->device(), &runtime_->patching(), &runtime_->builds(),
            stream_};
  }

 private:
  using Entries = std::list<std::shared_ptr<BatchEntry>>;  // latest first

  // The record's entry, made if there is none, at the front of entries_.
  BatchEntry& EntryFor(const batch::BatchRecord& record)
      REPRISE_REQUIRES(mutex_);
  // It came often enough to be built, or to be tried again.
  bool BuildIsDue(const BatchEntry& entry) const REPRISE_REQUIRES(mutex_);
  bool Fits(const BatchEntry& entry, const batch::BatchRecord& record)
      REPRISE_REQUIRES(mutex_);
  // One that is no more in entries_. The end of its graph may wait for the
  // device, so it is no work for this thread.
  void End(std::shared_ptr<BatchEntry> entry) REPRISE_REQUIRES(mutex_);
  void StartBuild(const std::shared_ptr<BatchEntry>& entry,
                  const batch::BatchRecord& record) REPRISE_REQUIRES(mutex_);
  void CollectBuild(BatchEntry& entry) REPRISE_REQUIRES(mutex_);
  void Refuse(BatchEntry& entry, const Error& why) REPRISE_REQUIRES(mutex_);
  Status Replay(BatchEntry& entry, const batch::BatchRecord& record)
      REPRISE_REQUIRES(mutex_);
  // The entry is ready if a graph that nobody wants has become its.
  void TakeGraphOver(BatchEntry& entry, const batch::BatchRecord& record)
      REPRISE_REQUIRES(mutex_);
  Status LaunchAll(const batch::BatchRecord& record) REPRISE_REQUIRES(mutex_);

  const std::shared_ptr<RuntimeCore> runtime_;
  const CUstream stream_;
  const bool owned_;

  mutable base::Mutex mutex_;
  Entries entries_ REPRISE_GUARDED_BY(mutex_);
  std::unordered_multimap<cache::Signature, Entries::iterator> by_name_
      REPRISE_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<batch::BatchRecord>> records_
      REPRISE_GUARDED_BY(mutex_);
  StreamStats stats_ REPRISE_GUARDED_BY(mutex_);
};

}  // namespace reprise::native

#endif  // REPRISE_BINDINGS_NATIVE_STREAM_CORE_H_
