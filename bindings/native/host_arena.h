// Memory of host runtimes, at addresses that are used once.

#ifndef REPRISE_BINDINGS_NATIVE_HOST_ARENA_H_
#define REPRISE_BINDINGS_NATIVE_HOST_ARENA_H_

#include <cstddef>
#include <cstdint>
#include <map>

#include "bindings/native/common.h"
#include "engine/base/mutex.h"

namespace reprise::native {

// The buffers of all host runtimes of a process. An address is given once and
// never again, so that one that outlives its buffer is known for what it is:
// what is freed gives its pages back and keeps its addresses. New memory has
// all bits set, so that what nobody wrote is no number. Thread-safe.
class HostArena {
 public:
  // Lives as long as the process.
  static HostArena& Get();

  // kResourceExhausted if the host has no such memory. `owner` tells runtimes
  // apart.
  Result<void*> Allocate(size_t bytes, const void* owner)
      REPRISE_EXCLUDES(mutex_);
  void Free(void* memory) REPRISE_EXCLUDES(mutex_);

  // kInvalidArgument, with a sentence, for `bytes` at `begin` that no buffer of
  // `owner` holds. Of 0 bytes the address alone counts, which may be the end of
  // a buffer. What lies outside of the arena is the program's own, and taken as
  // it is.
  Status Check(const void* begin, uint64_t bytes, const void* owner) const
      REPRISE_EXCLUDES(mutex_);
  // The address is, or was, a buffer's.
  bool Has(const void* address) const REPRISE_EXCLUDES(mutex_);

 private:
  struct Block {
    uint64_t bytes;
    const void* owner;
  };
  // Addresses that were reserved at once.
  struct Chunk {
    uintptr_t end;
    uintptr_t next;  // the first that was not given yet
  };
  using Blocks = std::map<uintptr_t, Block>;
  using Chunks = std::map<uintptr_t, Chunk>;

  HostArena() = default;

  const Chunk* ChunkOf(uintptr_t address) const REPRISE_REQUIRES(mutex_);
  // `bytes` that no buffer has had, 0 if the host has none.
  uintptr_t Take(uint64_t bytes) REPRISE_REQUIRES(mutex_);

  mutable base::Mutex mutex_;
  Chunks chunks_ REPRISE_GUARDED_BY(mutex_);             // by their begin
  Chunk* current_ REPRISE_GUARDED_BY(mutex_) = nullptr;  // of small buffers
  Blocks blocks_ REPRISE_GUARDED_BY(mutex_);             // by their begin
};

}  // namespace reprise::native

#endif  // REPRISE_BINDINGS_NATIVE_HOST_ARENA_H_
