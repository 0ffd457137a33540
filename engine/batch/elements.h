// How many elements, in words.

#ifndef REPRISE_ENGINE_BATCH_ELEMENTS_H_
#define REPRISE_ENGINE_BATCH_ELEMENTS_H_

#include <cstdint>
#include <string>

namespace reprise::engine {

// For messages: "3 elements of 8 bytes".
inline std::string ElementsOf(uint64_t count, uint64_t element_bytes) {
  return std::to_string(count) + " elements of " +
         std::to_string(element_bytes) + " bytes";
}

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_BATCH_ELEMENTS_H_
