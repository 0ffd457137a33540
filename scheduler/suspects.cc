#include "scheduler/suspects.h"

#include <algorithm>
#include <set>

#include "engine/replay/run_twice.h"

namespace reprise::scheduler {

using Finding = Suspects::Finding;

namespace {

// The ops whose work the op uses or writes over, directly or not, and that are
// not compared by themselves where segments are launched whole: others write
// there behind them.
std::set<uint32_t> UncomparedBefore(const engine::Trace& trace,
                                    const engine::Effects& effects,
                                    uint32_t op) {
  std::set<uint32_t> found;
  std::vector<uint32_t> due = {op};
  while (!due.empty()) {
    const uint32_t user = due.back();
    due.pop_back();
    std::set<engine::ValueId> values;
    for (const engine::ValueRef& operand : trace.ops[user].operands) {
      values.insert(operand.value);
    }
    for (uint32_t k = 0; k < user; ++k) {
      const bool uncompared =
          std::ranges::any_of(values, [&](engine::ValueId value) {
            return trace.ops[k].Writes(value) &&
                   effects.last_writer(value) != k;
          });
      if (uncompared && found.insert(k).second) due.push_back(k);
    }
  }
  return found;
}

}  // namespace

Finding Suspects::Judge(const engine::Trace& trace,
                        const engine::Effects& effects,
                        const engine::Verdict& verdict, Compared compared,
                        const std::function<bool(engine::OpId)>& may_be) {
  bool found = NoteSecondRuns(verdict, trace.ops.size());
  const auto suspect = [&](uint32_t op) {
    const engine::TracedOp& traced = trace.ops[op];
    if (traced.nondeterministic || ops_.contains(op) || !may_be(traced.op)) {
      return false;
    }
    ops_.emplace(op, false);
    found = true;
    return true;
  };
  for (const uint32_t op : verdict.differing) {
    if (op >= trace.ops.size()) break;
    if (!suspect(op)) return {.kind = Finding::Kind::kDiffers, .op = op};
    if (compared == Compared::kOpByOp) continue;
    // It may differ for those that nobody has compared. What comes behind it
    // may differ for it alone.
    for (const uint32_t before : UncomparedBefore(trace, effects, op)) {
      suspect(before);
    }
    break;
  }
  if (ops_.empty()) return {};
  if (!found && !all_confirmed() && !fruitless_.Take()) {
    // The others may have differed for those that are confirmed.
    const uint32_t first = DropOthers();
    if (ops_.empty()) return {.kind = Finding::Kind::kDiffers, .op = first};
  }
  return {.kind = all_confirmed() ? Finding::Kind::kConfirmed
                                  : Finding::Kind::kNotKnown};
}

bool Suspects::NoteSecondRuns(const engine::Verdict& verdict, size_t ops) {
  bool found = false;
  for (auto& [op, confirmed] : ops_) {
    const auto tags = engine::TwiceTags::Of(op, static_cast<uint32_t>(ops));
    if (confirmed || !verdict.Differs(tags.repeated)) continue;
    confirmed = true;
    found = true;
  }
  return found;
}

bool Suspects::all_confirmed() const {
  return std::ranges::all_of(ops_, [](const auto& one) { return one.second; });
}

uint32_t Suspects::DropOthers() {
  const uint32_t first = ops_.begin()->first;
  std::erase_if(ops_, [](const auto& one) { return !one.second; });
  return first;
}

std::vector<uint32_t> Suspects::ops() const {
  std::vector<uint32_t> ops;
  for (const auto& [op, confirmed] : ops_) ops.push_back(op);
  return ops;
}

void Suspects::Clear() {
  ops_.clear();
  fruitless_.Renew();
}

}  // namespace reprise::scheduler
