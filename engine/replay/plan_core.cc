#include "engine/replay/plan_core.h"

#include <utility>

namespace reprise::engine {

PlanCore::PlanCore(std::shared_ptr<const Program> program)
    : program_(std::move(program)),
      outputs_(program_->Outputs()),
      footprint_(trace(), effects(), program_->segments),
      escapes_(trace().values.size(), false) {
  for (ValueId v = 0; v < trace().values.size(); ++v) {
    const Value& value = trace().values[v];
    if (value.external && value.birth_op > 0 && !effects().input(v)) {
      others_.push_back(v);
    }
  }
}

void PlanCore::Escape(ValueId value) {
  if (escapes_[value]) return;
  escapes_[value] = true;
  escaping_.push_back(value);
}

}  // namespace reprise::engine
