// How far a launch has come among the draws of its trace.

#ifndef REPRISE_ENGINE_REPLAY_DRAW_CURSOR_H_
#define REPRISE_ENGINE_REPLAY_DRAW_CURSOR_H_

#include <cstdint>
#include <vector>

#include "engine/program/program.h"
#include "engine/replay/executor.h"
#include "engine/trace/generator.h"

namespace reprise::engine {

// Ops that draw run ahead of the random generator (Draws::ahead). The cursor
// tells the executor where each of them draws, and moves the generator when the
// program comes to the op. Until a source is bound, its draws are as recorded.
//
// Borrows the program and the executor. Under the session's lock.
class DrawCursor {
 public:
  DrawCursor(const Program* program, Executor* executor);
  DrawCursor(const DrawCursor&) = delete;
  DrawCursor& operator=(const DrawCursor&) = delete;

  // The source's draws are made from where the generator is now. False, and
  // nothing has changed, if no recording has seen it there.
  bool Bind(uint32_t source);
  // A pass begins: none of its draws has come.
  void Rewind() { GoTo(0); }

  // The op of the next draw.
  static constexpr uint32_t kNoOp = ~uint32_t{0};
  uint32_t next_op() const { return next_op_; }
  // So many draws have come.
  uint32_t drawn() const { return next_; }
  // Where the last of them began.
  const GeneratorState& last() const { return states_[next_ - 1]; }

  // The next op draws: moves the generator. False, and nothing has changed, if
  // it is not where the draw is bound: the program has set it, or others have
  // used it.
  bool Draw();
  // The last draw has not come after all.
  void TakeBack();

  // The same in a pass in which eager runs the op, and has not yet: eager moves
  // the generator.
  bool DrawBesideEager();
  // Behind it: the generator is where the op was to move it, if it draws.
  bool DrewBesideEager(uint32_t op) const;

 private:
  void GoTo(uint32_t draw);

  const Program* program_;
  Executor* executor_;
  std::vector<GeneratorState> states_;  // by draw: where it begins
  uint32_t next_ = 0;
  uint32_t next_op_ = kNoOp;
};

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_REPLAY_DRAW_CURSOR_H_
