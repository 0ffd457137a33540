// The only source file that includes NVTX, whose headers bring the code that
// loads a tool.

#include "engine/device/nvtx_range.h"

#include <nvtx3/nvToolsExt.h>

#include "engine/device/exiting.h"

namespace reprise::device {
namespace {

// Null without a tool. Never destroyed: ranges may end until the process has
// gone.
nvtxDomainHandle_t Domain() {
  static const nvtxDomainHandle_t domain = [] {
    WatchForExit();
    return nvtxDomainCreateA("reprise");
  }();
  return domain;
}

}  // namespace

bool NvtxRange::Attached() { return Domain() != nullptr; }

NvtxRange::NvtxRange(const char* name) {
  if (!Attached()) return;
  nvtxEventAttributes_t attributes = {};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = name;
  id_ = nvtxDomainRangeStartEx(Domain(), &attributes);
}

NvtxRange::~NvtxRange() {
  if (id_.has_value() && !Exiting()) nvtxDomainRangeEnd(Domain(), *id_);
}

}  // namespace reprise::device
