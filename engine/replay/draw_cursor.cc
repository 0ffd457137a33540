#include "engine/replay/draw_cursor.h"

#include <span>

#include "engine/program/draws.h"

namespace reprise::engine {

DrawCursor::DrawCursor(const Program* program, Executor* executor)
    : program_(program), executor_(executor) {
  const Draws& draws = program_->effects.draws();
  for (const engine::Draw& draw : draws.ahead()) {
    const GeneratorState& source = draws.sources()[draw.source].recorded;
    states_.push_back(source.After(draw.ahead));
  }
}

bool DrawCursor::Bind(uint32_t source) {
  const Draws& draws = program_->effects.draws();
  const GeneratorState now = program_->trace->frontend->Generator();
  if (!draws.sources()[source].Takes(now)) return false;
  for (size_t i = 0; i < states_.size(); ++i) {
    const engine::Draw& draw = draws.ahead()[i];
    if (draw.source != source) continue;
    states_[i] = now.After(draw.ahead);
    executor_->SetGenerator(draw.op, states_[i]);
  }
  return true;
}

void DrawCursor::GoTo(uint32_t draw) {
  const std::span<const engine::Draw> ahead = program_->effects.draws().ahead();
  next_ = draw;
  next_op_ = draw < ahead.size() ? ahead[draw].op : kNoOp;
}

bool DrawCursor::Draw() {
  const uint64_t increment = program_->effects.draws().ahead()[next_].increment;
  const GeneratorState& at = states_[next_];
  if (!program_->trace->frontend->MoveGenerator(at, at.After(increment))) {
    return false;
  }
  GoTo(next_ + 1);
  return true;
}

void DrawCursor::TakeBack() {
  GoTo(next_ - 1);
  const uint64_t increment = program_->effects.draws().ahead()[next_].increment;
  const GeneratorState& at = states_[next_];
  // If others have used the generator meanwhile, they have used what comes
  // after the draw, and it stays where it is.
  (void)program_->trace->frontend->MoveGenerator(at.After(increment), at);
}

bool DrawCursor::DrawBesideEager() {
  if (program_->trace->frontend->Generator() != states_[next_]) return false;
  GoTo(next_ + 1);
  return true;
}

bool DrawCursor::DrewBesideEager(uint32_t op) const {
  if (next_ == 0) return true;
  const engine::Draw& last = program_->effects.draws().ahead()[next_ - 1];
  return last.op != op || program_->trace->frontend->Generator() ==
                              states_[next_ - 1].After(last.increment);
}

}  // namespace reprise::engine
