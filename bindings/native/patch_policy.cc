#include "bindings/native/patch_policy.h"

#include <algorithm>
#include <cmath>

namespace reprise {

const char* ToString(Patching patching) {
  switch (patching) {
    case Patching::kMeasured:
      return "measured";
    case Patching::kSetParams:
      return "SetParams";
    case Patching::kTable:
      return "a table";
    case Patching::kExecUpdate:
      return "ExecUpdate";
  }
  return "?";
}

namespace native {
namespace {

// Of the last replays about so many count.
constexpr double kMemory = 16;
constexpr double kGain = 0.9;
constexpr Patching kMechanisms[] = {Patching::kSetParams, Patching::kTable,
                                    Patching::kExecUpdate};

}  // namespace

double CostOf(Patching patching, const PatchCosts& costs,
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

void PatchPolicy::Saw(size_t changed) {
  ++replays_;
  if (changed == 0 && changed_ == 0) return;
  const double weight = 1.0 / std::min(static_cast<double>(replays_), kMemory);
  changed_ += (static_cast<double>(changed) - changed_) * weight;
}

std::optional<Patching> PatchPolicy::Better(Patching now,
                                            const PatchCosts& costs,
                                            const PatchShape& shape) {
  const double cost = CostOf(now, costs, shape, changed_);
  Patching best = now;
  double least = cost * kGain;
  for (const Patching other : kMechanisms) {
    const double others = CostOf(other, costs, shape, changed_);
    if (others >= least) continue;
    least = others;
    best = other;
  }
  if (best == now) {
    lost_ns_ = 0;
    return std::nullopt;
  }
  lost_ns_ += cost - least;
  if (lost_ns_ < static_cast<double>(shape.launches) * costs.build_node) {
    return std::nullopt;
  }
  lost_ns_ = 0;
  return best;
}

std::string PatchPolicy::Explain(Patching patching, const PatchCosts& costs,
                                 const PatchShape& shape, double changed) {
  const auto microseconds = [](double ns) {
    std::string text = std::to_string(std::lround(ns / 10));
    while (text.size() < 3) text.insert(0, "0");
    return text.insert(text.size() - 2, ".");
  };
  std::string why = std::to_string(std::lround(changed)) + " of " +
                    std::to_string(shape.launches) +
                    " launches change a replay: ";
  std::string others;
  for (const Patching one : kMechanisms) {
    const double cost = CostOf(one, costs, shape, changed);
    if (cost == HUGE_VAL) continue;
    const std::string text =
        std::string(ToString(one)) + " " + microseconds(cost) + " us";
    if (one == patching) {
      why += text;
    } else {
      others += ", " + text;
    }
  }
  return why + others;
}

}  // namespace native
}  // namespace reprise
