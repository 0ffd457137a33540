// Memory that is freed later than the program says.

#ifndef REPRISE_BINDINGS_NATIVE_MEMORY_HOLDS_H_
#define REPRISE_BINDINGS_NATIVE_MEMORY_HOLDS_H_

#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "engine/base/mutex.h"

namespace reprise::native {

// Who builds a graph in the background begins a hold while the memory that the
// graph names is there. What is freed meanwhile, and is older than the newest
// hold, is kept until every hold that lived then has ended, or until it is
// given up. Only keeps count: its owner does the freeing. Thread-safe.
class MemoryHolds {
 public:
  enum class Hold : uint64_t {};

  Hold Begin() REPRISE_EXCLUDES(mutex_);
  // Of a hold that lives. Gives what nobody holds any more.
  std::vector<void*> End(Hold hold) REPRISE_EXCLUDES(mutex_);
  // `memory` is there from now on.
  void Note(void* memory) REPRISE_EXCLUDES(mutex_);
  // True if `memory`, which is being freed, is held: it is given later.
  bool Keep(void* memory) REPRISE_EXCLUDES(mutex_);
  // Gives all that is kept, whoever holds it.
  std::vector<void*> GiveUp() REPRISE_EXCLUDES(mutex_);

 private:
  base::Mutex mutex_;
  uint64_t begun_ REPRISE_GUARDED_BY(mutex_) = 0;
  // By each hold that lives, what was freed when it was the newest: all of
  // them up to that one hold it.
  std::map<Hold, std::vector<void*>> kept_ REPRISE_GUARDED_BY(mutex_);
  // What was allocated while a hold lived: how many had begun by then.
  std::unordered_map<void*, uint64_t> young_ REPRISE_GUARDED_BY(mutex_);
};

}  // namespace reprise::native

#endif  // REPRISE_BINDINGS_NATIVE_MEMORY_HOLDS_H_
