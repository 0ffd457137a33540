// What has to be round all calls of a tape as it was round the first one.

#ifndef REPRISE_BINDINGS_TORCH_REGION_TAPE_SURROUNDINGS_H_
#define REPRISE_BINDINGS_TORCH_REGION_TAPE_SURROUNDINGS_H_

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Stream.h>
#include <c10/util/typeid.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <thread>

#include "bindings/torch/base/autocast_state.h"
#include "bindings/torch/region/tape_record.h"

namespace reprise::bindings {

// Modes and switches of torch under which a callable may make other calls:
// gradients, inference, autocast, what operators read (switches.h). About 200
// ns.
uint64_t ModesWord();

// Nothing on this thread or about these tensors keeps calls from being written
// down, or made, by the dispatcher alone: no mode of Python's that is enabled,
// no transform of functorch's, no wrapped tensor, no tangent.
bool IsOrdinary(std::span<const at::Tensor> tensors);

// Modes of torch's on a thread where calls begin to be written down. A replay
// makes the calls and nothing else, under the modes of its own thread: what
// begins or ends between two of them is lost. Immutable.
class TapeSurroundings {
 public:
  // `pass`: a forward pass has hooks of its own, by which it learns what
  // autograd saves; they are set behind this.
  TapeSurroundings(TapeLevel level, TapePass pass);

  // Why no call can be written down from where the thread is now, behind these;
  // null: it can.
  const char* Difference(std::span<const TapeCall> calls) const;
  // More hooks of saved tensors (`saved_tensors_hooks`, `save_on_cpu`,
  // checkpointing) are set now: who saves a tensor for its gradient meets them.
  bool MoreHooks() const;
  // Those of a forward pass itself are met.
  bool OwnHooks() const;
  // No hooks of saved tensors may be set now (`torch.func`).
  static bool HooksAreDisabled();
  // There were some at the beginning.
  bool had_hooks() const { return hooks_ > 0; }

  // Modes are those of the beginning, but for that of gradients.
  bool ModesAreKept() const;
  // And that one.
  bool AllModesAreKept() const;
  // Calls go to the device and stream that were current at the beginning.
  bool OnItsStream() const;
  // The device's generator has the seed that it had.
  bool SeedIsKept() const;
  // See TapeRecord::modes.
  uint64_t modes() const { return modes_; }

 private:
  const TapeLevel level_;
  const TapePass pass_;
  const uint64_t modes_;
  const bool inference_;
  const bool tangents_;
  const bool grad_mode_;
  const size_t hooks_;  // pairs of them
  const size_t node_hooks_;
  // Threads of backward passes have switches of their own.
  const std::thread::id thread_ = std::this_thread::get_id();
  const uint64_t switches_;
  const caffe2::TypeMeta default_dtype_;
  const AutocastState autocast_;
  c10::Device device_{c10::kCPU};
  std::optional<c10::Stream> stream_;  // nothing, where there is no GPU
  uint64_t seed_ = 0;
};

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_REGION_TAPE_SURROUNDINGS_H_
