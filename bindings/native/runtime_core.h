// What the handles of one runtime share.

#ifndef REPRISE_BINDINGS_NATIVE_RUNTIME_CORE_H_
#define REPRISE_BINDINGS_NATIVE_RUNTIME_CORE_H_

#include <memory>
#include <utility>

#include "bindings/native/compile_service.h"
#include "bindings/native/device.h"
#include "bindings/native/patch_service.h"
#include "bindings/native/runtime.h"
#include "scheduler/build_queue.h"

namespace reprise::native {

// The device, the compiler and the thread that builds. Its end waits for what
// is being compiled or built. Thread-safe.
class RuntimeCore {
 public:
  RuntimeCore(std::unique_ptr<Device> device, const RuntimeOptions& options)
      : device_(std::move(device)),
        options_(options),
        compile_service_(*device_, options_),
        patching_(device_.get(), &compile_service_, &queue_,
                  options_.patching) {}

  Device& device() { return *device_; }
  const std::shared_ptr<Device>& shared_device() const { return device_; }
  const RuntimeOptions& options() const { return options_; }
  CompileService& compile_service() { return compile_service_; }
  PatchService& patching() { return patching_; }
  scheduler::BuildQueue& queue() { return queue_; }

 private:
  const std::shared_ptr<Device> device_;  // shared with events
  const RuntimeOptions options_;
  CompileService compile_service_;
  PatchService patching_;
  scheduler::BuildQueue queue_;  // last: what it runs uses all of these
};

}  // namespace reprise::native

#endif  // REPRISE_BINDINGS_NATIVE_RUNTIME_CORE_H_
