// Which events are timed.

#ifndef REPRISE_BINDINGS_NATIVE_TIMING_H_
#define REPRISE_BINDINGS_NATIVE_TIMING_H_

#include <cstdint>

namespace reprise {

// Whether an event keeps the time at which it passed, which costs the device a
// little.
enum class Timing : uint8_t { kNone, kTimed };

}  // namespace reprise

#endif  // REPRISE_BINDINGS_NATIVE_TIMING_H_
