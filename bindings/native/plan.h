// A batch that was prepared: one graph, patched and launched by the caller.

#ifndef REPRISE_BINDINGS_NATIVE_PLAN_H_
#define REPRISE_BINDINGS_NATIVE_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "bindings/native/common.h"
#include "bindings/native/event.h"
#include "engine/batch/param_type.h"
#include "engine/batch/plan_report.h"

namespace reprise {

using engine::PlanReport;

namespace native {
class PreparedPlan;
}

// Made by Batch::Prepare; keeps its stream, kernels and graph alive, not the
// memory that its arguments name. Launches of one plan follow each other.
// Single-thread at a time. Move-only; of one that was moved from all fails.
class Plan {
 public:
  REPRISE_EXPORT explicit Plan(std::unique_ptr<native::PreparedPlan> plan);
  REPRISE_EXPORT Plan(Plan&&) noexcept;
  REPRISE_EXPORT Plan& operator=(Plan&&) noexcept;
  REPRISE_EXPORT ~Plan();

  // From the next launch on, that argument of that launch (as Batch::Launch
  // numbered them; a copy's are its destination and its source, a fill's its
  // destination and the value of an element) has `value`.
  // Types convert as little as bytes do: a number is of the parameter's own
  // type (of integers the size counts), a pointer one that converts to it, and
  // not null. kInvalidArgument where it is not, and where there is no such
  // argument. Of a kernel without a signature sizes are compared.
  // Memory that was annotated must not come to overlap with memory of another
  // launch that it did not overlap with when the plan was made, but where that
  // launch waits anyway. (Launch refuses it on a host runtime.)
  template <typename T>
  Status Set(uint32_t launch, size_t argument, const T& value) {
    static_assert(std::is_trivially_copyable_v<T>,
                  "an argument is a value that is copied as bytes: of a Buffer "
                  "it is its data()");
    return SetBytes(launch, argument, engine::ParamType::Of<T>(), &value);
  }

  // The same for the event of Batch::Wait.
  REPRISE_EXPORT Status SetEvent(uint32_t launch, const Event& event);

  // Enqueues all of it on its stream. Costs a graph launch and what was set.
  REPRISE_EXPORT Status Launch();
  REPRISE_EXPORT PlanReport report() const;

 private:
  Status Check() const;  // it is not moved from
  REPRISE_EXPORT Status SetBytes(uint32_t launch, size_t argument,
                                 const engine::ParamType& type,
                                 const void* value);

  std::unique_ptr<native::PreparedPlan> plan_;
};

}  // namespace reprise

#endif  // REPRISE_BINDINGS_NATIVE_PLAN_H_
