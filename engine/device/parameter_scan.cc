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

// One word of a launch's image in both recordings.
struct Word {
  ImageWord at;
  bool whole;  // the image does not end within it
  uint64_t before;
  uint64_t after;
};

// What is given to Scan, and what it has found so far.
class Scanner {
 public:
  struct Parts {  // all borrowed
    std::span<const Launch> first;
    std::span<const Launch> second;
    std::span<const KnownRange> ranges;
    std::span<const KnownRange> background;
    const std::function<bool(uint64_t)>& is_device_address;
    const std::function<bool(uint64_t)>& may_have_been_address;  // or null
    const std::function<bool(ImageWord)>& is_unwritten;          // or null
  };
  explicit Scanner(const Parts& parts) : parts_(parts) {}

  base::Result<ScanResult> Run() {
    for (size_t i = 0; i < parts_.first.size(); ++i) {
      REPRISE_RETURN_IF_ERROR(ScanLaunch(static_cast<uint32_t>(i)));
    }
    return std::move(result_);
  }

 private:
  base::Status ScanLaunch(uint32_t launch) {
    const Launch& first = parts_.first[launch];
    const Launch& second = parts_.second[launch];
    if (!SameShape(first, second)) {
      return Fail(Code::kFailedPrecondition,
                  "launch " + std::to_string(launch) + " was " +
                      Describe(first) + " in one recording and " +
                      Describe(second) + " in the other");
    }
    for (size_t offset = 0; offset < first.image.size(); offset += kWordBytes) {
      const Word word = {.at = {launch, static_cast<uint32_t>(offset)},
                         .whole = offset + kWordBytes <= first.image.size(),
                         .before = PaddedWord(first, offset),
                         .after = PaddedWord(second, offset)};
      if (word.before == word.after) {
        NoteSame(word);
      } else {
        REPRISE_RETURN_IF_ERROR(NoteChanged(word));
      }
    }
    return {};
  }

  void NoteSame(const Word& word) {
    const uint64_t address = word.before;
    if (address >> 16 == 0) return;
    if (const KnownRange* range = Pinned(parts_.ranges, address)) {
      if (word.whole) result_.pinned.push_back(SiteOf(word, *range));
      return;
    }
    for (const KnownRange& range : parts_.ranges) {
      if (range.first_address == range.second_address &&
          address == range.first_address + range.size_bytes) {
        result_.pinned_ends.push_back(range.id);
      }
    }
    if (Pinned(parts_.background, address) == nullptr &&
        parts_.is_device_address(address)) {
      result_.lasting.push_back(address);
    }
  }

  base::Status NoteChanged(const Word& word) {
    if (word.whole) {
      const Explanation found = ExplainChange(word);
      if (found.shared) {
        return FailAt(
            word,
            ", an address in memory that two of its operands, outputs "
            "or temporaries share");
      }
      if (found.range != nullptr) {
        result_.sites.push_back(SiteOf(word, *found.range));
        return {};
      }
      REPRISE_RETURN_IF_ERROR(CheckIsNoAddress(word));
    }
    result_.unexplained_words.push_back(word.at);
    result_.unexplained.push_back(PlaceOf(word) + ": " + Hex(word.before) +
                                  " became " + Hex(word.after));
    return {};
  }

  // Of the background no two owners are told apart.
  Explanation ExplainChange(const Word& word) const {
    Explanation found = Explain(parts_.ranges, word.before, word.after, false);
    if (found.range == nullptr) {
      found = Explain(parts_.ranges, word.before, word.after, true);
    }
    if (found.range == nullptr) {
      found.range =
          Explain(parts_.background, word.before, word.after, false).range;
    }
    return found;
  }

  // Nothing explains how the word changed.
  base::Status CheckIsNoAddress(const Word& word) {
    const auto is_written = [&] {
      return !(parts_.is_unwritten && parts_.is_unwritten(word.at));
    };
    // A kernel may look whether the pointer is null: a replay would pass the
    // one of the first recording for ever.
    if (word.after == 0 &&
        std::ranges::any_of(
            parts_.ranges,
            [&](const KnownRange& range) { return Has(range, word.before); }) &&
        is_written()) {
      return Fail(Code::kFailedPrecondition,
                  PlaceOf(word) + ": " + Hex(word.before) +
                      ", an address of its operands, outputs or temporaries, "
                      "became null");
    }
    // A library's: it stays as it was for as long as that memory does.
    if (word.after == 0 && Pinned(parts_.background, word.before) == nullptr &&
        parts_.is_device_address(word.before) && is_written()) {
      result_.lasting.push_back(word.before);
    }
    // What is an address in one recording only is left as it was in the first:
    // a kernel that read there would have failed in the other.
    const bool may_be_address =
        parts_.first[word.at.launch].kind != Launch::Kind::kKernel ||
        !IsHalfWritten(parts_.ranges, word.before, word.after);
    if (may_be_address && parts_.is_device_address(word.after) &&
        WasAddress(word.before) && is_written()) {
      return FailAt(word,
                    ", a device address that no operand, output or temporary "
                    "explains" +
                        Nearest(parts_.ranges, word.before, word.after));
    }
    return {};
  }

  bool WasAddress(uint64_t word) const {
    return parts_.may_have_been_address ? parts_.may_have_been_address(word)
                                        : parts_.is_device_address(word);
  }
  static PointerSite SiteOf(const Word& word, const KnownRange& range) {
    return {word.at.launch, word.at.offset_bytes, range.id,
            word.before - range.first_address};
  }
  std::string PlaceOf(const Word& word) const {
    return Place(word.at.launch, parts_.first[word.at.launch],
                 word.at.offset_bytes);
  }
  base::Status FailAt(const Word& word, const std::string& why) const {
    return Fail(Code::kFailedPrecondition, PlaceOf(word) + ": " +
                                               Hex(word.before) + " became " +
                                               Hex(word.after) + why);
  }

  const Parts parts_;
  ScanResult result_;
};

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
  if (first.size() != second.size()) {
    return Fail(Code::kFailedPrecondition,
                "the op made " + std::to_string(first.size()) +
                    " launches in one recording and " +
                    std::to_string(second.size()) + " in the other");
  }
  return Scanner({.first = first,
                  .second = second,
                  .ranges = ranges,
                  .background = background,
                  .is_device_address = is_device_address,
                  .may_have_been_address = may_have_been_address,
                  .is_unwritten = is_unwritten})
      .Run();
}

}  // namespace reprise::device
