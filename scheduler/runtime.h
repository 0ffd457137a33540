// Owns everything of Reprise in a process: cache, build queue, sessions.

#ifndef REPRISE_SCHEDULER_RUNTIME_H_
#define REPRISE_SCHEDULER_RUNTIME_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "engine/base/options.h"
#include "engine/base/status.h"
#include "engine/trace/frontend.h"
#include "engine/trace/op.h"
#include "scheduler/host_wait.h"
#include "scheduler/ops_under_way.h"
#include "scheduler/session.h"
#include "scheduler/skipping.h"
#include "scheduler/stats.h"
#include "scheduler/stream_key.h"
#include "scheduler/timeline.h"
#include "scheduler/unwatched_work.h"

namespace reprise::scheduler {

// How sure a frontend is that its device has no memory left.
enum class Shortage : uint8_t {
  kPossible,  // nothing cached fits; the device has not been asked yet
  kCertain,   // an allocation failed
};

class BuildQueue;
class Interrupts;

// Thread-safe. Never destroyed while a session is in use; torch's lives for the
// whole process.
class Runtime {
 public:
  using MakeFrontend =
      std::function<std::unique_ptr<engine::Frontend>(const StreamKey&)>;

  // kUnavailable, in one sentence, where the devices are GPUs and a driver, a
  // device, CUPTI or NVRTC is missing. The CUDA context of each session's
  // device must exist when its first op arrives. With one device of several,
  // ops on the others are watched, as they may write what a replay reads, and
  // nothing is recorded or replayed there. What is done is told to
  // `timeline`; null: nobody looks. Threads note in `under_way` the ops that
  // they are inside of; null: one thread issues all ops. Both outlive the
  // runtime.
  static base::Result<std::unique_ptr<Runtime>> Create(
      Devices devices, const base::Options& options, MakeFrontend make_frontend,
      Timeline* timeline = nullptr, const OpsUnderWay* under_way = nullptr);
  ~Runtime();

  // Does now what is to be done once, for devices that the framework uses
  // already: else the program's first op there waits for it (10 to 40 ms). Not
  // before other threads' launches of graphs are seen (LaunchRecorder::Attach).
  void Prepare();

  // The session of a stream, made on first use; lives as long as the runtime.
  // Null, with one warning in the log, where none can be had: run eagerly then.
  Session* SessionFor(const StreamKey& key);

  // Blocks until no build is queued or running and verdicts of finished
  // validations are in. Closes no open trace. False if `timeout` passed first.
  bool Wait(std::optional<std::chrono::milliseconds> timeout);
  // What Wait waits for, which any thread may count.
  const BuildQueue& builds() const;

  // Ends what is open on every session: recordings are dropped, replays under
  // way are squashed. Until Resume, ops of all sessions, also of those to come,
  // run by eager. For disable().
  void Pause();
  void Resume();

  // Interrupts the session of a stream, if there is one (see
  // Session::Interrupt). True if something had been run ahead.
  bool Interrupt(const StreamKey& key, const char* what);
  // Interrupts::MemoryIsUsed, by work on that stream: the others are behind
  // what orders them. Makes the stream's session.
  void MemoryIsUsedOn(const StreamKey& stream, const char* what);
  // What sessions are told of other streams, and of waits. Lives as long as the
  // runtime.
  Interrupts& interrupts();
  // Events of streams, which tell it what is ordered behind what, and work that
  // no session was shown.
  UnwatchedWork& unwatched();

  // While it is on no op need be shown to any session, which saves the work:
  // watching does not pay (Attention). After each kOpsPassedOver ops that were
  // not shown PassOver is called. Never with several sessions, as nobody can
  // tell then whose op it was. Lives as long as the runtime.
  static constexpr uint64_t kOpsPassedOver = 1024;
  const Skipping& asleep() const;
  void PassOver(uint64_t ops);

  // For a profiler that wants CUPTI: from the return of Forbid, which waits for
  // ops that are being handled, until Allow, nothing is recorded or validated.
  // Plans that are ready go on. Does not nest.
  void ForbidRecording();
  void AllowRecording();

  // Forgets all plans, signatures and counters. Live tensors stay valid.
  void Reset();

  Stats stats() const;
  // The report as JSON text (see docs/report.md for its fields).
  std::string ExplainJson() const;
  // The plan of that trace (as hex): ProgramJson; empty: there is none now.
  std::string PlanJson(const std::string& signature) const;
  // Those of this runtime's squashes.
  void AddPlaces(Timeline::Excerpt& excerpt) const;

  const base::Options& options() const;

#ifdef REPRISE_MEASURE
  // While true, replays launch nothing and compute nothing, so that the host's
  // share of a pass can be measured.
  void SkipLaunches(bool skip);
#endif

  // Gives back the plans of `device` that are not in use and returns their
  // bytes. kPossible: only where less than 1/16 of the device is free, the
  // device being the calling thread's current one. 0 where there was nothing to
  // give, or another thread was just making a session.
  //
  // Any thread, also inside the allocator of that device and under its lock:
  // no lock is waited for whose holder may wait for that one. What is destroyed
  // is freed to that allocator, on this thread; nothing is allocated from it.
  // Lock order: the table of sessions', a session's, the allocator's, the plan
  // cache's; so the first two, if the third is held, are only tried.
  uint64_t ReleaseMemory(int device, Shortage shortage);

  // Cached memory of `device` may be about to go back to it: see
  // StreamSession::BeforeMemoryGoes. Any thread, also under that allocator's
  // lock. Nothing is done if another thread is just making a session.
  void BeforeMemoryGoes(int device);

 private:
  class Impl;
  explicit Runtime(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_RUNTIME_H_
