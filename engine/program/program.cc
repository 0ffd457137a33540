#include "engine/program/program.h"

#include "engine/program/lifetimes.h"

namespace reprise::engine {

tl::expected<void, BuildFailure> Arrange(Program& program, const Trace& second,
                                         const Arrangement& how) {
  const Trace& trace = *program.trace;
  program.segments =
      CutSegments(program.effects, how.launches, how.segment_launches);
  program.layout =
      LayOut(trace, program.place_bytes,
             Lifetimes::Of(trace, second, program.effects, program.segments));
  if (program.layout.size_bytes <= how.max_arena_bytes) return {};
  return tl::unexpected<BuildFailure>(
      {.error = TooLarge(program.layout.size_bytes, how.max_arena_bytes),
       .op = std::nullopt,
       .split = HalfWay(trace, program.place_bytes)});
}

}  // namespace reprise::engine
