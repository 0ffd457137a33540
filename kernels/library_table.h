// Which compiled code is loaded.

#ifndef REPRISE_KERNELS_LIBRARY_TABLE_H_
#define REPRISE_KERNELS_LIBRARY_TABLE_H_

#include <cuda.h>

#include <cstddef>
#include <memory>
#include <span>
#include <unordered_map>

#include "cache/signature.h"
#include "engine/base/mutex.h"
#include "engine/base/status.h"
#include "engine/device/driver.h"
#include "kernels/kernel_library.h"

namespace reprise::kernels {

// Equal code is loaded once, for as long as somebody holds the library.
// Thread-safe; the driver is called under no lock, and whoever asks for what
// another thread is loading waits for it. A failure is told to the one who
// loaded; the next one tries again. Shared by a runtime and kernels that are
// not loaded yet.
class LibraryTable {
 public:
  // Both outlive the table and all libraries.
  LibraryTable(const device::Driver& driver, CUcontext context)
      : driver_(driver), context_(context) {}

  base::Result<std::shared_ptr<KernelLibrary>> Load(std::span<const char> image)
      REPRISE_EXCLUDES(mutex_);

  // Libraries that are loaded.
  size_t size() const REPRISE_EXCLUDES(mutex_);

  const device::Driver& driver() const { return driver_; }
  CUcontext context() const { return context_; }

 private:
  struct Place {
    std::weak_ptr<KernelLibrary> loaded;  // owned by kernels
    bool loading = false;
  };

  const device::Driver& driver_;
  const CUcontext context_;
  mutable base::Mutex mutex_;
  base::CondVar changed_;
  // By their images' hashes.
  std::unordered_map<cache::Signature, Place> places_
      REPRISE_GUARDED_BY(mutex_);
};

}  // namespace reprise::kernels

#endif  // REPRISE_KERNELS_LIBRARY_TABLE_H_
