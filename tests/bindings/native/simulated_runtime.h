// What tests of batches on the simulated driver have in common.

#ifndef REPRISE_TESTS_BINDINGS_NATIVE_SIMULATED_RUNTIME_H_
#define REPRISE_TESTS_BINDINGS_NATIVE_SIMULATED_RUNTIME_H_

#include <memory>
#include <utility>

#include "bindings/native/device.h"
#include "bindings/native/runtime_core.h"
#include "tests/engine/batch/simulated_kernel.h"

namespace reprise::native {

using engine::CodeOf;

// One that keeps nothing on disk and measures no mechanism.
inline std::shared_ptr<RuntimeCore> RuntimeOn(
    std::unique_ptr<Device> device, Patching patching = Patching::kSetParams,
    const RuntimeCore::Stubs& stubs = {}) {
  return std::make_shared<RuntimeCore>(
      std::move(device), RuntimeOptions{.patching = patching, .cache_dir = ""},
      stubs);
}

}  // namespace reprise::native

#endif  // REPRISE_TESTS_BINDINGS_NATIVE_SIMULATED_RUNTIME_H_
