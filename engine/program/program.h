// What two recordings of a trace explain of it.

#ifndef REPRISE_ENGINE_PROGRAM_PROGRAM_H_
#define REPRISE_ENGINE_PROGRAM_PROGRAM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/program/branches.h"
#include "engine/program/effects.h"
#include "engine/program/layout.h"
#include "engine/program/segments.h"
#include "engine/trace/memory_watch.h"
#include "engine/trace/trace.h"

namespace reprise::engine {

// All of a plan that is the same in each launch and in each of its instances:
// what its ops do, how they are cut into segments, how its memory is laid out.
// Knows no stream of ops and has no memory of its own. A backend makes it
// (Backend::Explain), with whatever else its executors need, and makes
// instances of it (Backend::Instantiate). Immutable once made, and shared by
// who runs it.
struct Program {
  explicit Program(std::shared_ptr<const Trace> trace)
      : trace(std::move(trace)) {}
  virtual ~Program() = default;
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  const std::shared_ptr<const Trace> trace;  // the first recording
  Effects effects;                           // of `trace`, which they point to
  std::vector<Segment> segments;
  Branches branches;
  ArenaLayout layout;
  uint64_t bytes_at_once = 0;  // MemoryDemand's
  // By ValueId, and behind them by temporary: what its place holds.
  std::vector<uint64_t> place_bytes;
  // By ValueId: the recorded work can be pointed at another address.
  std::vector<bool> movable;
  // Of memory that the recorded work names and that nobody of ours owns; null
  // where there is none.
  std::shared_ptr<const MemoryWatch> lasting;
  // Of libraries whose kernels it launches.
  LibraryFrees::Seen library_frees;
  uint32_t launches = 0;
  const char* mechanism = "";  // how it runs and is patched, for the report
  std::vector<std::string> notes;
  size_t host_bytes = 0;  // of the host's memory, the recording's included

  // Memory or kernels that the recorded work names, and that nobody of ours
  // owns, have been freed: nothing of it may be launched any more.
  bool broken() const {
    return library_frees.outdated() ||
           (lasting != nullptr && lasting->broken());
  }

  // By ValueId, where it lies in an arena that begins there: values that the
  // trace makes, and the copies of private ones; 0 of other externals.
  std::vector<uint64_t> PlacesIn(uint64_t arena) const;
  // Values that the trace makes and that have memory, ascending.
  std::vector<ValueId> Outputs() const;
};

// Why a trace has no plan and, where it is known, at which of its ops.
struct BuildFailure {
  base::Error error;
  std::optional<uint32_t> op;
  // Ops whose numbers changed in a way that no recording explains: they must
  // stand in the words.
  std::vector<uint32_t> unexplained = {};
  // All of it is too much for one plan: traces that end before this op and
  // begin with it may not be.
  std::optional<uint32_t> split = {};
  // A library has freed kernels of the recordings: nothing is wrong with the
  // trace, and it may be recorded again.
  bool outdated = false;
};

// Cuts a program, whose effects and place_bytes are known, into segments, and
// lays its memory out. Fails where that takes more than `max_arena_bytes`.
struct Arrangement {
  std::vector<uint32_t> launches;  // by op
  // By op, for executors that run graphs of launches, as far as memory allows
  // it, in lanes; empty: ops run one behind the other.
  std::vector<Reach> reach = {};
  uint32_t segment_launches = 0;  // in a segment, about
  uint64_t max_arena_bytes = 0;
  // Of temporaries, for each lane beside the first.
  uint64_t zone_bytes = uint64_t{8} << 20;
  // Ops would wait for places that values of several lanes share. To spare them
  // that may take so much memory, or a quarter of all.
  uint64_t lanes_bytes = 0;
  // What segments make is not looked at below. With much more than this, small
  // models no longer fit into the device's cache.
  uint64_t least_segment_bytes = uint64_t{8} << 20;
  // A result takes over another value's memory from so many on. Smaller ones
  // are what programs begin to keep (losses, outputs); then there would have to
  // be another plan.
  uint64_t least_result_bytes = uint64_t{1} << 20;
};
tl::expected<void, BuildFailure> Arrange(Program& program, const Trace& second,
                                         const Arrangement& how);

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_PROGRAM_PROGRAM_H_
