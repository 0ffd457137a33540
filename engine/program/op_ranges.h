// The memory that an op may point into, as two recordings show it.

#ifndef REPRISE_ENGINE_PROGRAM_OP_RANGES_H_
#define REPRISE_ENGINE_PROGRAM_OP_RANGES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/base/status.h"
#include "engine/device/parameter_scan.h"
#include "engine/trace/trace.h"

namespace reprise::engine {

// Its operands, its results and its temporaries, each as a range of addresses
// in both recordings. Buffers of the op that reuse each other's memory in both
// recordings are one range, because no address tells them apart. Immutable.
class OpRanges {
 public:
  // Temporaries of the op are numbered from `first_temporary` on. `place_bytes`
  // has an entry for each value and each of these temporaries; it grows to the
  // size of the range that belongs to one. kFailedPrecondition where what the
  // op made did not move, had another size each time, or reuses memory so that
  // an address does not say which result it means.
  static base::Result<OpRanges> Of(const Trace& first, const Trace& second,
                                   size_t op, ValueId first_temporary,
                                   std::vector<uint64_t>& place_bytes);

  const std::vector<device::KnownRange>& ranges() const { return ranges_; }
  // The range with that id begins at this offset in this value.
  struct Owner {
    ValueId value;
    uint64_t offset_bytes;
  };
  const Owner& owner(uint32_t id) const { return owners_[id]; }

 private:
  OpRanges() = default;
  void Add(ValueId value, uint64_t offset_bytes, uint64_t first,
           uint64_t second, uint64_t size_bytes);

  std::vector<device::KnownRange> ranges_;
  std::vector<Owner> owners_;  // by id
};

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_PROGRAM_OP_RANGES_H_
