// What each attribute of a kernel launch means for launching it again.

#ifndef REPRISE_ENGINE_DEVICE_LAUNCH_ATTRIBUTE_H_
#define REPRISE_ENGINE_DEVICE_LAUNCH_ATTRIBUTE_H_

#include <cuda.h>

#include <cstddef>
#include <cstdint>

namespace reprise::device {

enum class AttributeUse : uint8_t {
  kRequired,   // changes what the kernel does: must be taken over
  kHint,       // changes its speed: taken over where the driver accepts it
  kOmitted,    // allows overlap or names memory: stricter and safe without it
  kForbidden,  // records an event, or is unknown: such a launch is not repeated
};

AttributeUse UseOf(CUlaunchAttributeID id);

// The same id, and the same in all bytes of the value that it gives a meaning.
bool SameAttribute(const CUlaunchAttribute& a, const CUlaunchAttribute& b);

// `attribute` with all bytes zero that its id gives no meaning.
CUlaunchAttribute Canonical(const CUlaunchAttribute& attribute);

}  // namespace reprise::device

#endif  // REPRISE_ENGINE_DEVICE_LAUNCH_ATTRIBUTE_H_
