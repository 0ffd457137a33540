#include "engine/base/heap_trim.h"

#include <dlfcn.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

namespace reprise::base {
namespace {

constexpr size_t kGrowth = size_t{32} << 20;
// Of processes that are large already: it grows by this share.
constexpr size_t kShare = 16;

// Whether blocks come from the C library's own heap. Where another allocator
// has taken its place (jemalloc, tcmalloc, a sanitizer's), the library's heap
// is set up by the first call that asks for it, and glibc does that without a
// lock: two threads that trim at once would spoil it.
bool HeapIsTheLibrarys() {
#ifdef __GLIBC__
  static const bool is_the_librarys =
      dlsym(RTLD_DEFAULT, "malloc") == dlsym(RTLD_DEFAULT, "__libc_malloc");
  return is_the_librarys;
#else
  return false;
#endif
}

}  // namespace

size_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  size_t pages = 0;
  size_t resident_pages = 0;
  if (!(statm >> pages >> resident_pages)) return 0;
  return resident_pages * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

void HeapTrim::AfterLastingBlocks() {
  if (!HeapIsTheLibrarys()) return;
  const size_t allowed = std::max(kGrowth, resident_bytes_ / kShare);
  const size_t now = ResidentBytes();
  if (now < resident_bytes_ + allowed) {
    resident_bytes_ = std::min(resident_bytes_, now);
    return;
  }
#ifdef __GLIBC__
  malloc_trim(0);
#endif
  resident_bytes_ = ResidentBytes();
}

}  // namespace reprise::base
