// What a trace is built into: one or more instances, with what they share.

#ifndef REPRISE_ENGINE_REPLAY_PLAN_H_
#define REPRISE_ENGINE_REPLAY_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/program/effects.h"
#include "engine/program/program.h"
#include "engine/replay/executor.h"
#include "engine/replay/instance.h"
#include "engine/replay/plan_core.h"
#include "engine/trace/trace.h"

namespace reprise::engine {

// A program's instances. The caller chooses one at each head:
//
//   const Plan::Choice choice = plan.Choose();
//   choice.held == 0       nothing that is alive would be written over
//   choice.held > 0        so many outputs would escape if it were taken
//   choice.instance->Resolve(head), Launch... (see Instance)
//
// Owns its instances; the arena of each lives on until its last lease ends.
// Owns what they share (PlanCore). All calls under the session's lock;
// destruction on any thread once idle.
class Plan {
 public:
  // With its first instance.
  Plan(std::shared_ptr<const Program> program, InstanceParts parts);
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  // One more, of the same program.
  void Add(InstanceParts parts);
  // Takes the only instance of a plan of the same program, which is of no use
  // any more.
  void Adopt(Plan& other);
  // Destroys the last or the first instance. It is not the only one, and it is
  // idle.
  void DropLast() { instances_.pop_back(); }
  void DropFirst() { instances_.erase(instances_.begin()); }

  struct Choice {
    size_t index = 0;
    Instance* instance = nullptr;
    // Outputs that are alive in its arena and do not escape yet.
    uint32_t held = 0;
    uint64_t held_bytes = 0;
  };
  // The first instance that holds nothing, else the one that holds least.
  // Cost: an atomic load an instance; one an output where no instance is
  // without a lease.
  Choice Choose() const;

  size_t instances() const { return instances_.size(); }
  Instance& instance(size_t index) { return *instances_[index]; }
  const Instance& instance(size_t index) const { return *instances_[index]; }

  // Other instances are made of it.
  const std::shared_ptr<const Program>& program() const {
    return core_.program();
  }
  const Trace& trace() const { return core_.trace(); }
  const Effects& effects() const { return core_.effects(); }

  // See PlanCore.
  const std::vector<ValueId>& outputs() const { return core_.outputs(); }
  void Escape(ValueId value) { core_.Escape(value); }
  const std::vector<ValueId>& escaping() const { return core_.escaping(); }

 private:
  PlanCore core_;
  std::vector<std::unique_ptr<Instance>> instances_;
};

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_REPLAY_PLAN_H_
