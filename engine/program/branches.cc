#include "engine/program/branches.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <utility>

#include "engine/trace/frontend.h"

namespace reprise::engine {
namespace {

constexpr uint32_t kNone = ~uint32_t{0};

// By lane.
constexpr std::array<uint32_t, Branches::kLanes> NoOps() {
  std::array<uint32_t, Branches::kLanes> none{};
  none.fill(kNone);
  return none;
}

// For what it does, whatever its launches name.
bool RunsAlone(const Trace& trace, const Effects& effects, uint32_t k) {
  const TracedOp& op = trace.ops[k];
  const auto outside = [&](ValueId v) {
    return trace.values[v].external && !effects.is_private(v);
  };
  return op.nondeterministic || op.generator.draws || op.by_eager ||
         !trace.frontend->MayRunBeside(op.op) ||
         std::ranges::any_of(op.operands,
                             [&](const ValueRef& operand) {
                               return operand.written && outside(operand.value);
                             }) ||
         std::ranges::any_of(op.results, [&](const ResultSpec& result) {
           return result.IsValue() && outside(result.value);
         });
}

}  // namespace

// Goes over ops in program order and knows what each waits for.
class Branches::Walk {
 public:
  explicit Walk(const Branches& branches)
      : branches_(branches), cells_(branches.cell_count_) {}

  // The latest ops that this one waits for, whatever its lane, ascending.
  std::vector<uint32_t> Waits(uint32_t k) const {
    std::vector<uint32_t> waits;
    const auto add = [&waits](uint32_t op) {
      if (op != kNone) waits.push_back(op);
    };
    if (branches_.alone_[k]) {
      std::ranges::for_each(last_, add);
    } else {
      add(alone_);
      for (const Use& use : branches_.uses_[k]) {
        const Cells& cells = branches_.cells_[use.value];
        for (uint32_t c = cells.begin; c < cells.end; ++c) {
          add(cells_[c].writer);
          if (use.written) std::ranges::for_each(cells_[c].readers, add);
        }
      }
    }
    std::ranges::sort(waits);
    waits.erase(std::unique(waits.begin(), waits.end()), waits.end());
    return waits;
  }

  // The last op of a lane.
  uint32_t last(uint32_t lane) const { return last_[lane]; }

  void Pass(uint32_t k, uint32_t lane) {
    last_[lane] = k;
    if (branches_.alone_[k]) {
      alone_ = k;
      return;
    }
    for (const Use& use : branches_.uses_[k]) {
      const Cells& cells = branches_.cells_[use.value];
      for (uint32_t c = cells.begin; c < cells.end; ++c) {
        Cell& cell = cells_[c];
        if (use.written) {
          cell = {.writer = k};  // who waited for all others
        } else if (cell.writer != k) {
          cell.readers[lane] = k;
        }
      }
    }
  }

 private:
  struct Cell {
    uint32_t writer = kNone;
    // Since then, the last one of each lane: it waits for those before it.
    ByLane readers = NoOps();
  };

