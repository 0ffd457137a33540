// What the instances of one plan share.

#ifndef REPRISE_ENGINE_REPLAY_PLAN_CORE_H_
#define REPRISE_ENGINE_REPLAY_PLAN_CORE_H_

#include <memory>
#include <vector>

#include "engine/program/effects.h"
#include "engine/program/footprint.h"
#include "engine/program/program.h"
#include "engine/trace/trace.h"

namespace reprise::engine {

// A plan's program, which of its values are outputs, and which of these escape.
// An output that one instance has found to escape does so in all of them, for
// as long as the plan lives: the program will keep it next time too.
//
// Owns the program, together with who else asks for it. The plan owns the core,
// which stays in its place while an instance points to it. All calls under the
// session's lock; destruction on any thread once idle.
class PlanCore {
 public:
  explicit PlanCore(std::shared_ptr<const Program> program);
  PlanCore(const PlanCore&) = delete;
  PlanCore& operator=(const PlanCore&) = delete;

  const std::shared_ptr<const Program>& program() const { return program_; }
  const Trace& trace() const { return *program_->trace; }
  const Effects& effects() const { return program_->effects; }
  const Footprint& footprint() const { return footprint_; }
  // Externals of old that the head op does not use.
  const std::vector<ValueId>& others() const { return others_; }
  // Values that the trace makes and that have memory.
  const std::vector<ValueId>& outputs() const { return outputs_; }

  // From the next launch on, `value` is written to fresh memory.
  void Escape(ValueId value);
  bool escapes(ValueId value) const { return escapes_[value]; }
  const std::vector<ValueId>& escaping() const { return escaping_; }

 private:
  const std::shared_ptr<const Program> program_;
  const std::vector<ValueId> outputs_;
  const Footprint footprint_;
  std::vector<ValueId> others_;
  std::vector<bool> escapes_;  // by value
  std::vector<ValueId> escaping_;
};

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_REPLAY_PLAN_CORE_H_
