#include "engine/program/explain_parameters.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "engine/device/parameter_scan.h"
#include "engine/program/draw_sites.h"
#include "engine/program/layout.h"
#include "engine/program/scalar_scan.h"

namespace reprise::engine {
namespace {

// A range that the scan is given, and whose place in which value it is.
struct RangeOwner {
  ValueId value;
  uint64_t offset_bytes;
};

class Ranges {
 public:
  void Add(ValueId value, uint64_t offset_bytes, uint64_t first,
           uint64_t second, uint64_t size_bytes) {
    for (const RangeOwner& owner : owners_) {
      if (owner.value == value && owner.offset_bytes == offset_bytes) return;
    }
    ranges_.push_back({static_cast<uint32_t>(owners_.size()), first, second,
                       size_bytes, value});
    owners_.push_back({value, offset_bytes});
  }

  const std::vector<device::KnownRange>& ranges() const { return ranges_; }
  const RangeOwner& owner(uint32_t id) const { return owners_[id]; }

 private:
  std::vector<device::KnownRange> ranges_;
  std::vector<RangeOwner> owners_;
};

// The bytes from an external's origin to where the block of its storage ends,
// and no further: there the next one may begin.
uint64_t ExternalBytes(const Value& value) {
  const uint64_t end = value.origin + value.size_bytes;
  const bool block = value.base % kPlaceAlignment == 0;
  return (block ? PlaceBytes(end) : end) - value.origin;
}

// Marks the ids of ranges that an op has no business with; the rest is a value.
constexpr uint32_t kBackground = uint32_t{1} << 31;

// What op k read, made or took for a while, for the ops after it.
void AddBackground(const Trace& first, const Trace& second, size_t op,
                   ValueId first_temporary,
                   std::vector<device::KnownRange>& background) {
  const auto add = [&](ValueId v) {
    const Value& value = first.values[v];
    background.push_back({kBackground | v, value.origin,
                          second.values[v].origin, value.size_bytes});
  };
  for (ValueId v = 0; v < first.values.size(); ++v) {
    if (first.values[v].birth_op == op) add(v);
  }
  const std::vector<Allocation>& temporaries = first.ops[op].temporaries;
  for (size_t t = 0; t < temporaries.size(); ++t) {
    background.push_back(
        {kBackground | static_cast<ValueId>(first_temporary + t),
         temporaries[t].address, second.ops[op].temporaries[t].address,
         temporaries[t].size_bytes});
  }
}

std::string Place(const Trace& trace, size_t op) {
  return "op " + std::to_string(op) + " (" +
         trace.frontend->OpName(trace.ops[op].op) + ")";
}

base::Status SameResults(const TracedOp& first, const TracedOp& second) {
  bool same = first.results.size() == second.results.size();
  for (size_t r = 0; same && r < first.results.size(); ++r) {
    const ResultSpec& a = first.results[r];
    const ResultSpec& b = second.results[r];
    same = a.kind == b.kind && a.host_hash == b.host_hash &&
           a.tells == b.tells && a.sizes == b.sizes && a.strides == b.strides &&
           a.offset_bytes == b.offset_bytes && a.dtype == b.dtype &&
           a.value == b.value && a.key_set == b.key_set;
  }
  if (same) return {};
  return base::Fail(base::Code::kFailedPrecondition,
                    "its results differ from one recording to the next");
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

// Adds the ranges of `made` to `ranges`: buffers that reuse each other's memory
// as one, which belongs to the result among them and is as large as all of
// them; `place_bytes` learns of it. Fails where there are two results among
// them, or one in the middle: an address would not say which it means.
base::Status AddMade(std::vector<Made> made, Ranges& ranges,
                     std::vector<uint64_t>& place_bytes) {
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
    place_bytes[whole.value] =
        std::max(place_bytes[whole.value], whole.size_bytes);
    ranges.Add(whole.value, 0, whole.first, whole.second,
               PlaceBytes(whole.size_bytes));
  }
  return {};
}

// A result that no word points into may hold anything, as one that the op does
// not write. But where its address stands across two words, launches write it
// where it lay when they were recorded.
base::Status NotAcrossWords(const Trace& first, const Trace& second, size_t op,
                            const device::ScanResult& scan,
                            const Ranges& ranges) {
  for (const ResultSpec& result : first.ops[op].results) {
    if (result.kind != ResultSpec::Kind::kValue) continue;
    const Value& a = first.values[result.value];
    const Value& b = second.values[result.value];
    const auto points_into = [&](const device::PointerSite& site) {
      return (site.id & kBackground) == 0 &&
             ranges.owner(site.id).value == result.value;
    };
    if (a.size_bytes == 0 || std::ranges::any_of(scan.sites, points_into)) {
      continue;
    }
    const std::vector<device::Launch>& launches = first.ops[op].launches;
    for (size_t i = 0; i < launches.size(); ++i) {
      const auto& image = launches[i].image;
      const auto& other = second.ops[op].launches[i].image;
      for (size_t at = 0; at + sizeof(uint64_t) <= image.size(); ++at) {
        uint64_t before = 0;
        uint64_t after = 0;
        std::memcpy(&before, image.data() + at, sizeof(before));
        std::memcpy(&after, other.data() + at, sizeof(after));
        if (before - a.origin < a.size_bytes &&
            after - b.origin == before - a.origin) {
          return base::Fail(base::Code::kFailedPrecondition,
                            "the address of its output stands across two words "
                            "of a launch's parameters");
        }
      }
    }
  }
  return {};
}

// What op k may point into: its operands, its results, its temporaries.
base::Result<Ranges> RangesOf(const Trace& first, const Trace& second,
                              size_t op, ValueId first_temporary,
                              std::vector<uint64_t>& place_bytes) {
  const TracedOp& a = first.ops[op];
  Ranges ranges;
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
  REPRISE_RETURN_IF_ERROR(AddMade(std::move(made), ranges, place_bytes));
  return ranges;
}

using IsAddress = std::function<bool(uint64_t)>;

// Nobody wrote the word if an op of the same words and launches holds something
// there that is no address: a kernel that reads it would have failed. A null
// pointer may be asked for, so it shows nothing.
bool IsUnwritten(const Trace& recording, const TracedOp& op,
                 device::ImageWord word, const IsAddress& may_be_address) {
  return std::ranges::any_of(recording.ops, [&](const TracedOp& other) {
    if (other.hash != op.hash ||
        !std::ranges::equal(other.launches, op.launches, device::SameShape)) {
      return false;
    }
    const uint64_t held =
        device::PaddedWord(other.launches[word.launch], word.offset_bytes);
    return held != 0 && !may_be_address(held);
  });
}

// Words of kernels that differ and are nobody's address, by the rules of Scan.
// What is null in one recording may be a pointer that was left out.
void LearnUnwritten(const TracedOp& first, const TracedOp& second,
                    const device::ScanResult& scan, UnwrittenWords& unwritten) {
  for (const device::ImageWord word : scan.unexplained_words) {
    const device::Launch& launch = first.launches[word.launch];
    if (launch.kind == device::Launch::Kind::kKernel &&
        device::PaddedWord(launch, word.offset_bytes) != 0 &&
        device::PaddedWord(second.launches[word.launch], word.offset_bytes) !=
            0) {
      unwritten.Learn(first, word);
    }
  }
}

}  // namespace

tl::expected<ExplainedProgram, BuildFailure> ExplainParameters(
    const Trace& first, const Trace& second, const IsAddress& is_device_address,
    const IsAddress& may_have_been_address, UnwrittenWords* unwritten) {
  if (first.ops.size() != second.ops.size() ||
      first.values.size() != second.values.size()) {
    return tl::unexpected<BuildFailure>(
        {base::Error(base::Code::kFailedPrecondition,
                     "the recordings differ in their ops"),
         std::nullopt});
  }
  const IsAddress& was_address =
      may_have_been_address ? may_have_been_address : is_device_address;
  const std::vector<SlotSet> changing = ChangingSlots(first, second);
  std::vector<uint32_t> unexplained;
  std::string why;  // of the first one, if more is known
  std::optional<BuildFailure> failure;
  ExplainedProgram explained;
  LaunchProgram& program = explained.program;
  for (const Value& value : first.values) {
    explained.place_bytes.push_back(value.external ? 0 : value.size_bytes);
  }
  std::vector<device::KnownRange> background;
  auto next_value = static_cast<ValueId>(first.values.size());
  for (size_t k = 0; k < first.ops.size(); ++k) {
    const TracedOp& a = first.ops[k];
    const auto fail = [&](const base::Error& error) {
      if (!failure) {
        failure =
            BuildFailure{error.In(Place(first, k)), static_cast<uint32_t>(k)};
      }
      return tl::unexpected<BuildFailure>(*failure);
    };
    if (auto same = SameResults(a, second.ops[k]); !same) {
      return fail(same.error());
    }
    for (const Allocation& temporary : a.temporaries) {
      explained.place_bytes.push_back(temporary.size_bytes);
    }
    auto ranges = RangesOf(first, second, k, next_value, explained.place_bytes);
    if (!ranges) return fail(ranges.error());
    const auto is_unwritten = [&](device::ImageWord word) {
      return a.launches[word.launch].kind == device::Launch::Kind::kKernel &&
             (IsUnwritten(first, a, word, was_address) ||
              IsUnwritten(second, a, word, is_device_address) ||
              (unwritten != nullptr && unwritten->Knows(a, word)));
    };
    const bool draws = a.draws || second.ops[k].draws;
    base::Result<ExplainedDraw> draw;
    if (draws) draw = ExplainDraw(a, second.ops[k]);
    if (!draw) return fail(draw.error());
    auto scan = device::Scan(draws ? draw->first : a.launches,
                             draws ? draw->second : second.ops[k].launches,
                             ranges->ranges(), background, is_device_address,
                             was_address, is_unwritten);
    // A number may ask for other kernels, but makes no address of a word.
    if (!scan && (changing[k].empty() ||
                  std::ranges::equal(a.launches, second.ops[k].launches,
                                     device::SameShape))) {
      (void)fail(scan.error());  // what is behind may still teach something
      scan = device::ScanResult();
    }
    if (scan && !failure) {
      auto apart = NotAcrossWords(first, second, k, *scan, *ranges);
      if (!apart) return fail(apart.error());
    }
    if (scan && unwritten != nullptr && changing[k].empty()) {
      LearnUnwritten(a, second.ops[k], *scan, *unwritten);
    }
    const auto base = static_cast<uint32_t>(program.launches.size());
    if (!changing[k].empty()) {
      NumberPlaces places;
      if (scan) {
        places =
            FindNumbers(a, second.ops[k], changing[k], scan->unexplained_words);
      }
      if (!places.complete) {
        if (!scan && unexplained.empty()) why = ": " + scan.error().message();
        unexplained.push_back(static_cast<uint32_t>(k));
        scan = device::ScanResult();
      }
      for (ScalarSite& site : places.sites) {
        site.op = static_cast<uint32_t>(k);
        site.launch += base;
        program.scalars.push_back(std::move(site));
      }
      for (ScalarCopy& copy : places.copies) {
        copy.op = static_cast<uint32_t>(k);
        program.copies.push_back(copy);
      }
      for (ScalarRounding& rounding : places.roundings) {
        rounding.op = static_cast<uint32_t>(k);
        program.roundings.push_back(rounding);
      }
      scan->unexplained.clear();
    }
    program.op_begin.push_back(base);
    const std::vector<device::Launch>& launches =
        draws ? draw->launches : a.launches;
    program.launches.insert(program.launches.end(), launches.begin(),
                            launches.end());
    for (DrawSite site : draw->sites) {
      site.op = static_cast<uint32_t>(k);
      site.launch += base;
      program.draws.push_back(site);
    }
    const auto add = [&](std::vector<ValueSite>& sites,
                         const device::PointerSite& site) {
      const RangeOwner owner = (site.id & kBackground) != 0
                                   ? RangeOwner{site.id & ~kBackground, 0}
                                   : ranges->owner(site.id);
      sites.push_back({base + site.launch, site.offset_bytes, owner.value,
                       owner.offset_bytes + site.delta_bytes});
    };
    for (const device::PointerSite& site : scan->sites) {
      add(program.sites, site);
    }
    for (const device::PointerSite& site : scan->pinned) {
      add(program.pinned, site);
    }
    for (const uint32_t id : scan->pinned_ends) {
      program.pinned_ends.push_back(ranges->owner(id).value);
    }
    explained.lasting.insert(explained.lasting.end(), scan->lasting.begin(),
                             scan->lasting.end());
    if (!scan->unexplained.empty()) {
      explained.notes.push_back(
          Place(first, k) + ": " + std::to_string(scan->unexplained.size()) +
          " words differ and are no addresses, as unwritten ones do; kept, "
          "first " +
          scan->unexplained.front());
    }
    AddBackground(first, second, k, next_value, background);
    next_value += static_cast<ValueId>(a.temporaries.size());
  }
  if (failure) return tl::unexpected<BuildFailure>(*std::move(failure));
  if (!unexplained.empty()) {
    const uint32_t op = unexplained.front();
    return tl::unexpected<BuildFailure>(
        {base::Error(base::Code::kFailedPrecondition,
                     Place(first, op) +
                         ": nothing tells how its kernels hold a number that "
                         "changes" +
                         why),
         op, std::move(unexplained)});
  }
  program.op_begin.push_back(static_cast<uint32_t>(program.launches.size()));
  program.values = next_value;

  explained.movable.reserve(first.values.size());
  for (size_t v = 0; v < first.values.size(); ++v) {
    explained.movable.push_back(!first.values[v].external ||
                                first.values[v].origin !=
                                    second.values[v].origin);
  }
  return explained;
}

}  // namespace reprise::engine
