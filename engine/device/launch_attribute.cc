#include "engine/device/launch_attribute.h"

#include <cstring>

namespace reprise::device {
namespace {

// How many bytes of the value `id` gives a meaning.
size_t ValueBytes(CUlaunchAttributeID id) {
  using Value = CUlaunchAttributeValue;
  switch (id) {
    case CU_LAUNCH_ATTRIBUTE_IGNORE:
    // An address whose memory may be gone later, and only a hint for the cache.
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
      return 0;
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
      return sizeof(Value::clusterDim);
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
      return sizeof(Value::memSyncDomainMap);
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
    case CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING:
      return sizeof(int);
    default:
      return sizeof(Value);
  }
}

}  // namespace

AttributeUse UseOf(CUlaunchAttributeID id) {
  switch (id) {
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
      return AttributeUse::kRequired;
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
    case CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING:
      return AttributeUse::kHint;
    case CU_LAUNCH_ATTRIBUTE_IGNORE:
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
      return AttributeUse::kOmitted;
    default:
      return AttributeUse::kForbidden;
  }
}

bool SameAttribute(const CUlaunchAttribute& a, const CUlaunchAttribute& b) {
  return a.id == b.id &&
         std::memcmp(a.value.pad, b.value.pad, ValueBytes(a.id)) == 0;
}

CUlaunchAttribute Canonical(const CUlaunchAttribute& attribute) {
  CUlaunchAttribute canonical;
  std::memset(&canonical, 0, sizeof canonical);
  canonical.id = attribute.id;
  std::memcpy(&canonical.value, &attribute.value, ValueBytes(attribute.id));
  return canonical;
}

}  // namespace reprise::device
