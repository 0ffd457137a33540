#include "scheduler/stream_backends.h"

#include "engine/backend/cuda_backend.h"
#include "engine/backend/host_backend.h"

namespace reprise::scheduler {
namespace {

// Running statistics, counters, biases: what is larger waits for the program.
constexpr uint64_t kPrivateBytes = uint64_t{64} << 10;

}  // namespace

base::Result<std::unique_ptr<engine::Backend>> StreamBackends::Make(
    const StreamKey& key, engine::Frontend* frontend,
    base::TaskRunner* builds) {
  if (devices_.is_host()) {
    return std::make_unique<engine::HostBackend>(
        frontend, engine::HostBackend::Options{
                      .max_arena_bytes = options_.max_arena_bytes,
                      .private_bytes = [this] { return PrivateBytes(); }});
  }
  REPRISE_ASSIGN_OR_RETURN(engine::CudaContext context,
                           devices_.ContextFor(key));
  context.builds = builds;
#ifdef REPRISE_MEASURE
  context.skip_launches = &skip_launches_;
#endif
  return std::make_unique<engine::CudaBackend>(
      context, frontend,
      engine::CudaBackend::Options{
          .max_arena_bytes = options_.max_arena_bytes,
          .branches = options_.branches,
          .private_bytes = [this] { return PrivateBytes(); },
          .compare = [this,
                      device =
                          key.device] { return devices_.CompareOf(device); }});
}

uint64_t StreamBackends::PrivateBytes() const {
  return writes_.several() ? 0 : kPrivateBytes;
}

}  // namespace reprise::scheduler
