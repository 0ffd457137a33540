// What runs recorded work again, and compares what it writes.

#ifndef REPRISE_ENGINE_REPLAY_EXECUTOR_H_
#define REPRISE_ENGINE_REPLAY_EXECUTOR_H_

#include <cuda.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/program/program.h"
#include "engine/program/segments.h"
#include "engine/replay/ledger.h"
#include "engine/trace/block.h"
#include "engine/trace/trace.h"
#include "kernels/compare.h"
#include "kernels/strided_layout.h"

namespace reprise::engine {

// What a validation found: the tags of comparisons that found a difference,
// ascending.
struct Verdict {
  std::vector<uint32_t> differing;

  bool Differs(uint32_t tag) const {
    return std::ranges::binary_search(differing, tag);
  }
};

// Runs the ops of one instance of a program on the session's stream. One thread
// at a time (the session's lock); all work is enqueued in stream order.
class Executor {
 public:
  virtual ~Executor() = default;

  // From the next launch on, `value` begins at `origin`.
  virtual void Bind(ValueId value, uint64_t origin) = 0;

  // From the next launch on, the numbers of `op` have these bits, one a slot of
  // its TracedOp. Only kBound changes anything.
  enum class Fit : uint8_t {
    kBound,
    kUntold,   // the recordings do not tell how kernels hold such a number
    kOutside,  // an op may treat such a number in another way
  };
  virtual Fit SetScalars(uint32_t op, std::span<const uint64_t> bits) = 0;

  // From the next launch on, `op` draws as it does where the generator is at
  // `state`, which stays where it is (Draws::ahead).
  virtual void SetGenerator(uint32_t op, const GeneratorState& state) = 0;

  // How far a launch of several ops has got. Where not all of them have run,
  // `status` says why, those before `end_op` have, and of the others nothing
  // has.
  struct [[nodiscard]] Progress {
    base::Status status;
    uint32_t end_op = 0;
  };
  // The segment's ops from `first_op` on, which is its first one, or the
  // `end_op` of a launch that got no further.
  virtual Progress LaunchSegment(size_t segment, uint32_t first_op) = 0;
  // Segments in a row, `first` is the first one's index, of which nothing has
  // been launched. Those that are launched like this time and again may become
  // one launch.
  virtual Progress LaunchSegments(size_t first,
                                  std::span<const Segment> segments) {
    for (const Segment& segment : segments) {
      Progress progress = LaunchSegment(first++, segment.first_op);
      if (!progress.status) return progress;
    }
    return {};
  }
  // Bytes of memory that it has taken for that since it was last asked.
  virtual uint64_t TakeGrowth() { return 0; }
  // Runs the recorded work of one op by itself. On an error, what it has
  // written of its results is anything; the operands that it writes over are as
  // they were (host), or hold what some of its launches wrote (device).
  virtual base::Status LaunchOp(size_t op) = 0;
  // The op's recorded work may write `value` (points into it).
  virtual bool Touches(size_t op, ValueId value) const = 0;

  // Of memory of the session's device, in stream order: every element, and no
  // byte beside them. The two do not overlap.
  virtual base::Status Copy(uint64_t to, uint64_t from,
                            const kernels::Layout& layout) = 0;

  // The same of plain bytes, of many small ones at once: none overlaps another.
  virtual base::Status CopyAll(std::span<const kernels::RangeCopy> copies) = 0;

  // What is launched from now on runs after the device has come to `event`.
  virtual base::Status WaitFor(CUevent event) = 0;

  // Validation: Begin, then any number of Compare, then End; Poll gives the
  // verdict once the device has reached End, or waits for it. Tags are below
  // kTagsAnOp times the ops; several comparisons may have one.
  static constexpr uint32_t kTagsAnOp = 2;
  struct Alike {
    // Else as sums of the same numbers in another order are alike.
    bool in_every_bit = true;
    // Where the replayed work has written that another time, from the same
    // bits: how far apart they are tells how far eager's may be. 0: nowhere.
    uint64_t other_run = 0;
  };
  virtual base::Status BeginComparing() = 0;
  virtual base::Status Compare(uint64_t eager, uint64_t replayed,
                               const kernels::Layout& layout, Alike alike,
                               uint32_t tag) = 0;
  virtual base::Status EndComparing() = 0;
  enum class Patience : uint8_t { kPoll, kWait };
  virtual base::Result<std::optional<Verdict>> Poll(Patience patience) = 0;
};

// What an instance of a program has of its own.
struct InstanceParts {
  Block arena;
  ArenaDevice device;
  std::shared_ptr<Ledger> shared;  // in place of both: others have it, too
  std::vector<uint64_t> places;    // Program::PlacesIn
  std::unique_ptr<Executor> executor;
  uint64_t bytes = 0;  // graphs, and its own arena

  uint64_t arena_address() const {
    return shared != nullptr ? shared->address() : arena.address();
  }
};

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_REPLAY_EXECUTOR_H_
