// CUDA's libraries for tests that run without torch in their process.

#ifndef REPRISE_TESTS_ENGINE_DEVICE_CUDA_LIBRARIES_H_
#define REPRISE_TESTS_ENGINE_DEVICE_CUDA_LIBRARIES_H_

#include <dlfcn.h>

#include <string>

namespace reprise::device {

// Loads NVRTC and CUPTI from the folder that the build found next to CUDA's
// headers, where it still exists, as a program with torch would have done.
// Elsewhere the libraries are left to the search of the code under test.
inline void PreloadCudaLibraries() {
#ifdef REPRISE_TEST_CUDA_LIBRARY_DIR
  for (const char* name :
       {"libnvrtc-builtins.so.13.0", "libnvrtc.so.13", "libcupti.so.13"}) {
    const std::string path =
        std::string(REPRISE_TEST_CUDA_LIBRARY_DIR "/") + name;
    dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  }
#endif
}

}  // namespace reprise::device

#endif  // REPRISE_TESTS_ENGINE_DEVICE_CUDA_LIBRARIES_H_
