#include "engine/device/parameter_scan.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstring>

namespace reprise::device {
namespace {

using base::Code;
using base::Fail;

constexpr size_t kWordBytes = 8;

std::string Hex(uint64_t word) {
  char text[2 + 16 + 1];
  std::snprintf(text, sizeof text, "0x%llx",
                static_cast<unsigned long long>(word));
  return text;
}

std::string Place(size_t launch, const Launch& what, size_t offset_bytes) {
  return "launch " + std::to_string(launch) + " (" + Describe(what) +
         "), offset " + std::to_string(offset_bytes);
}

// The range that explains how `first` became `second`: it moved, and both lie
// at one offset of it, strictly inside or (`at_end`) just past its end. The
// smallest, where ranges overlap; the one listed first, where those are equal.
struct Explanation {
  const KnownRange* range = nullptr;  // none
  bool shared = false;                // another owner's does, too
};
Explanation Explain(std::span<const KnownRange> ranges, uint64_t first,
                    uint64_t second, bool at_end) {
  Explanation found;
  const KnownRange*& best = found.range;
  for (const KnownRange& range : ranges) {
    if (range.first_address == range.second_address) continue;
    const uint64_t offset = first - range.first_address;
    if (second - range.second_address != offset) continue;
    if (at_end ? offset != range.size_bytes : offset >= range.size_bytes) {
      continue;
    }
    found.shared |= best != nullptr && range.owner != best->owner;
    if (best == nullptr || range.size_bytes < best->size_bytes) best = &range;
  }
  return found;
}

// A parameter of which nobody wrote one half may look like an address in both
// recordings. It stays in no range then and moved like none, and moved by no
// whole blocks of memory, as what points into one does (halves of what lay on
// the host's heap move by 16 bytes), or the half that was written is the same.
bool IsHalfWritten(std::span<const KnownRange> ranges, uint64_t before,
                   uint64_t after) {
  constexpr uint64_t kBlockBytes = 256;  // the driver's least, and libraries'
  if ((after - before) % kBlockBytes == 0 &&
      static_cast<uint32_t>(before) != static_cast<uint32_t>(after)) {
    return false;
  }
  return std::none_of(
      ranges.begin(), ranges.end(), [=](const KnownRange& range) {
        const uint64_t first = before - range.first_address;
        const uint64_t second = after - range.second_address;
        return std::max(first, second) < range.size_bytes || first == second;
      });
}

// Whether the address lay in the range in the first recording.
bool Has(const KnownRange& range, uint64_t address) {
  return address - range.first_address < range.size_bytes;
}

// The range that was the same in both recordings and has the address; null:
// there is none.
const KnownRange* Pinned(std::span<const KnownRange> ranges, uint64_t address) {
  const auto range = std::ranges::find_if(ranges, [=](const KnownRange& range) {
    return range.first_address == range.second_address && Has(range, address);
  });
  return range == ranges.end() ? nullptr : &*range;
}

// Where the word lay as seen from the nearest range of the first recording.
std::string Nearest(std::span<const KnownRange> ranges, uint64_t first,
                    uint64_t second) {
  const KnownRange* best = nullptr;
  uint64_t best_distance = 0;
  for (const KnownRange& range : ranges) {
    const uint64_t distance = first < range.first_address
                                  ? range.first_address - first
                                  : first - range.first_address;
    if (best == nullptr || distance < best_distance) {
      best = &range;
      best_distance = distance;
    }
  }
  if (best == nullptr) return "";
  const auto offset = [](uint64_t word, uint64_t base) {
    return std::to_string(static_cast<int64_t>(word - base));
  };
  return "; it is nearest to range " + std::to_string(best->id) + " of " +
         std::to_string(best->size_bytes) + " bytes, at " +
         offset(first, best->first_address) + ", then at " +
         offset(second, best->second_address);
}

}  // namespace

uint64_t PaddedWord(const Launch& launch, size_t offset_bytes) {
  uint64_t word = 0;
  std::memcpy(&word, launch.image.data() + offset_bytes,
              std::min(kWordBytes, launch.image.size() - offset_bytes));
  return word;
}

base::Result<ScanResult> Scan(
    std::span<const Launch> first, std::span<const Launch> second,
    std::span<const KnownRange> ranges, std::span<const KnownRange> background,
    const std::function<bool(uint64_t)>& is_device_address,
    const std::function<bool(uint64_t)>& may_have_been_address,
    const std::function<bool(ImageWord)>& is_unwritten) {
  const std::function<bool(uint64_t)>& was_address =
      may_have_been_address ? may_have_been_address : is_device_address;
  if (first.size() != second.size()) {
    return Fail(Code::kFailedPrecondition,
                "the op made " + std::to_string(first.size()) +
                    " launches in one recording and " +
                    std::to_string(second.size()) + " in the other");
  }
  ScanResult result;
  for (size_t i = 0; i < first.size(); ++i) {
    if (!SameShape(first[i], second[i])) {
      return Fail(Code::kFailedPrecondition,
                  "launch " + std::to_string(i) + " was " + Describe(first[i]) +
                      " in one recording and " + Describe(second[i]) +
                      " in the other");
    }
    for (size_t offset = 0; offset < first[i].image.size();
         offset += kWordBytes) {
      const uint64_t before = PaddedWord(first[i], offset);
      const uint64_t after = PaddedWord(second[i], offset);
      if (before == after) {
        if (before >> 16 == 0) continue;
        if (const KnownRange* range = Pinned(ranges, before)) {
          if (offset + kWordBytes > first[i].image.size()) continue;
          result.pinned.push_back({static_cast<uint32_t>(i),
                                   static_cast<uint32_t>(offset), range->id,
                                   before - range->first_address});
          continue;
        }
        for (const KnownRange& range : ranges) {
          if (range.first_address == range.second_address &&
              before == range.first_address + range.size_bytes) {
            result.pinned_ends.push_back(range.id);
          }
        }
        if (Pinned(background, before) == nullptr &&
            is_device_address(before)) {
          result.lasting.push_back(before);
        }
        continue;
      }
      if (offset + kWordBytes <= first[i].image.size()) {
        Explanation found = Explain(ranges, before, after, false);
        if (found.range == nullptr) {
          found = Explain(ranges, before, after, true);
        }
        if (found.shared) {
          return Fail(Code::kFailedPrecondition,
                      Place(i, first[i], offset) + ": " + Hex(before) +
                          " became " + Hex(after) +
                          ", an address in memory that two of its operands, "
                          "outputs or temporaries share");
        }
        if (found.range == nullptr) {
          found = Explain(background, before, after, false);
        }
        if (const KnownRange* const range = found.range; range != nullptr) {
          result.sites.push_back({static_cast<uint32_t>(i),
                                  static_cast<uint32_t>(offset), range->id,
                                  before - range->first_address});
          continue;
        }
        const ImageWord word{static_cast<uint32_t>(i),
                             static_cast<uint32_t>(offset)};
        const auto is_written = [&] {
          return !(is_unwritten && is_unwritten(word));
        };
        const auto has_before = [before](const KnownRange& range) {
          return Has(range, before);
        };
        // A kernel may look whether the pointer is null: a replay would pass
        // the one of the first recording for ever.
        if (after == 0 && std::ranges::any_of(ranges, has_before) &&
            is_written()) {
          return Fail(Code::kFailedPrecondition,
                      Place(i, first[i], offset) + ": " + Hex(before) +
                          ", an address of its operands, outputs or "
                          "temporaries, became null");
        }
        // A library's: it stays as it was for as long as that memory does.
        if (after == 0 && Pinned(background, before) == nullptr &&
            is_device_address(before) && is_written()) {
          result.lasting.push_back(before);
        }
        // What is an address in one recording only is left as it was in the
        // first: a kernel that read there would have failed in the other.
        const bool may_be_address = first[i].kind != Launch::Kind::kKernel ||
                                    !IsHalfWritten(ranges, before, after);
        if (may_be_address && is_device_address(after) && was_address(before) &&
            is_written()) {
          return Fail(Code::kFailedPrecondition,
                      Place(i, first[i], offset) + ": " + Hex(before) +
                          " became " + Hex(after) +
                          ", a device address that no operand, output or "
                          "temporary explains" +
                          Nearest(ranges, before, after));
        }
      }
      result.unexplained_words.push_back(
          {static_cast<uint32_t>(i), static_cast<uint32_t>(offset)});
      result.unexplained.push_back(Place(i, first[i], offset) + ": " +
                                   Hex(before) + " became " + Hex(after));
    }
  }
  return result;
}

}  // namespace reprise::device
