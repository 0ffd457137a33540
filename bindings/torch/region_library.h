// What regions are to Python.

#ifndef REPRISE_BINDINGS_TORCH_REGION_LIBRARY_H_
#define REPRISE_BINDINGS_TORCH_REGION_LIBRARY_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "bindings/torch/region/region_node.h"
#include "bindings/torch/region/region_variants.h"

namespace reprise::bindings {

// The region of that name; null: there is none.
std::shared_ptr<RegionVariants> FindRegion(int64_t name);

// A call of a region (null: nothing is done), whose callable leads to objects
// that the watch of that name watches (0: to none), and whose arguments to
// those of the other one. RegionVariants::Step, or kLook, kLookGiven: one may
// have changed; kInactive: nothing is enabled, and could be; kForked: nothing
// may run in this process. Raises what an operator raises.
struct RegionCall {
  static constexpr int64_t kLook = 3;
  static constexpr int64_t kInactive = 5;
  static constexpr int64_t kLookGiven = 6;
  static constexpr int64_t kForked = 8;
  int64_t step = static_cast<int64_t>(RegionVariants::Step::kPlain);
  int64_t tape = 0;
  std::vector<at::Tensor> outputs = {};
  // Yet to be attached to them, with Python's lock, which torch takes for each
  // reference to a tensor that only Python holds.
  std::vector<std::shared_ptr<RegionHistory>> histories = {};
};
// `held`: see RegionVariants::Run.
RegionCall RunRegion(RegionVariants* region, int64_t watch, int64_t given_watch,
                     const TapeInputs& inputs, const Tape* held);

// The address of a function `PyObject* ()`, to be called under Python's lock,
// that makes a tuple of functions of Python's:
//
//   run_region(region: int, watch: int, tensors: list, numbers: list[float],
//              given_watch: int) -> (step, tape, outputs)
//   are_these(objects: tuple, places: int, ids: int, count: int) -> int
//     1: the objects at these places are those of these ids; both are addresses
//     of so many int64_t
//
// Operators of torch's would do the same, but take 1.5 us to be called. 0:
// Python, or torch's part for it, has not all that this takes.
int64_t RegionFunctions();

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_REGION_LIBRARY_H_
