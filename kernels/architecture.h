// Names of the architectures that code is made for.

#ifndef REPRISE_KERNELS_ARCHITECTURE_H_
#define REPRISE_KERNELS_ARCHITECTURE_H_

#include <optional>
#include <string>
#include <string_view>

#include "engine/base/status.h"

namespace reprise::kernels {

// The number in "sm_90", "sm_90a" or "compute_90"; nothing if it is not written
// as an architecture.
std::optional<int> ArchitectureNumber(std::string_view architecture);

// kInvalidArgument if it is not written as one.
base::Status CheckArchitecture(const std::string& architecture);

}  // namespace reprise::kernels

#endif  // REPRISE_KERNELS_ARCHITECTURE_H_
