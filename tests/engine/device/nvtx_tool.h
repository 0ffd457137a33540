// The tests' own NVTX tool, a shared library of its own, as tests see it.

#ifndef REPRISE_TESTS_ENGINE_DEVICE_NVTX_TOOL_H_
#define REPRISE_TESTS_ENGINE_DEVICE_NVTX_TOOL_H_

#include <dlfcn.h>

#include <cstddef>
#include <cstdlib>
#include <string>
#include <vector>

namespace reprise::device {

// From the first use of NVTX in this process on, which must not have been yet.
inline void AttachNvtxTool() {
  setenv("NVTX_INJECTION64_PATH", REPRISE_TEST_NVTX_TOOL, /*overwrite=*/1);
}

struct NvtxRanges {
  std::vector<std::string> ended;  // in this order, since they were taken last
  size_t open = 0;
};
inline NvtxRanges TakeNvtxRanges() {
  void* const tool = dlopen(REPRISE_TEST_NVTX_TOOL, RTLD_NOW);
  if (tool == nullptr) return {{"no tool"}, 0};
  auto* const take = reinterpret_cast<size_t (*)(std::vector<std::string>*)>(
      dlsym(tool, "TakeRanges"));
  NvtxRanges ranges;
  ranges.open = take(&ranges.ended);
  return ranges;
}

}  // namespace reprise::device

#endif  // REPRISE_TESTS_ENGINE_DEVICE_NVTX_TOOL_H_
