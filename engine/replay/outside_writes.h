// An op that writes the program's memory, or uses its random generator, run by
// a plan and by eager.

#ifndef REPRISE_ENGINE_REPLAY_OUTSIDE_WRITES_H_
#define REPRISE_ENGINE_REPLAY_OUTSIDE_WRITES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/base/status.h"
#include "engine/replay/executor.h"
#include "engine/trace/block.h"
#include "engine/trace/frontend.h"
#include "engine/trace/generator.h"
#include "engine/trace/op.h"
#include "engine/trace/trace.h"
#include "kernels/strided_layout.h"

namespace reprise::engine {

// What is written through the operand can be copied back and forth: it has not
// too many dimensions, none goes backwards, and its elements do not lie all too
// far apart, for copies take as much memory as lies between the first and the
// last one.
bool CanCopy(const Operand& operand);

// Both write in the same place, one after the other, from the same bits, and
// what eager has written is what stays. So it is with the generator, where
// recorded work uses it:
//
//   plan first:   Begin ─ plan ─ Keep ─ PutBefore ─ eager ─ compare ─ End
//   eager first:  Begin ─ eager ─ Keep ─ PutBefore ─ plan ─ compare ─ PutKept ─
//                 End
//
// What lies in the gaps of a strided operand is others', who may write it at
// any time: it is not copied. All in the order of the session's stream. What
// puts back is tried again where it fails; the error says so, and whether it
// was in vain. Under the session's lock.
class OutsideWrites {
 public:
  // `frontend` is borrowed.
  explicit OutsideWrites(Frontend* frontend) : frontend_(*frontend) {}

  // The op is about to be run for the first time; what it writes outside can be
  // copied. kResourceExhausted where there is no memory for twice the span of
  // what it writes.
  base::Status Begin(const TracedOp& traced, const OpView& op,
                     const Trace& trace, Executor& executor);
  // What has been written.
  base::Status Keep(Executor& executor);
  // What was there before.
  base::Status PutBefore(Executor& executor);
  // What was kept, if it was.
  base::Status PutKept(Executor& executor);
  void End();

  // Where what was kept of an operand is; 0 of operands that are not outside.
  uint64_t kept(size_t operand) const {
    return operand < kept_.size() ? kept_[operand] : 0;
  }

 private:
  struct Piece {
    uint64_t address = 0;  // the program's
    kernels::Layout layout;
    uint64_t before = 0;  // copies, of that layout
    uint64_t kept = 0;
  };

  base::Status Put(Executor& executor, uint64_t Piece::*from);

  Frontend& frontend_;
  Block copies_;
  std::vector<Piece> pieces_;
  std::vector<uint64_t> kept_;                       // by operand
  std::unique_ptr<KeptGenerator> generator_before_;  // null: is not used
  std::unique_ptr<KeptGenerator> generator_kept_;
  bool is_kept_ = false;
};

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_REPLAY_OUTSIDE_WRITES_H_
