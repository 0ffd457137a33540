// Libraries of CUDA, found at run time wherever this process may have them.

#ifndef REPRISE_ENGINE_DEVICE_SHARED_LIBRARY_H_
#define REPRISE_ENGINE_DEVICE_SHARED_LIBRARY_H_

#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"

namespace reprise::device {

// Opens `soname` (or the file, if it is a path), for ever: the copy that is
// already loaded; else what the loader finds by name; else a file of that name
// beside the CUDA libraries that are loaded, in the wheel folder next to a
// loaded torch, or in the toolkit's usual place. kUnavailable otherwise: with
// the sentence `if_missing` where there is no such file, unless it is empty;
// else with what the loader says of the file. Thread-safe.
base::Result<void*> OpenSharedLibrary(const std::string& soname,
                                      const std::string& if_missing = {});

// The file that a copy of `soname` is, or would be, loaded from, found without
// loading it: the copy that is already loaded; else a file in the folders that
// the loader is told of (the program's run path, LD_LIBRARY_PATH, the system's
// own), or in those of OpenSharedLibrary. Empty if it is in none of them; the
// loader's cache may know more. Open what is found by its path, so that it is
// the same. Thread-safe.
std::string LocateSharedLibrary(const std::string& soname);

// The address of `symbol` in a library that OpenSharedLibrary opened; null if
// it has none.
void* FindSymbol(void* library, const char* symbol);

// Folders that may hold CUDA's libraries, by the files that a process has
// mapped (`maps`: the text of /proc/self/maps). Pure function.
std::vector<std::string> CudaLibraryFolders(std::string_view maps);

}  // namespace reprise::device

#endif  // REPRISE_ENGINE_DEVICE_SHARED_LIBRARY_H_
