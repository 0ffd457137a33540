// Backward passes that run inside of a callable.

#ifndef REPRISE_BINDINGS_TORCH_REGION_BACKWARD_INSIDE_H_
#define REPRISE_BINDINGS_TORCH_REGION_BACKWARD_INSIDE_H_

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "bindings/torch/base/torch_versions.h"
#include "bindings/torch/region/tape_fault.h"
#include "bindings/torch/region/tape_record.h"

namespace reprise::bindings {

// Which functions of autograd's its engine has run while calls were written
// down, and which of them have let go of what they had saved: those of a pass
// that keeps its graph (retain_graph, create_graph) have not. torch.func
// differentiates by passes of this engine, too, which keep theirs. One thread
// at a time.
class BackwardInside {
 public:
  // From now on, on this thread.
  BackwardInside();

  // Its engine is at work on this thread.
  static bool IsHere();

  // The engine is about to run a function, on this thread.
  void NoteRun();
  // A call is about to be made, of which the engine may be the caller. Refuses
  // passes that no tape of that kind can make again.
  void NoteCall(const TapeRecord& record, TapeFault& fault);
  // There was one.
  bool any() const { return any_; }
  // One of the passes went through a function that was there before, or may
  // have: no replay would see what becomes of that, or of its hooks.
  bool went_outside() const { return went_outside_; }
  // No second pass gets from there to a leaf: on each way there is a function
  // that has run, and has let go of what it had saved. One that saves nothing
  // (a view, a sum) may run as often as the program likes.
  bool HasUsedUp(const NodePtr& history) const;

  // Names of functions that save tensors. Before any recording; thread-safe.
  static void SetSavingFunctions(const std::vector<std::string>& names);

 private:
  using Node = torch::autograd::Node;

  // It was made before. Each thread numbers its own functions.
  bool IsOlder(const Node& function) const;

  bool any_ = false;
  // Kept, for another node may be made where one has been.
  std::unordered_map<const torch::autograd::Node*, NodePtr> freed_;
  bool went_outside_ = false;
  // By thread: the number of the first function that may have been made inside.
  std::unordered_map<uint64_t, uint64_t> starts_;
};

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_REGION_BACKWARD_INSIDE_H_
