// Host memory that the device reads and writes by itself, for copies that
// nobody waits for.

#ifndef REPRISE_BINDINGS_NATIVE_STAGING_H_
#define REPRISE_BINDINGS_NATIVE_STAGING_H_

#include <cuda.h>

#include <cstddef>
#include <list>
#include <memory>

#include "bindings/native/common.h"
#include "bindings/native/host_bytes.h"
#include "engine/base/mutex.h"
#include "engine/device/driver.h"
#include "engine/device/unique_handle.h"

namespace reprise::native {

// A piece of pinned memory and the point behind its last use, which has passed
// when it ends. Needs a current context, as its end does. Single-thread.
class PinnedBlock {
 public:
  static Result<std::unique_ptr<PinnedBlock>> Make(const device::Driver& driver,
                                                   size_t size_bytes);
  ~PinnedBlock();
  PinnedBlock(const PinnedBlock&) = delete;
  PinnedBlock& operator=(const PinnedBlock&) = delete;

  // It is in use until the work has passed that `stream` has now.
  Status UsedBy(CUstream stream);
  Result<bool> Passed() const;
  Status Synchronize() const;

  std::byte* memory() const { return memory_; }
  size_t size_bytes() const { return size_bytes_; }

 private:
  PinnedBlock(const device::Driver& driver, size_t size_bytes)
      : driver_(driver), size_bytes_(size_bytes) {}

  const device::Driver& driver_;
  const size_t size_bytes_;
  std::byte* memory_ = nullptr;
  device::UniqueEvent used_;
};

// Copies in stream order through pinned memory, which is kept for the next
// ones. Thread-safe; every call needs `context` to be current, as its end does,
// which what it gave does not outlive.
class Staging {
 public:
  // Copies to the device go in pieces of so many bytes at most.
  static constexpr size_t kPieceBytes = size_t{4} << 20;
  // Kept. Copies to the device wait for earlier ones rather than have more;
  // what the program holds beside counts, but is never waited for.
  static constexpr size_t kKeptBytes = 16 * kPieceBytes;

  Staging(const device::Driver& driver, CUcontext context)
      : driver_(driver), context_(context) {}
  // Waits for what is in flight.
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  // `from` may be used again on return.
  Status CopyIn(CUdeviceptr to, const void* from, size_t bytes,
                CUstream stream);
  Result<std::unique_ptr<HostBytes>> CopyOut(CUdeviceptr from, size_t bytes,
                                             CUstream stream);

  // In blocks, lent ones too.
  size_t held_bytes() const REPRISE_EXCLUDES(mutex_);

 private:
  class Bytes;

  Result<std::unique_ptr<PinnedBlock>> Take(size_t bytes)
      REPRISE_EXCLUDES(mutex_);
  // The oldest that is free, of that size or (0) of any; null if there is none.
  std::unique_ptr<PinnedBlock> TakeOldest(size_t size_bytes)
      REPRISE_EXCLUDES(mutex_);
  // Used again behind its last use; freed, behind that, if enough is kept.
  void GiveBack(std::unique_ptr<PinnedBlock> block) REPRISE_EXCLUDES(mutex_);
  void Free(std::unique_ptr<PinnedBlock> block) REPRISE_EXCLUDES(mutex_);

  const device::Driver& driver_;
  const CUcontext context_;
  mutable base::Mutex mutex_;
  std::list<std::unique_ptr<PinnedBlock>> free_
      REPRISE_GUARDED_BY(mutex_);  // oldest first
  size_t held_bytes_ REPRISE_GUARDED_BY(mutex_) = 0;
};

}  // namespace reprise::native

#endif  // REPRISE_BINDINGS_NATIVE_STAGING_H_
