#include "engine/replay/plan.h"

#include <utility>

namespace reprise::engine {

Plan::Plan(std::shared_ptr<const Program> program, InstanceParts parts)
    : core_(std::move(program)) {
  Add(std::move(parts));
}

void Plan::Add(InstanceParts parts) {
  instances_.push_back(std::make_unique<Instance>(&core_, std::move(parts)));
}

void Plan::Adopt(Plan& other) {
  instances_.push_back(std::move(other.instances_.back()));
  other.instances_.pop_back();
  instances_.back()->MoveTo(&core_);
}

Plan::Choice Plan::Choose() const {
  for (size_t i = 0; i < instances_.size(); ++i) {
    if (!instances_[i]->leased()) return {i, instances_[i].get(), 0, 0};
  }
  Choice best;
  for (size_t i = 0; i < instances_.size(); ++i) {
    Choice choice{i, instances_[i].get(), 0, 0};
    for (ValueId v : core_.outputs()) {
      if (core_.escapes(v) || !choice.instance->leased(v)) continue;
      ++choice.held;
      choice.held_bytes += program()->place_bytes[v];
    }
    if (choice.held == 0) return choice;
    if (best.instance == nullptr || choice.held < best.held) best = choice;
  }
  return best;
}

}  // namespace reprise::engine
