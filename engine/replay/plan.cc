#include "engine/replay/plan.h"

#include <utility>

namespace reprise::engine {

Plan::Plan(std::shared_ptr<const Program> program, InstanceParts parts)
    : program_(std::move(program)),
      outputs_(program_->Outputs()),
      escapes_(trace().values.size(), false) {
  for (ValueId v = 0; v < trace().values.size(); ++v) {
    const Value& value = trace().values[v];
    if (value.external && value.birth_op > 0 && !effects().input(v)) {
      others_.push_back(v);
    }
  }
  Add(std::move(parts));
}

void Plan::Add(InstanceParts parts) {
  instances_.push_back(std::make_unique<Instance>(this, std::move(parts)));
}

void Plan::Adopt(Plan& other) {
  instances_.push_back(std::move(other.instances_.back()));
  other.instances_.pop_back();
  instances_.back()->MoveTo(this);
}

Plan::Choice Plan::Choose() const {
  for (size_t i = 0; i < instances_.size(); ++i) {
    if (!instances_[i]->leased()) return {i, instances_[i].get(), 0, 0};
  }
  Choice best;
  for (size_t i = 0; i < instances_.size(); ++i) {
    Choice choice{i, instances_[i].get(), 0, 0};
    for (ValueId v : outputs_) {
      if (escapes_[v] || !choice.instance->leased(v)) continue;
      ++choice.held;
      choice.held_bytes += program_->place_bytes[v];
    }
    if (choice.held == 0) return choice;
    if (best.instance == nullptr || choice.held < best.held) best = choice;
  }
  return best;
}

void Plan::Escape(ValueId value) {
  if (escapes_[value]) return;
  escapes_[value] = true;
  escaping_.push_back(value);
}

}  // namespace reprise::engine
