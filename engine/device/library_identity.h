// Tells one build of a shared library from another, without loading it.

#ifndef REPRISE_ENGINE_DEVICE_LIBRARY_IDENTITY_H_
#define REPRISE_ENGINE_DEVICE_LIBRARY_IDENTITY_H_

#include <string>

#include "engine/base/status.h"

namespace reprise::device {

// The build id that the linker wrote into the file: equal wherever a copy of it
// lies. Where there is none, the file's real path, size and time of change.
// kUnavailable if `path` is no 64-bit ELF file that can be read. Costs some
// 30 us, whatever the size of the file. Thread-safe.
base::Result<std::string> LibraryIdentity(const std::string& path);

}  // namespace reprise::device

#endif  // REPRISE_ENGINE_DEVICE_LIBRARY_IDENTITY_H_
