#include "engine/replay/run_twice.h"

#include <utility>
#include <vector>

#include "engine/program/layout.h"
#include "engine/trace/block.h"

namespace reprise::engine {

base::Status RunTwice(Frontend& frontend, Executor& executor, TwiceTags tags,
                      std::span<const WrittenPair> pairs,
                      const std::function<base::Status()>& put_back) {
  struct Copies {
    uint64_t before = 0;  // 0: outside
    uint64_t first = 0;
  };
  std::vector<Copies> copies;
  uint64_t bytes = 0;
  for (const WrittenPair& pair : pairs) {
    bytes += 2 * PlaceBytes(static_cast<uint64_t>(pair.layout.span_bytes()));
  }
  Block room;
  if (bytes > 0) {
    REPRISE_ASSIGN_OR_RETURN(room, frontend.Allocate(bytes));
  }
  uint64_t next = bytes > 0 ? room.address() : 0;
  for (const WrittenPair& pair : pairs) {
    const uint64_t span =
        PlaceBytes(static_cast<uint64_t>(pair.layout.span_bytes()));
    Copies& made = copies.emplace_back();
    made.first = std::exchange(next, next + span);
    if (pair.outside) continue;
    made.before = std::exchange(next, next + span);
    REPRISE_RETURN_IF_ERROR(
        executor.Copy(made.before, pair.replayed, pair.layout));
  }
  REPRISE_RETURN_IF_ERROR(executor.LaunchOp(tags.op));
  for (size_t i = 0; i < pairs.size(); ++i) {
    const WrittenPair& pair = pairs[i];
    REPRISE_RETURN_IF_ERROR(
        executor.Copy(copies[i].first, pair.replayed, pair.layout));
    if (pair.outside) continue;
    REPRISE_RETURN_IF_ERROR(
        executor.Copy(pair.replayed, copies[i].before, pair.layout));
  }
  REPRISE_RETURN_IF_ERROR(put_back());
  REPRISE_RETURN_IF_ERROR(executor.LaunchOp(tags.op));
  for (size_t i = 0; i < pairs.size(); ++i) {
    const WrittenPair& pair = pairs[i];
    REPRISE_RETURN_IF_ERROR(executor.Compare(copies[i].first, pair.replayed,
                                             pair.layout, {}, tags.repeated));
    REPRISE_RETURN_IF_ERROR(executor.Compare(
        pair.eager, pair.replayed, pair.layout,
        {.in_every_bit = false, .other_run = copies[i].first}, tags.op));
  }
  return {};
}

}  // namespace reprise::engine
