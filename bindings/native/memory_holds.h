// Memory that is freed later than the program says.

#ifndef REPRISE_BINDINGS_NATIVE_MEMORY_HOLDS_H_
#define REPRISE_BINDINGS_NATIVE_MEMORY_HOLDS_H_

#include <cstdint>
#include <map>
#include <vector>

#include "engine/base/mutex.h"

namespace reprise::native {

// Who builds a graph in the background begins a hold while the memory that the
// graph names is there; what is freed meanwhile is kept until every hold that
// lived then has ended. Only keeps count: its owner does the freeing.
// Thread-safe.
class MemoryHolds {
 public:
  using Hold = uint64_t;

  Hold Begin() REPRISE_EXCLUDES(mutex_);
  // Gives what nobody holds any more.
  std::vector<void*> End(Hold hold) REPRISE_EXCLUDES(mutex_);
  // True if `memory`, which is being freed, is held: it is given later.
  bool Keep(void* memory) REPRISE_EXCLUDES(mutex_);
  // Gives all that is kept, whoever holds it.
  std::vector<void*> GiveUp() REPRISE_EXCLUDES(mutex_);

 private:
  base::Mutex mutex_;
  Hold begun_ REPRISE_GUARDED_BY(mutex_) = 0;
  // By each hold that lives, what was freed when it was the newest: all of
  // them up to that one hold it.
  std::map<Hold, std::vector<void*>> kept_ REPRISE_GUARDED_BY(mutex_);
};

}  // namespace reprise::native

#endif  // REPRISE_BINDINGS_NATIVE_MEMORY_HOLDS_H_
