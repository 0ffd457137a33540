// What the memory of values held when ops were done with it.

#ifndef REPRISE_ENGINE_TRACE_SEEN_BYTES_H_
#define REPRISE_ENGINE_TRACE_SEEN_BYTES_H_

#include <cstdint>
#include <vector>

#include "engine/trace/trace.h"

namespace reprise::engine {

// Memory of the host that changes while no op writes it is written past the
// operators: by the kernel of a composite operator through a pointer, by
// another library, by another thread. A replay, which knows ops alone, would
// read it too early. So the bytes that an op has used are hashed behind it, and
// looked at again before the next op that uses them.
//
// Only memory that an op holds just then is read. Single-thread. Cost: a hash
// of each operand and result before and behind each op, some 10 GB a second.
class SeenBytes {
 public:
  // Of a storage that an op holds.
  struct Place {
    ValueId value = 0;
    uint64_t base = 0;
    uint64_t size_bytes = 0;
    uint64_t begin = 0;  // what the op uses of it, as addresses
    uint64_t end = 0;
  };

  // An op is about to use it: some of it is no longer what it was behind the
  // last op that used it.
  bool Changed(const Place& place) const;
  // An op has written it: what is known of other values there holds no more.
  void Wrote(const Place& place);
  // An op has used it; all that it writes was told (Wrote).
  void Note(const Place& place);

 private:
  // Memory is hashed in blocks of a storage, of which an op may use some.
  static constexpr uint64_t kBlockBytes = uint64_t{1} << 14;
  struct Known {
    uint64_t base = 0;
    uint64_t size_bytes = 0;
    std::vector<uint64_t> hashes;  // a block each; 0: not known
  };

  static uint64_t HashOf(const Known& known, uint64_t block);
  template <typename Visit>
  static void EachBlock(const Known& known, uint64_t begin, uint64_t end,
                        Visit visit);

  std::vector<Known> known_;  // by value
};

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_TRACE_SEEN_BYTES_H_