  const Branches& branches_;
  std::vector<Cell> cells_;
  ByLane last_ = NoOps();
  uint32_t alone_ = kNone;
};

Branches::Branches(const Trace& trace, const Effects& effects,
                   std::span<const Reach> reach,
                   std::span<const uint32_t> launches) {
  NoteUses(trace, effects, reach, launches);
  ChooseLanes();
  if (size_ == 1) {
    lanes_.clear();
    return;
  }
  (void)Waits(0, static_cast<uint32_t>(uses_.size()), over_);
  NoteUsers();
}

void Branches::NoteUses(const Trace& trace, const Effects& effects,
                        std::span<const Reach> reach,
                        std::span<const uint32_t> launches) {
  auto next_temporary = static_cast<ValueId>(trace.values.size());
  std::vector<ValueId> temporaries;  // of each op, the first one
  for (const TracedOp& op : trace.ops) {
    temporaries.push_back(next_temporary);
    next_temporary += static_cast<ValueId>(op.temporaries.size());
  }
  const ValueId libraries = next_temporary;
  for (uint32_t v = 0; v <= libraries; ++v) cells_.push_back({v, v + 1});
  cell_count_ = libraries + 1;

  uses_.resize(trace.ops.size());
  for (uint32_t k = 0; k < trace.ops.size(); ++k) {
    const TracedOp& op = trace.ops[k];
    idle_.push_back(launches[k] == 0);
    alone_.push_back(reach[k].alone || RunsAlone(trace, effects, k));
    std::vector<Use>& uses = uses_[k];
    for (const ValueRef& operand : op.operands) {
      uses.push_back({operand.value, operand.written});
    }
    for (const ResultSpec& result : op.results) {
      if (result.IsValue()) uses.push_back({result.value, true});
    }
    for (size_t t = 0; t < op.temporaries.size(); ++t) {
      uses.push_back({static_cast<ValueId>(temporaries[k] + t), true});
    }
    for (const ValueId v : reach[k].others) uses.push_back({v, true});
    if (reach[k].libraries) uses.push_back({libraries, true});
  }
}

void Branches::ChooseLanes() {
  lanes_.resize(uses_.size(), 0);
  Walk walk(*this);
  std::vector<uint32_t> ends(uses_.size(), 0);
  for (uint32_t k = 0; k < uses_.size(); ++k) {
    if (idle_[k]) continue;
    const std::vector<uint32_t> waits = walk.Waits(k);
    uint32_t ready = 0;
    for (const uint32_t op : waits) ready = std::max(ready, ends[op]);
    const auto begin = [&](uint32_t lane) {
      const uint32_t last = walk.last(lane);
      return std::pair(last == kNone ? ready : std::max(ready, ends[last]),
                       !std::ranges::binary_search(waits, last));
    };
    uint32_t best = 0;
    for (uint32_t lane = 1; lane < kLanes && !alone_[k]; ++lane) {
      if (begin(lane) < begin(best)) best = lane;
    }
    ends[k] = begin(best).first + 1;
    lanes_[k] = static_cast<uint8_t>(best);
    size_ = std::max(size_, best + 1);
    walk.Pass(k, best);
  }
}

void Branches::NoteUsers() {
  ends_.resize(cells_.size(), ByLane{});
  begins_.resize(cells_.size(), kNone);
  for (uint32_t k = 0; k < uses_.size(); ++k) {
    if (idle_[k]) continue;
    for (const Use& use : uses_[k]) {
      ends_[use.value][lanes_[k]] = k + 1;
      begins_[use.value] = std::min(begins_[use.value], k);
    }
  }
}

bool Branches::MayFollow(ValueId earlier, ValueId later) const {
  if (lanes_.empty() || begins_[later] == kNone) return true;
  const ByLane& over = over_[begins_[later]];
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    if (ends_[earlier][lane] > over[lane]) return false;
  }
  return true;
}

void Branches::Place(const Trace& trace, const Effects& effects,
                     const ArenaLayout& layout,
                     std::span<const uint64_t> place_bytes) {
  if (lanes_.empty()) return;
  struct Place {
    ValueId value;
    uint64_t begin;
    uint64_t end;
  };
  std::vector<Place> places;
  const auto add = [&places](ValueId value, uint64_t begin, uint64_t bytes) {
    if (bytes > 0) places.push_back({value, begin, begin + bytes});
  };
  for (ValueId v = 0; v < trace.values.size(); ++v) {
    if (!trace.values[v].external) {
      add(v, layout.places[v], PlaceBytes(place_bytes[v]));
    }
  }
  for (size_t i = 0; i < layout.privates.size(); ++i) {
    const ValueId v = effects.privates()[i];
    add(v, layout.privates[i], trace.values[v].size_bytes);
  }
  auto temporary = static_cast<ValueId>(trace.values.size());
  for (const std::vector<uint64_t>& offsets : layout.temporaries) {
    for (const uint64_t offset : offsets) {
      add(temporary, offset, PlaceBytes(place_bytes[temporary]));
      ++temporary;
    }
  }
  std::vector<uint64_t> bounds;
  for (const Place& place : places) {
    bounds.push_back(place.begin);
    bounds.push_back(place.end);
  }
  std::ranges::sort(bounds);
  bounds.erase(std::unique(bounds.begin(), bounds.end()), bounds.end());
  const auto cell = [&bounds](uint64_t bound) {
    return static_cast<uint32_t>(std::ranges::lower_bound(bounds, bound) -
                                 bounds.begin());
  };
  // Behind those of the arena, one each for what lies elsewhere.
  const auto first = static_cast<uint32_t>(bounds.size());
  cell_count_ = first + static_cast<uint32_t>(cells_.size());
  for (uint32_t v = 0; v < cells_.size(); ++v) {
    cells_[v] = {first + v, first + v + 1};
  }
  for (const Place& place : places) {
    cells_[place.value] = {cell(place.begin), cell(place.end)};
  }
}

