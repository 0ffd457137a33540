// What the handles of one stream share.

#ifndef REPRISE_BINDINGS_NATIVE_STREAM_CORE_H_
#define REPRISE_BINDINGS_NATIVE_STREAM_CORE_H_

#include <cuda.h>

#include <memory>

#include "bindings/native/runtime_core.h"
#include "scheduler/batch_stream.h"

namespace reprise::native {

// Thread-safe. Its end waits for the stream's work, or lets go of a stream of
// the program's.
class StreamCore {
 public:
  StreamCore(std::shared_ptr<RuntimeCore> runtime, CUstream stream, bool owned);
  ~StreamCore();
  StreamCore(const StreamCore&) = delete;
  StreamCore& operator=(const StreamCore&) = delete;

  RuntimeCore& runtime() const { return *runtime_; }
  const std::shared_ptr<RuntimeCore>& shared_runtime() const {
    return runtime_;
  }
  CUstream stream() const { return stream_; }
  scheduler::BatchStream& batches() { return batches_; }

 private:
  const std::shared_ptr<RuntimeCore> runtime_;
  const CUstream stream_;
  const bool owned_;
  scheduler::BatchStream batches_;
};

}  // namespace reprise::native

#endif  // REPRISE_BINDINGS_NATIVE_STREAM_CORE_H_
