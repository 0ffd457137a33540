#include "kernels/hash_bytes.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace reprise::kernels {

cache::Signature HashBytes(std::span<const char> bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.high64, hash.low64};
}

}  // namespace reprise::kernels
