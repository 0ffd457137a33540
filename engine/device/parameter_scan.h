// Finds, in recorded parameter bytes, the words that are addresses of values.

#ifndef REPRISE_ENGINE_DEVICE_PARAMETER_SCAN_H_
#define REPRISE_ENGINE_DEVICE_PARAMETER_SCAN_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/device/launch.h"

namespace reprise::device {

// Memory that an op may point into: an operand, an output or a temporary, as it
// lay in each of the two recordings. Thread-compatible value.
struct KnownRange {
  uint32_t id;  // the caller's name for it
  uint64_t first_address;
  uint64_t second_address;
  uint64_t size_bytes;
  // Ranges of one owner are views of the same memory, wherever that lies.
  uint32_t owner = 0;
};

// Eight bytes of a launch's image that hold the address of `id` plus `delta`.
struct PointerSite {
  uint32_t launch;  // index among the op's launches
  uint32_t offset_bytes;
  uint32_t id;
  uint64_t delta_bytes;
  bool operator==(const PointerSite&) const = default;
};

// A word of a launch's image, or what there is of one at its end.
struct ImageWord {
  uint32_t launch;  // index among the op's launches
  uint32_t offset_bytes;
  bool operator==(const ImageWord&) const = default;
};

struct ScanResult {
  std::vector<PointerSite> sites;
  // Words that are the same in both recordings and lie in a range that is: what
  // points there, or looks as if it did.
  std::vector<PointerSite> pinned;
  // Ranges that stayed and at whose end such a word points, in no other one.
  std::vector<uint32_t> pinned_ends;
  // Words that differ between the recordings and are no address in either (and
  // bytes after the last whole word): left as first recorded (uninitialised
  // padding, mostly), named for the report.
  std::vector<std::string> unexplained;
  std::vector<ImageWord> unexplained_words;
  // Device addresses that are the same in both recordings and lie in no range
  // that is: memory of somebody else's, a library's workspace.
  std::vector<uint64_t> lasting;
};

// Compares two recordings of the same op, word by word (8-byte aligned words of
// every image).
//
// A word is a site only if it lies at the same offset of the same range in both
// recordings and the range moved between them; with equal words it is a
// constant (a range that never moved is pinned to its address). Of several
// ranges of one owner that explain a word the smallest counts; where two owners
// do, nobody knows whose it is the next time, and the op is unbuildable as
// below. One past the end of a range counts, if no range explains the word from
// within. A word that differs and is a device address in both recordings by
// `is_device_address`, without such an explanation, makes the op unbuildable:
// kFailedPrecondition naming launch, kernel and offset; but not of a parameter
// of which nobody wrote one half (away from all ranges, and moved by no whole
// blocks of memory or the same in its lower half), nor one that
// `is_unwritten`, if given, says to be. So do launches that
// differ in number or shape, and a word in a range of the op's in the first
// recording that is null in the second, unless `is_unwritten`. Pure function of
// its arguments.
//
// `background` is memory that the op has no business with, made by ops before
// it: parameters hold stale addresses of it (unwritten entries of arrays). Such
// a word is a site as well, after all else failed to explain it: if it is
// stale, nobody reads it, and if it is not, it is right.
//
// `may_have_been_address`, if given, speaks in place of `is_device_address` for
// words of the first recording that differ: what they name may be gone by now.
base::Result<ScanResult> Scan(
    std::span<const Launch> first, std::span<const Launch> second,
    std::span<const KnownRange> ranges, std::span<const KnownRange> background,
    const std::function<bool(uint64_t)>& is_device_address,
    const std::function<bool(uint64_t)>& may_have_been_address = nullptr,
    const std::function<bool(ImageWord)>& is_unwritten = nullptr);

// The word of the image at `offset_bytes`; zeros where the image ends within
// it.
uint64_t PaddedWord(const Launch& launch, size_t offset_bytes);

}  // namespace reprise::device

#endif  // REPRISE_ENGINE_DEVICE_PARAMETER_SCAN_H_
