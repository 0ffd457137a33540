// The copies that an instance has of private values.

#ifndef REPRISE_ENGINE_REPLAY_PRIVATE_COPIES_H_
#define REPRISE_ENGINE_REPLAY_PRIVATE_COPIES_H_

#include <cstdint>
#include <span>
#include <vector>

#include "engine/program/program.h"
#include "engine/replay/binding.h"
#include "kernels/compare.h"

namespace reprise::engine {

// What a pass copies at its beginning from the program's memory, and at its end
// back (Effects::privates).
//
// Borrows the program and the binding. Under the session's lock.
class PrivateCopies {
 public:
  PrivateCopies(const Program* program, const Binding* binding);

  // Of all of them: the program's bytes to the copy.
  std::span<const kernels::RangeCopy> takings() const { return takings_; }
  // Of those that an op before `end_op` writes: the copy's bytes to the
  // program, as far as it still has them.
  std::vector<kernels::RangeCopy> GivingsBefore(uint32_t end_op) const;

 private:
  const Program* program_;
  const Binding* binding_;
  std::vector<kernels::RangeCopy> takings_;
  bool eager_allocates_;  // in mid-pass, for ops that it runs
};

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_REPLAY_PRIVATE_COPIES_H_
