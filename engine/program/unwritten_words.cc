#include "engine/program/unwritten_words.h"

#include <array>

#include "cache/signature.h"

namespace reprise::engine {
namespace {

uint64_t KeyOf(const TracedOp& op, device::ImageWord word) {
  const device::Launch& launch = op.launches[word.launch];
  return cache::HashWords(std::array<uint64_t, 4>{
                              op.hash,
                              reinterpret_cast<uint64_t>(launch.function),
                              launch.image.size(),
                              uint64_t{word.launch} << 32 | word.offset_bytes})
      .lo;
}

}  // namespace

void UnwrittenWords::Learn(const TracedOp& op, device::ImageWord word) {
  const uint64_t key = KeyOf(op, word);
  const base::MutexLock lock(mutex_);
  known_.Put(key);
}

bool UnwrittenWords::Knows(const TracedOp& op, device::ImageWord word) {
  const uint64_t key = KeyOf(op, word);
  const base::MutexLock lock(mutex_);
  return known_.Find(key) != nullptr;
}

}  // namespace reprise::engine
