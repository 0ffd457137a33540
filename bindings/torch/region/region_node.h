// A call of a region as one node of autograd's graph.

#ifndef REPRISE_BINDINGS_TORCH_REGION_REGION_NODE_H_
#define REPRISE_BINDINGS_TORCH_REGION_REGION_NODE_H_

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "bindings/torch/base/tensor_form.h"
#include "bindings/torch/region/region_variants.h"

namespace reprise::bindings {

// What is known of a result of a forward tape: what its gradient goes to, and
// the tapes that find these. Where several results have histories, one may go
// on to another's. Thread-safe.
//
// The node's backward pass runs the tape for what it is given. Where there is
// none, or the pass is to be differentiated itself, the operator
// reprise::differentiate is called, which Python has.
class RegionHistory : public std::enable_shared_from_this<RegionHistory> {
 public:
  struct Parts {
    int64_t name = 0;    // by which Python knows it
    size_t outputs = 0;  // of the callable; what is saved comes behind them
    size_t tracked = 0;  // whose history this is
    // Of what is saved: all that its backward pass reads; and what those of
    // older histories do, to which it goes on.
    std::vector<size_t> saved;
    std::vector<size_t> of_others;
    // Of each contribution to a gradient, in the order in which the engine is
    // to add them: to which argument's; kLeaf: the next leaf's; kOutputs - i:
    // to that of output i, which has its history already.
    static constexpr int64_t kLeaf = -1;
    static constexpr int64_t kOutputs = -2;
    std::vector<int64_t> targets;
    std::vector<WeakTensor> leaves;
    // Backward passes that a tape was run for are added to it.
    std::shared_ptr<std::atomic<uint64_t>> replayed = {};
  };
  explicit RegionHistory(Parts parts) : parts_(std::move(parts)) {}

  int64_t name() const { return parts_.name; }
  size_t contributions() const { return parts_.targets.size(); }

  size_t outputs() const { return parts_.outputs; }

  // Gives it to its output, of what the tape gave for these arguments.
  void Attach(std::vector<at::Tensor>& outputs,
              std::span<const at::Tensor> arguments);

  // A tape of `variants`, which are the same each time, gives these
  // contributions.
  void Keep(std::shared_ptr<RegionVariants> variants, int64_t tape,
            std::vector<size_t> gives);

  // By contribution, of what was saved and the output's gradient. Nothing: no
  // tape fits.
  std::optional<std::vector<at::Tensor>> Replay(std::vector<at::Tensor> saved,
                                                const at::Tensor& gradient);

 private:
  const Parts parts_;
  std::mutex mutex_;
  // Of backward passes; guarded by mutex_.
  std::shared_ptr<RegionVariants> variants_;
  std::unordered_map<int64_t, std::vector<size_t>> gives_;  // by tape
};

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_REGION_REGION_NODE_H_
