#include "bindings/native/stream_core.h"

#include <utility>

namespace reprise::native {

StreamCore::StreamCore(std::shared_ptr<RuntimeCore> runtime, CUstream stream,
                       bool owned)
    : runtime_(std::move(runtime)),
      stream_(stream),
      owned_(owned),
      batches_({&runtime_->device(), &runtime_->patching(), &runtime_->builds(),
                stream, runtime_->tracks().Take()},
               {.build_after = runtime_->options().build_after,
                .most_graphs = runtime_->options().plans_per_stream}) {}

StreamCore::~StreamCore() {
  runtime_->tracks().Return(batches_.workshop().track);
  if (owned_) {
    runtime_->device().EndStream(stream_);
  } else if (!runtime_->device().on_host()) {
    runtime_->device().ReleaseStream(stream_);
  }
}

}  // namespace reprise::native
