// Attributes of launches as callers leave them.

#ifndef REPRISE_TESTS_ENGINE_DEVICE_NOISY_ATTRIBUTE_H_
#define REPRISE_TESTS_ENGINE_DEVICE_NOISY_ATTRIBUTE_H_

#include <cuda.h>

#include <cstring>

namespace reprise::device {

// The unused bytes of the union are noise.
inline CUlaunchAttribute Attribute(CUlaunchAttributeID id, int value,
                                   int noise) {
  CUlaunchAttribute attribute;
  std::memset(&attribute, noise, sizeof attribute);
  attribute.id = id;
  attribute.value.cooperative = value;
  return attribute;
}

}  // namespace reprise::device

#endif  // REPRISE_TESTS_ENGINE_DEVICE_NOISY_ATTRIBUTE_H_
