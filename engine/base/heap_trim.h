// Keeps small blocks that last from keeping large ones that come and go.

#ifndef REPRISE_ENGINE_BASE_HEAP_TRIM_H_
#define REPRISE_ENGINE_BASE_HEAP_TRIM_H_

#include <cstddef>

namespace reprise::base {

// The C library gives freed memory back to the system from the end of its heap
// only, so what was allocated beside blocks that have gone keeps all of them
// resident. Where such blocks are as large as tensors of the host, that is
// much: this has the library give back whole pages within the heap
// (malloc_trim), whenever the process has grown by so much.
//
// One thread at a time for each object. It does nothing on C libraries other
// than glibc, and where another allocator has taken the place of glibc's.
class HeapTrim {
 public:
  // Reads /proc/self/statm; where the process has grown, takes time linear in
  // the heap's free blocks.
  void AfterLastingBlocks();

 private:
  size_t resident_bytes_ = 0;  // behind the last one
};

// Of this process; 0 where the system does not say.
size_t ResidentBytes();

}  // namespace reprise::base

#endif  // REPRISE_ENGINE_BASE_HEAP_TRIM_H_
