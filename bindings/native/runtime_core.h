// What the handles of one runtime share.

#ifndef REPRISE_BINDINGS_NATIVE_RUNTIME_CORE_H_
#define REPRISE_BINDINGS_NATIVE_RUNTIME_CORE_H_

#include <memory>
#include <optional>
#include <utility>

#include "bindings/native/device.h"
#include "bindings/native/runtime_options.h"
#include "engine/base/task.h"
#include "engine/batch/compile_service.h"
#include "scheduler/build_queue.h"
#include "scheduler/patch_service.h"
#include "scheduler/stream_tracks.h"
#include "scheduler/timeline.h"

namespace reprise::native {

// The device, the compiler and the thread that builds. Its end waits for what
// is being compiled or built. Thread-safe.
class RuntimeCore {
 public:
  // For tests: what need not be measured, and who does what the queue would
  // (null: the queue), outlives the runtime, and is not waited for: its builds
  // have run or been dropped before the runtime ends.
  struct Stubs {
    std::optional<scheduler::PatchMeasurement> measured = {};
    base::TaskRunner* builds = nullptr;
  };

  RuntimeCore(std::unique_ptr<Device> device, const RuntimeOptions& options,
              const Stubs& stubs)
      : device_(std::move(device)),
        options_(options),
        tracks_(&timeline_, options.nvtx
                                ? scheduler::StreamTracks::Ranges::kShown
                                : scheduler::StreamTracks::Ranges::kHidden),
        compile_service_(*device_, options_.cache_dir),
        builds_(stubs.builds != nullptr ? stubs.builds : &queue_),
        patching_(device_.get(), &compile_service_, builds_, options_.patching,
                  stubs.measured) {}
  RuntimeCore(std::unique_ptr<Device> device, const RuntimeOptions& options)
      : RuntimeCore(std::move(device), options, Stubs()) {}

  Device& device() { return *device_; }
  const std::shared_ptr<Device>& shared_device() const { return device_; }
  const RuntimeOptions& options() const { return options_; }
  scheduler::Timeline& timeline() { return timeline_; }
  scheduler::StreamTracks& tracks() { return tracks_; }
  engine::CompileService& compile_service() { return compile_service_; }
  scheduler::PatchService& patching() { return patching_; }
  scheduler::BuildQueue& queue() { return queue_; }
  // Where work for later is posted.
  base::TaskRunner& builds() { return *builds_; }

 private:
  const std::shared_ptr<Device> device_;  // shared with events
  const RuntimeOptions options_;
  scheduler::Timeline timeline_;
  scheduler::StreamTracks tracks_;
  engine::CompileService compile_service_;
  base::TaskRunner* const builds_;
  scheduler::PatchService patching_;
  scheduler::BuildQueue queue_;  // last: what it runs uses all of these
};

}  // namespace reprise::native

#endif  // REPRISE_BINDINGS_NATIVE_RUNTIME_CORE_H_
