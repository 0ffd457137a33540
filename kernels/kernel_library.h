// Compiled code in the driver.

#ifndef REPRISE_KERNELS_KERNEL_LIBRARY_H_
#define REPRISE_KERNELS_KERNEL_LIBRARY_H_

#include <cuda.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/device/driver.h"
#include "engine/device/unique_handle.h"

namespace reprise::kernels {

// The kernels of one cubin or PTX. Owns the driver's library, which belongs to
// no context; the driver unloads it once the work that uses it has passed, and
// waits for that. Thread-safe. Every call may wait for the device, so that none
// belongs where a program launches.
class KernelLibrary {
 public:
  // `image` as kernels::CompiledCode has it, free again on return. `context` is
  // where functions are found; it and `driver` must outlive the library. PTX is
  // translated here; what the driver's translator says is in the error.
  static base::Result<std::shared_ptr<KernelLibrary>> Load(
      const device::Driver& driver, CUcontext context,
      std::span<const char> image);
  ~KernelLibrary();
  KernelLibrary(const KernelLibrary&) = delete;
  KernelLibrary& operator=(const KernelLibrary&) = delete;

  // The function of that name in the context, on the device for good, so that
  // no launch has to bring it there. A C++ function may be named as in the
  // source, without its parameters ("space::scale"). kInvalidArgument, naming
  // those that there are, and the templates of `source`, if there is none, or
  // more than one.
  base::Result<CUfunction> Find(const std::string& name,
                                std::string_view source = {}) const;

  // A __device__ or __constant__ variable in the context, by its name in the
  // code or, of a namespace's, in the source ("space::table"). kInvalidArgument
  // if there is none.
  struct Variable {
    CUdeviceptr address = 0;
    size_t size_bytes = 0;
  };
  base::Result<Variable> FindVariable(const std::string& name) const;

 private:
  struct Named {
    CUkernel kernel = nullptr;
    std::string name;  // as people write it
  };

  KernelLibrary(const device::Driver& driver, CUcontext context,
                device::UniqueLibrary library);

  base::Result<CUkernel> FindByItsSourceName(const std::string& name,
                                             std::string_view source) const;
  base::Result<std::vector<Named>> Kernels() const;

  const device::Driver& driver_;
  const CUcontext context_;
  device::UniqueLibrary library_;
};

}  // namespace reprise::kernels

#endif  // REPRISE_KERNELS_KERNEL_LIBRARY_H_
