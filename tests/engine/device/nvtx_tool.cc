// A tool as NVTX loads it: writes down the ranges that begin and end.

#include <nvtx3/nvToolsExt.h>

#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace {

struct Tool {
  std::mutex mutex;
  std::map<nvtxRangeId_t, std::string> open;
  std::vector<std::string> ended;
  nvtxRangeId_t last = 0;
};
Tool& TheTool() {
  static auto* leaked = new Tool;
  return *leaked;
}

nvtxDomainHandle_t DomainCreate(const char* name) {
  static auto* leaked = new std::string(name);
  return reinterpret_cast<nvtxDomainHandle_t>(leaked);
}

nvtxRangeId_t RangeStart(nvtxDomainHandle_t domain,
                         const nvtxEventAttributes_t* attributes) {
  Tool& tool = TheTool();
  const std::lock_guard lock(tool.mutex);
  tool.open[++tool.last] = *reinterpret_cast<const std::string*>(domain) +
                           ": " + attributes->message.ascii;
  return tool.last;
}

void RangeEnd(nvtxDomainHandle_t, nvtxRangeId_t id) {
  Tool& tool = TheTool();
  const std::lock_guard lock(tool.mutex);
  const auto found = tool.open.find(id);
  tool.ended.push_back(found == tool.open.end() ? "never begun"
                                                : found->second);
  if (found != tool.open.end()) tool.open.erase(found);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    NvtxGetExportTableFunc_t get_table) {
  const auto* callbacks = static_cast<const NvtxExportTableCallbacks*>(
      get_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned int size = 0;
  if (callbacks == nullptr || callbacks->GetModuleFunctionTable(
                                  NVTX_CB_MODULE_CORE2, &table, &size) != 1) {
    return 0;
  }
  *table[NVTX_CBID_CORE2_DomainCreateA] =
      reinterpret_cast<NvtxFunctionPointer>(&DomainCreate);
  *table[NVTX_CBID_CORE2_DomainRangeStartEx] =
      reinterpret_cast<NvtxFunctionPointer>(&RangeStart);
  *table[NVTX_CBID_CORE2_DomainRangeEnd] =
      reinterpret_cast<NvtxFunctionPointer>(&RangeEnd);
  return 1;
}

extern "C" __attribute__((visibility("default"))) size_t TakeRanges(
    std::vector<std::string>* ended) {
  Tool& tool = TheTool();
  const std::lock_guard lock(tool.mutex);
  ended->swap(tool.ended);
  tool.ended.clear();
  return tool.open.size();
}
