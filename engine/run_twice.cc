#include "engine/run_twice.h"

#include <utility>
#include <vector>

#include "engine/block.h"

namespace reprise::engine {
namespace {

constexpr uint64_t kAlignment = 512;

uint64_t RoundUp(uint64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

base::Status RunTwice(Frontend& frontend, Executor& executor, size_t op,
                      std::span<const WrittenPlace> places,
                      const std::function<base::Status()>& put_back,
                      uint32_t tag) {
  struct Copies {
    uint64_t before = 0;
    uint64_t first = 0;
  };
  std::vector<Copies> copies;
  uint64_t bytes = 0;
  for (const WrittenPlace& place : places) {
    const uint64_t span =
        RoundUp(static_cast<uint64_t>(place.layout.span_bytes()));
    Copies& made = copies.emplace_back();
    made.first = std::exchange(bytes, bytes + span);
    if (place.overwritten) made.before = std::exchange(bytes, bytes + span);
  }
  Block room;
  if (bytes > 0) {
    REPRISE_ASSIGN_OR_RETURN(room, frontend.Allocate(bytes));
  }
  const uint64_t base = bytes > 0 ? room.address() : 0;
  for (size_t i = 0; i < places.size(); ++i) {
    if (!places[i].overwritten) continue;
    REPRISE_RETURN_IF_ERROR(executor.Copy(base + copies[i].before,
                                          places[i].address, places[i].layout));
  }
  REPRISE_RETURN_IF_ERROR(executor.LaunchOp(op));
  for (size_t i = 0; i < places.size(); ++i) {
    REPRISE_RETURN_IF_ERROR(executor.Copy(base + copies[i].first,
                                          places[i].address, places[i].layout));
  }
  for (size_t i = 0; i < places.size(); ++i) {
    if (!places[i].overwritten) continue;
    REPRISE_RETURN_IF_ERROR(executor.Copy(
        places[i].address, base + copies[i].before, places[i].layout));
  }
  REPRISE_RETURN_IF_ERROR(put_back());
  REPRISE_RETURN_IF_ERROR(executor.LaunchOp(op));
  for (size_t i = 0; i < places.size(); ++i) {
    REPRISE_RETURN_IF_ERROR(
        executor.Compare(base + copies[i].first, places[i].address,
                         places[i].layout, Executor::Alike::kBits, tag));
  }
  return {};
}

}  // namespace reprise::engine
