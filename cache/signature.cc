#include "cache/signature.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace reprise::cache {

std::string Signature::ToHex() const {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text(32, '0');
  for (int i = 0; i < 16; ++i) {
    text[15 - i] = kDigits[(hi >> (4 * i)) & 15];
    text[31 - i] = kDigits[(lo >> (4 * i)) & 15];
  }
  return text;
}

namespace {

uint64_t Fold(uint64_t left, uint64_t right) {
  const XXH128_hash_t product = XXH_mult64to128(left, right);
  return product.low64 ^ product.high64;
}

// A permutation of 128 bits (three Feistel rounds).
Signature Mix(Signature state) {
  state.hi ^= Fold(state.lo, 0x9e3779b97f4a7c15);
  state.lo ^= Fold(state.hi, 0xc2b2ae3d27d4eb4f);
  state.hi ^= Fold(state.lo, 0xff51afd7ed558ccd);
  return state;
}

// Keeps words that are hashed first apart from those that come with them.
constexpr uint64_t kMoreSeed = 0x6f70'6572'616e'6473;

}  // namespace

Signature HashWords(std::span<const uint64_t> words) {
  const XXH128_hash_t hash = XXH3_128bits(words.data(), words.size_bytes());
  return {hash.high64, hash.low64};
}

uint64_t HashBytes(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

SignatureHasher::SignatureHasher() {
  Update(std::span<const uint64_t>(&kSignatureVersion, 1));
}

// The words are hashed by themselves, so that the processor can begin before
// the update before has ended, and only the result goes through the state. With
// equal words, states that differ stay apart; with equal states, so do the
// hashes.
void SignatureHasher::Update(const Signature& hashed,
                             std::span<const uint64_t> more) {
  const XXH128_hash_t rest =
      XXH3_128bits_withSeed(more.data(), more.size_bytes(), kMoreSeed);
  state_ = Mix({state_.hi ^ hashed.hi ^ rest.high64,
                state_.lo ^ hashed.lo ^ rest.low64});
}

}  // namespace reprise::cache
