// The 128-bit name of a trace: equal traces have equal signatures.

#ifndef REPRISE_CACHE_SIGNATURE_H_
#define REPRISE_CACHE_SIGNATURE_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace reprise::cache {

// Goes into every signature. Raise it whenever the canonical form of a trace or
// the way of hashing it changes, so that nothing kept on disk is misread.
inline constexpr uint64_t kSignatureVersion = 2;

// A fixed-size value; zero is no trace's signature but by accident.
struct Signature {
  uint64_t hi = 0;
  uint64_t lo = 0;

  auto operator<=>(const Signature&) const = default;

  // 32 lower-case digits, `hi` first.
  std::string ToHex() const;
};

// Names words by themselves. Either half will do for a table that lives as long
// as the process.
Signature HashWords(std::span<const uint64_t> words);

// The same of bytes: what memory holds, to be compared with what it holds
// later.
uint64_t HashBytes(std::span<const std::byte> bytes);

// Rolls a signature along a trace, one Update an op:
//
//   SignatureHasher hasher;
//   for (op : trace) hasher.Update(HashWords(op.words), op.more);
//   Signature signature = hasher.Value();
//
// The order of updates and where one ends and the next begins both count, also
// for empty ones. Value() may be read at any time and ends nothing. Not for
// adversaries: XXH3 is no cryptographic hash. Thread-compatible value; copying
// it forks the trace. Cost: 1 to 2 ns a word.
class SignatureHasher {
 public:
  SignatureHasher();

  // Adds words that are hashed already, and a few more.
  void Update(const Signature& hashed, std::span<const uint64_t> more);
  void Update(std::span<const uint64_t> words) { Update(HashWords(words), {}); }

  const Signature& Value() const { return state_; }

 private:
  Signature state_;
};

}  // namespace reprise::cache

template <>
struct std::hash<reprise::cache::Signature> {
  // The bits are already well mixed: any 64 of them do.
  size_t operator()(const reprise::cache::Signature& signature) const noexcept {
    return static_cast<size_t>(signature.lo);
  }
};

#endif  // REPRISE_CACHE_SIGNATURE_H_
