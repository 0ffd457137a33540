// A word that comparisons on the device set and the host reads without a stall.

#ifndef REPRISE_ENGINE_VERDICT_FLAG_H_
#define REPRISE_ENGINE_VERDICT_FLAG_H_

#include <cuda.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "engine/base/status.h"
#include "engine/device/driver.h"
#include "engine/executor.h"

namespace reprise::engine {

// Owns four bytes of device memory, four of pinned host memory and an event.
// Clear and Read are enqueued on `stream`; Poll looks at the event. One thread
// at a time.
class VerdictFlag {
 public:
  static base::Result<std::unique_ptr<VerdictFlag>> Create(
      const device::Driver& driver);
  ~VerdictFlag();
  VerdictFlag(const VerdictFlag&) = delete;
  VerdictFlag& operator=(const VerdictFlag&) = delete;

  base::Status Clear(CUstream stream);
  base::Status Read(CUstream stream);
  base::Result<std::optional<Verdict>> Poll(Executor::Patience patience);

  uint64_t address() const { return device_word_; }

 private:
  explicit VerdictFlag(const device::Driver& driver) : driver_(driver) {}

  const device::Driver& driver_;
  CUdeviceptr device_word_ = 0;
  uint32_t* host_word_ = nullptr;
  CUevent event_ = nullptr;
};

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_VERDICT_FLAG_H_
