#include "scheduler/patch_policy.h"

#include <algorithm>
#include <cmath>

namespace reprise::scheduler {

using base::Patching;

namespace {

// Of the last replays, and looks at the stream, about so many count.
constexpr double kMemory = 16;
constexpr uint64_t kReplaysALook = 8;
constexpr double kGain = 0.9;
constexpr Patching kMechanisms[] = {Patching::kSetParams, Patching::kTable,
                                    Patching::kExecUpdate};

// The `count`th value of an average.
void Follow(double& average, double value, uint64_t count) {
  average += (value - average) / std::min(static_cast<double>(count), kMemory);
}

}  // namespace

double ThreadCostOf(Patching patching, const PatchCosts& costs,
                    const PatchShape& shape, double changed) {
  if (changed <= 0) return 0;
  // That anything at all changes in a replay.
  const double any = std::min(1.0, changed);
  const auto launches = static_cast<double>(shape.launches);
  switch (patching) {
    case Patching::kMeasured:
      break;
    case Patching::kSetParams:
      return changed * costs.set;
    case Patching::kTable: {
      if (shape.in_table == 0) break;
      const double inside =
          changed * static_cast<double>(shape.in_table) / launches;
      return (changed - inside) * costs.set +
             std::min(1.0, inside) *
                 (costs.table +
                  static_cast<double>(shape.table_bytes) * costs.table_byte);
    }
    case Patching::kExecUpdate:
      if (!shape.updates) break;
      return changed * costs.stage +
             any * (costs.update + launches * costs.update_node);
  }
  return HUGE_VAL;
}

double DeviceCostOf(Patching patching, const PatchCosts& costs,
                    const PatchShape& shape, double changed) {
  if (patching != Patching::kTable || shape.in_table == 0) return 0;
  const auto in_table = static_cast<double>(shape.in_table);
  const double inside =
      changed * in_table / static_cast<double>(shape.launches);
  return in_table * costs.device_read +
         std::min(1.0, inside) * costs.device_table;
}

double CostOf(Patching patching, const PatchCosts& costs,
              const PatchShape& shape, const PatchUse& use) {
  return ThreadCostOf(patching, costs, shape, use.changed) +
         use.busy * DeviceCostOf(patching, costs, shape, use.changed);
}

bool PatchPolicy::AsksForStream() const {
  return use_.changed != 0 && replays_ % kReplaysALook == 0;
}

void PatchPolicy::SawStream(bool busy) {
  ++looks_;
  Follow(use_.busy, busy ? 1 : 0, looks_);
}

void PatchPolicy::Saw(size_t changed) {
  ++replays_;
  if (changed == 0 && use_.changed == 0) return;
  Follow(use_.changed, static_cast<double>(changed), replays_);
}

std::optional<Patching> PatchPolicy::Better(Patching now,
                                            const PatchCosts& costs,
                                            const PatchShape& shape) {
  const double cost = CostOf(now, costs, shape, use_);
  Patching best = now;
  double least = cost * kGain;
  for (const Patching other : kMechanisms) {
    const double others = CostOf(other, costs, shape, use_);
    if (others >= least) continue;
    least = others;
    best = other;
  }
  if (best == now) {
    lost_ns_ = 0;
    return std::nullopt;
  }
  lost_ns_ += cost - least;
  const double build = static_cast<double>(shape.launches) * costs.build_node;
  if (lost_ns_ < patience_ * build) return std::nullopt;
  lost_ns_ = 0;
  patience_ *= 2;
  return best;
}

std::string PatchPolicy::Explain(Patching patching, const PatchCosts& costs,
                                 const PatchShape& shape, const PatchUse& use) {
  const auto microseconds = [](double ns) {
    std::string text = std::to_string(std::lround(ns / 10));
    while (text.size() < 3) text.insert(0, "0");
    return text.insert(text.size() - 2, ".");
  };
  std::string why = std::to_string(std::lround(use.changed)) + " of " +
                    std::to_string(shape.launches) +
                    " launches change a replay, " +
                    std::to_string(std::lround(100 * use.busy)) +
                    " % of which wait for the device: ";
  std::string others;
  for (const Patching one : kMechanisms) {
    const double thread = ThreadCostOf(one, costs, shape, use.changed);
    if (thread == HUGE_VAL) continue;
    std::string text =
        std::string(ToString(one)) + " " + microseconds(thread) + " us";
    if (const double device = DeviceCostOf(one, costs, shape, use.changed);
        device > 0) {
      text += " and " + microseconds(device) + " us of the device";
    }
    if (one == patching) {
      why += text;
    } else {
      others += ", " + text;
    }
  }
  return why + others;
}

}  // namespace reprise::scheduler
