// Backward passes that run inside of a callable.

#ifndef REPRISE_BINDINGS_TORCH_REGION_BACKWARD_INSIDE_H_
#define REPRISE_BINDINGS_TORCH_REGION_BACKWARD_INSIDE_H_

#include <unordered_set>

#include "bindings/torch/base/torch_versions.h"
#include "bindings/torch/region/tape_fault.h"
#include "bindings/torch/region/tape_record.h"

namespace reprise::bindings {

// Which functions of autograd's its engine has run while calls were written
// down. Their histories are used up. One thread at a time.
class BackwardInside {
 public:
  // Its engine is at work on this thread.
  static bool IsHere();

  // A call is about to be made, of which the engine may be the caller. Refuses
  // passes that no tape of that kind can make again.
  void NoteCall(const TapeRecord& record, TapeFault& fault);
  // There was one.
  bool any() const { return any_; }
  // A pass has used its history up.
  bool HasUsedUp(const NodePtr& history) const { return UsedUp(history, 8); }

 private:
  bool UsedUp(const NodePtr& history, int depth) const;

  bool any_ = false;
  // Kept, for another node may be made where one has been.
  std::unordered_set<NodePtr> executed_;
};

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_REGION_BACKWARD_INSIDE_H_
