// What of a trace varies from one pass to the next, as it turned out.

#ifndef REPRISE_SCHEDULER_VARIATIONS_H_
#define REPRISE_SCHEDULER_VARIATIONS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "engine/base/tries.h"
#include "engine/trace/op.h"
#include "engine/trace/trace.h"

namespace reprise::scheduler {

// Two recordings show what varies between them: a number, where an operand
// lies, what the program keeps, the generator. If a later pass shows more, then
// the trace is recorded again, and its recordings have to differ in that, too.
// Each kind is learned only so often; then whoever asks is told no, or does
// without. Single-thread.
class Variations {
 public:
  // So many replays of a plan make it worth learning as often again.
  static constexpr uint64_t kReplaysToTryAgain = 256;

  // At op `index` the numbers were `now`, of which the recordings do not tell
  // enough. False: too often.
  bool LearnNumbers(uint32_t index, const engine::TracedOp& traced,
                    std::span<const engine::Scalar> now);
  // The recordings were proved to tell enough of all that came.
  void NumbersAreTold() { untold_.clear(); }

  // The program has set the generator where no recording saw it, after so many
  // replays of the trace. False: too often.
  bool LearnDraw(uint64_t replays);

  // These externals lay where no recording saw them. False: too often, of a
  // plan that has not paid; the recordings have to show them elsewhere all the
  // same.
  bool LearnMoves(std::span<const engine::ValueId> values, bool plan_has_paid);
  // The same of one that a recording itself shows not to vary enough.
  void Moves(engine::ValueId value) { moving_.insert(value); }

  // The program has kept these values for longer than when they were recorded.
  void LearnOutliving(std::span<const engine::ValueId> values);

  // These externals were taken for constants and replaced soon after.
  void LearnReplaced(std::span<const engine::ValueId> values) {
    come_anew_.insert(values.begin(), values.end());
  }

  // The second recording differs from the first in all that is known to vary,
  // or was waited for in vain.
  bool AreTold(const engine::Trace& first, const engine::Trace& second);

  // Marks the values of a recording that do not live as it shows.
  void Mark(engine::Trace& trace) const;

  // A node of a set, and what an allocation takes beside what was asked for.
  static constexpr size_t kNode = 64;
  // Beside the object itself.
  size_t HostBytes() const;

 private:
  // Op and slot of numbers that change. Both recordings must hold another one.
  std::set<std::pair<uint32_t, uint32_t>> changing_;
  // By op, numbers that came and of which the recordings did not tell enough.
  std::map<uint32_t, std::vector<uint64_t>> untold_;
  base::Tries number_tries_{16};
  // Recordings that may be dropped because they tell no more of them.
  base::Tries equal_recordings_{15};

  std::set<engine::ValueId> moving_;
  base::Tries move_tries_{8};
  // Recordings that may be dropped each time, because what moved then lies
  // where it did in the first one.
  base::Tries still_recordings_{4};

  std::set<engine::ValueId> come_anew_;

  std::set<engine::ValueId> outliving_;  // they share no memory
  base::Tries outliving_tries_{8};
  bool all_outlive_ = false;  // after more: none of the trace's does

  // Else the generator is left where it is, as at an op that is another one.
  base::Tries draw_tries_{4};
  uint64_t draws_learned_at_ = 0;
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_VARIATIONS_H_