std::vector<std::vector<uint32_t>> Branches::Waits(uint32_t first_op,
                                                   uint32_t end_op) const {
  std::vector<ByLane> over;
  return Waits(first_op, end_op, over);
}

std::vector<std::vector<uint32_t>> Branches::Waits(
    uint32_t first_op, uint32_t end_op, std::vector<ByLane>& over) const {
  std::vector<std::vector<uint32_t>> all(end_op - first_op);
  if (lanes_.empty()) {
    uint32_t before = kNone;
    for (uint32_t k = first_op; k < end_op; ++k) {
      if (!idle_.empty() && idle_[k]) continue;
      if (before != kNone) all[k - first_op].push_back(before);
      before = k;
    }
    return all;
  }
  Walk walk(*this);
  over.assign(all.size(), ByLane{});
  for (uint32_t k = first_op; k < end_op; ++k) {
    if (idle_[k]) continue;
    const uint32_t lane = lanes_[k];
    std::vector<uint32_t> waits = walk.Waits(k);
    if (walk.last(lane) != kNone) waits.push_back(walk.last(lane));
    std::ranges::sort(waits, std::ranges::greater());
    ByLane& mine = over[k - first_op];
    for (const uint32_t op : waits) {
      if (op < mine[lanes_[op]]) continue;
      all[k - first_op].push_back(op);
      for (uint32_t l = 0; l < kLanes; ++l) {
        mine[l] = std::max(mine[l], over[op - first_op][l]);
      }
      mine[lanes_[op]] = op + 1;
    }
    std::ranges::reverse(all[k - first_op]);
    walk.Pass(k, lane);
  }
  return all;
}

std::optional<device::Dependencies> Branches::Order(
    uint32_t first_op, uint32_t end_op,
    std::span<const device::Launch> launches,
    std::span<const uint32_t> op_begin) const {
  if (lanes_.empty()) return std::nullopt;
  const std::vector<std::vector<uint32_t>> waits = Waits(first_op, end_op);
  const uint32_t begin = op_begin[first_op];
  device::Dependencies order(op_begin[end_op] - begin);
  // By op, its launches that none of its own waits for.
  std::vector<std::vector<uint32_t>> ends(waits.size());
  bool line = true;
  uint32_t before = kNone;
  for (uint32_t k = first_op; k < end_op; ++k) {
    if (op_begin[k] == op_begin[k + 1]) continue;
    const std::vector<uint32_t>& its = waits[k - first_op];
    line = line && (before == kNone ? its.empty()
                                    : its.size() == 1 && its[0] == before);
    before = k;
    std::vector<uint32_t>& open = ends[k - first_op];
    for (const uint32_t op : its) {
      std::ranges::copy(ends[op - first_op], std::back_inserter(open));
    }
    for (uint32_t i = op_begin[k]; i < op_begin[k + 1]; ++i) {
      std::vector<uint32_t>& behind = order[i - begin];
      if (launches[i].behind.has_value() && i > op_begin[k]) {
        for (const uint32_t distance : *launches[i].behind) {
          behind.push_back(i - begin - distance);
        }
        std::erase_if(open, [&behind](uint32_t end) {
          return std::ranges::find(behind, end) != behind.end();
        });
      } else {
        behind = std::exchange(open, {});
      }
      open.push_back(i - begin);
    }
  }
  if (line) return std::nullopt;
  return order;
}

}  // namespace reprise::engine
