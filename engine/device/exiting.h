// Whether the CUDA driver may still be called.

#ifndef REPRISE_ENGINE_DEVICE_EXITING_H_
#define REPRISE_ENGINE_DEVICE_EXITING_H_

namespace reprise::device {

// From the first call on, Exiting() notices the end of the process and a fork.
// Loading the driver calls it; calling it again does nothing. Thread-safe.
void WatchForExit();

// True once the process has begun to exit, and in a forked child: the driver
// may be gone or unusable, so destructors leave their handles to it. One
// relaxed load; thread-safe.
bool Exiting();

}  // namespace reprise::device

#endif  // REPRISE_ENGINE_DEVICE_EXITING_H_
