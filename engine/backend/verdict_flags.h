// Words that comparisons on the device set and the host reads without a stall.

#ifndef REPRISE_ENGINE_BACKEND_VERDICT_FLAGS_H_
#define REPRISE_ENGINE_BACKEND_VERDICT_FLAGS_H_

#include <cuda.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "engine/base/status.h"
#include "engine/device/driver.h"
#include "engine/replay/executor.h"

namespace reprise::engine {

// One word a tag, behind one that nobody looks at: owns four bytes of device
// memory and four of pinned host memory for each, and an event. Clear, Read and
// Touch are enqueued on `stream`; Poll looks at the event. One thread at a
// time.
class VerdictFlags {
 public:
  static base::Result<std::unique_ptr<VerdictFlags>> Create(
      const device::Driver& driver, uint32_t tags);
  ~VerdictFlags();
  VerdictFlags(const VerdictFlags&) = delete;
  VerdictFlags& operator=(const VerdictFlags&) = delete;

  base::Status Clear(CUstream stream);
  base::Status Read(CUstream stream);
  // Writes the first word, so that something was done on the stream.
  base::Status Touch(CUstream stream);
  base::Result<std::optional<Verdict>> Poll(Executor::Patience patience);

  // The tag's word, for a comparison to raise.
  uint64_t address(uint32_t tag) const {
    return device_words_ + (1 + tag) * sizeof(uint32_t);
  }

 private:
  VerdictFlags(const device::Driver& driver, uint32_t tags)
      : driver_(driver), tags_(tags) {}

  uint32_t words() const { return 1 + tags_; }

  const device::Driver& driver_;
  const uint32_t tags_;
  CUdeviceptr device_words_ = 0;
  uint32_t* host_words_ = nullptr;
  CUevent event_ = nullptr;
};

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_BACKEND_VERDICT_FLAGS_H_
