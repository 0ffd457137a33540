#include "bindings/native/host_arena.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string>

// AddressSanitizer's, where the program is linked with it: it finds a host
// function that goes beyond its buffer, or uses one that has ended.
extern "C" {
__attribute__((weak, visibility("default"))) void __asan_poison_memory_region(
    const volatile void* begin, size_t bytes);
__attribute__((weak, visibility("default"))) void __asan_unpoison_memory_region(
    const volatile void* begin, size_t bytes);
}

namespace reprise::native {
namespace {

// As the driver aligns; so much lies between two buffers, too.
constexpr uint64_t kAlignment = 256;
// Addresses that are reserved at once. A buffer of a quarter of that is mapped
// by itself, so that the system can say that it has no such memory.
constexpr uint64_t kChunkBytes = uint64_t{4} << 30;
constexpr uint64_t kLargeBytes = kChunkBytes / 4;
constexpr int kUnset = 0xff;

uint64_t RoundUp(uint64_t bytes, uint64_t to) {
  return (bytes + to - 1) / to * to;
}

uint64_t PageBytes() {
  static const auto bytes = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

// 0 if there is none.
uintptr_t Map(uint64_t bytes, int flags) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
  return memory == MAP_FAILED ? 0 : reinterpret_cast<uintptr_t>(memory);
}

void Poison(uintptr_t begin, uint64_t bytes) {
  if (__asan_poison_memory_region == nullptr) return;
  __asan_poison_memory_region(reinterpret_cast<void*>(begin), bytes);
}

void Unpoison(uintptr_t begin, uint64_t bytes) {
  if (__asan_unpoison_memory_region == nullptr) return;
  __asan_unpoison_memory_region(reinterpret_cast<void*>(begin), bytes);
}

tl::unexpected<Error> Refuse(std::string why) {
  return base::Fail(Code::kInvalidArgument, std::move(why));
}

}  // namespace

HostArena& HostArena::Get() {
  static auto* const arena = new HostArena;
  return *arena;
}

uintptr_t HostArena::Take(uint64_t bytes) {
  if (bytes >= kLargeBytes) {
    const uint64_t mapped = RoundUp(bytes, PageBytes());
    const uintptr_t begin = Map(mapped, 0);
    if (begin != 0) chunks_[begin] = {begin + mapped, begin + mapped};
    return begin;
  }
  if (current_ == nullptr || current_->end - current_->next < bytes) {
    uint64_t reserved = kChunkBytes;
    uintptr_t begin = 0;
    while (begin == 0 && reserved >= bytes) {
      begin = Map(reserved, MAP_NORESERVE);
      if (begin == 0) reserved /= 2;
    }
    if (begin == 0) return 0;
    current_ = &(chunks_[begin] = {begin + reserved, begin});
  }
  const uintptr_t begin = current_->next;
  current_->next += bytes;
  return begin;
}

Result<void*> HostArena::Allocate(size_t bytes, const void* owner) {
  constexpr uint64_t kMost = uint64_t{1} << 62;
  uintptr_t begin = 0;
  // Behind the last byte there is always one that is no buffer's.
  const uint64_t taken =
      RoundUp(std::min<uint64_t>(bytes, kMost) + 1, kAlignment) + kAlignment;
  {
    const base::MutexLock lock(mutex_);
    if (bytes < kMost) begin = Take(taken);
    if (begin != 0) blocks_[begin] = {bytes, owner};
  }
  if (begin == 0) {
    return base::Fail(Code::kResourceExhausted,
                      "the host has no " + std::to_string(bytes) + " bytes");
  }
  Unpoison(begin, bytes);
  Poison(begin + RoundUp(bytes, 8), taken - RoundUp(bytes, 8));
  std::memset(reinterpret_cast<void*>(begin), kUnset, bytes);
  return reinterpret_cast<void*>(begin);
}

void HostArena::Free(void* memory) {
  const auto begin = reinterpret_cast<uintptr_t>(memory);
  const base::MutexLock lock(mutex_);
  const auto block = blocks_.find(begin);
  const uintptr_t end = begin + block->second.bytes;
  const auto next = blocks_.erase(block);
  Poison(begin, RoundUp(end - begin, 8));
  // Pages that are no other buffer's, and that no later one will have a part
  // of.
  const auto chunk = std::prev(chunks_.upper_bound(begin));
  uintptr_t low = chunk->first;
  uintptr_t high = chunk->second.next;
  if (next != blocks_.end()) high = std::min(high, next->first);
  if (next != blocks_.begin()) {
    const auto before = std::prev(next);
    low = std::max(low, before->first + before->second.bytes);
  }
  const uintptr_t page = PageBytes();
  low = std::max(RoundUp(low, page), begin / page * page);
  high = std::min(high / page * page, RoundUp(end, page));
  if (low < high) {
    madvise(reinterpret_cast<void*>(low), high - low, MADV_DONTNEED);
  }
}

const HostArena::Chunk* HostArena::ChunkOf(uintptr_t address) const {
  const auto behind = chunks_.upper_bound(address);
  if (behind == chunks_.begin()) return nullptr;
  const Chunk& chunk = std::prev(behind)->second;
  return address < chunk.end ? &chunk : nullptr;
}

bool HostArena::Has(const void* address) const {
  const base::MutexLock lock(mutex_);
  return ChunkOf(reinterpret_cast<uintptr_t>(address)) != nullptr;
}

Status HostArena::Check(const void* memory, uint64_t bytes,
                        const void* owner) const {
  const auto begin = reinterpret_cast<uintptr_t>(memory);
  const base::MutexLock lock(mutex_);
  if (ChunkOf(begin) == nullptr) return {};
  const std::string named =
      bytes > 0 ? std::to_string(bytes) + " bytes" : "a pointer";
  const auto behind = blocks_.upper_bound(begin);
  const auto found =
      behind == blocks_.begin() ? blocks_.end() : std::prev(behind);
  if (found == blocks_.end() || begin > found->first + found->second.bytes) {
    return Refuse(named +
                  " where no buffer is: it has ended, or ends before that; "
                  "keep the Buffer until its work is submitted");
  }
  const Block& block = found->second;
  if (block.owner != owner) {
    return Refuse(named +
                  " of a buffer of another runtime: allocate it with the "
                  "stream's");
  }
  const uint64_t offset = begin - found->first;
  if (bytes > block.bytes - offset) {
    return Refuse(named + " from byte " + std::to_string(offset) +
                  " on of a buffer of " + std::to_string(block.bytes) +
                  " bytes: give a larger one, or name less of it");
  }
  return {};
}

}  // namespace reprise::native
