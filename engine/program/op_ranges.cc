#include "engine/program/op_ranges.h"

#include <algorithm>
#include <string>
#include <utility>

#include "engine/program/layout.h"

namespace reprise::engine {
namespace {

// The bytes from an external's origin to where the block of its storage ends,
// and no further: there the next one may begin.
uint64_t ExternalBytes(const Value& value) {
  const uint64_t end = value.origin + value.size_bytes;
  const bool block = value.base % kPlaceAlignment == 0;
  return (block ? PlaceBytes(end) : end) - value.origin;
}

// Memory that an op allocated, as it lay in both recordings.
struct Made {
  ValueId value;
  bool result;
  uint64_t first;
  uint64_t second;
  uint64_t size_bytes;
};

base::Result<std::vector<Made>> MadeBy(const Trace& first, const Trace& second,
                                       size_t op, ValueId first_temporary) {
  const TracedOp& a = first.ops[op];
  const TracedOp& b = second.ops[op];
  std::vector<Made> made;
  for (const ResultSpec& result : a.results) {
    if (result.kind != ResultSpec::Kind::kValue) continue;
    const Value& va = first.values[result.value];
    const Value& vb = second.values[result.value];
    if (va.size_bytes != vb.size_bytes) {
      return base::Fail(base::Code::kFailedPrecondition,
                        "its output has another size each time");
    }
    if (va.origin == vb.origin && va.size_bytes > 0) {
      return base::Fail(base::Code::kFailedPrecondition,
                        "its output lay at the same address twice");
    }
    made.push_back({result.value, true, va.origin, vb.origin, va.size_bytes});
  }
  if (a.temporaries.size() != b.temporaries.size()) {
    return base::Fail(base::Code::kFailedPrecondition,
                      "it used " + std::to_string(a.temporaries.size()) +
                          " temporary buffers, then " +
                          std::to_string(b.temporaries.size()));
  }
  for (size_t t = 0; t < a.temporaries.size(); ++t) {
    if (a.temporaries[t].address == b.temporaries[t].address) {
      return base::Fail(base::Code::kFailedPrecondition,
                        "a temporary buffer lay at the same address twice");
    }
    if (a.temporaries[t].size_bytes != b.temporaries[t].size_bytes) {
      return base::Fail(base::Code::kFailedPrecondition,
                        "a temporary buffer has another size each time");
    }
    made.push_back({static_cast<ValueId>(first_temporary + t), false,
                    a.temporaries[t].address, b.temporaries[t].address,
                    a.temporaries[t].size_bytes});
  }
  return made;
}

// Both recordings put the two over each other in the same way: one took the
// memory that the other had given back, and no address tells them apart.
bool Reused(const Made& a, const Made& b) {
  return a.first - b.first == a.second - b.second &&
         a.first < b.first + PlaceBytes(b.size_bytes) &&
         b.first < a.first + PlaceBytes(a.size_bytes);
}

// Buffers that reuse each other's memory become one, which belongs to the
// result among them and is as large as all of them. Fails where there are two
// results among them, or one in the middle: an address would not say which it
// means.
base::Result<std::vector<Made>> MergeReused(std::vector<Made> made) {
  std::vector<Made> merged;
  while (!made.empty()) {
    Made whole = made.back();
    made.pop_back();
    uint64_t result_at = whole.first;
    for (size_t i = 0; i < made.size();) {
      if (!Reused(whole, made[i])) {
        ++i;
        continue;
      }
      const Made other = made[i];
      if (whole.result && other.result && whole.value != other.value) {
        return base::Fail(base::Code::kFailedPrecondition,
                          "two of its outputs took the memory of one temporary "
                          "buffer");
      }
      made.erase(made.begin() + static_cast<ptrdiff_t>(i));
      const uint64_t end = std::max(whole.first + whole.size_bytes,
                                    other.first + other.size_bytes);
      if (other.result || (!whole.result && other.first < whole.first)) {
        whole.value = other.value;
        result_at = other.first;
      }
      whole.result |= other.result;
      whole.second = std::min(whole.second, other.second);
      whole.first = std::min(whole.first, other.first);
      whole.size_bytes = end - whole.first;
      i = 0;  // it has grown: look at the others again
    }
    if (result_at != whole.first) {
      return base::Fail(base::Code::kFailedPrecondition,
                        "its output took the middle of a temporary buffer");
    }
    merged.push_back(whole);
  }
  return merged;
}

}  // namespace

void OpRanges::Add(ValueId value, uint64_t offset_bytes, uint64_t first,
                   uint64_t second, uint64_t size_bytes) {
  for (const Owner& owner : owners_) {
    if (owner.value == value && owner.offset_bytes == offset_bytes) return;
  }
  ranges_.push_back({static_cast<uint32_t>(owners_.size()), first, second,
                     size_bytes, value});
  owners_.push_back({value, offset_bytes});
}

base::Result<OpRanges> OpRanges::Of(const Trace& first, const Trace& second,
                                    size_t op, ValueId first_temporary,
                                    std::vector<uint64_t>& place_bytes) {
  const TracedOp& a = first.ops[op];
  OpRanges ranges;
  for (const ValueRef& ref : a.operands) {
    const Value& va = first.values[ref.value];
    const Value& vb = second.values[ref.value];
    if (!va.external) {
      ranges.Add(ref.value, 0, va.origin, vb.origin,
                 PlaceBytes(std::min(va.size_bytes, vb.size_bytes)));
      continue;
    }
    // Known from where its tensor begins, which may be before the origin.
    const uint64_t offset = ref.offset_bytes;
    const auto size = static_cast<int64_t>(
        std::min(ExternalBytes(va), ExternalBytes(vb)) - offset);
    ranges.Add(ref.value, offset, va.origin + offset, vb.origin + offset,
               static_cast<uint64_t>(std::max<int64_t>(size, 0)));
  }
  REPRISE_ASSIGN_OR_RETURN(std::vector<Made> made,
                           MadeBy(first, second, op, first_temporary));
  REPRISE_ASSIGN_OR_RETURN(made, MergeReused(std::move(made)));
  for (const Made& whole : made) {
    place_bytes[whole.value] =
        std::max(place_bytes[whole.value], whole.size_bytes);
    ranges.Add(whole.value, 0, whole.first, whole.second,
               PlaceBytes(whole.size_bytes));
  }
  return ranges;
}

}  // namespace reprise::engine
