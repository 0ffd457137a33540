#include "engine/program/scalar_scan.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

namespace reprise::engine {
namespace {

// The bytes at a place of an image, as a number.
uint64_t BytesAt(const device::Launch& launch, uint32_t offset_bytes,
                 uint32_t width_bytes) {
  uint64_t bytes = 0;
  std::memcpy(&bytes, launch.image.data() + offset_bytes, width_bytes);
  return bytes;
}

// Beside a number some kernels hold its inverse (of floor_divide), which may
// have stayed where the number changed.
struct Inverse {
  Encoding number;
  Encoding inverse;
};
constexpr Inverse kInverses[] = {
    {Encoding::kFloat64, Encoding::kInverseFloat64},
    {Encoding::kFloat32Wide, Encoding::kInverseFloat32Wide},
    {Encoding::kFloat32, Encoding::kInverseFloat32},
    {Encoding::kBFloat16High, Encoding::kInverseBFloat16High},
    {Encoding::kFloat16Wide, Encoding::kInverseFloat16Wide},
    {Encoding::kFloat16, Encoding::kInverseFloat16},
    {Encoding::kBFloat16, Encoding::kInverseBFloat16},
};

// An op's numbers that changed, each one once, and how kernels may hold them.
class ChangedNumbers {
 public:
  ChangedNumbers(const TracedOp& first, const TracedOp& second,
                 const SlotSet& changing) {
    std::map<std::tuple<NumberType, uint64_t, uint64_t>, uint32_t> known;
    for (uint32_t i = 0; i < changing.size(); ++i) {
      if (!changing[i]) continue;
      const Scalar& a = first.slots[i].recorded;
      const Scalar& b = second.slots[i].recorded;
      const auto [number, fresh] =
          known.try_emplace({a.type, a.bits, b.bits}, i);
      if (fresh) {
        numbers_.push_back({i, a.type, a.decides, a.bits, b.bits});
      } else {
        copies_.push_back({0, i, number->second});
      }
    }
  }

  // All that may stand in so many bytes that held `before`, then `after`.
  std::vector<ScalarSource> At(uint32_t width_bytes, uint64_t before,
                               uint64_t after) {
    std::vector<ScalarSource> sources;
    for (const Encoded& found : std::ranges::equal_range(
             EncodedIn(width_bytes), std::pair(before, after), {},
             &Encoded::bits)) {
      sources.push_back(found.source);
    }
    return sources;
  }

  // What must stay for no word to change that is not among `found`: how numbers
  // without a place were encoded, and inverses beside numbers with one. None if
  // a number without one changed by more than a float32 shows, so that whatever
  // holds it has changed.
  std::optional<std::vector<ScalarRounding>> RoundingsBeside(
      std::span<const ScalarSite> found) const {
    std::map<uint32_t, std::set<Encoding>> places;  // by slot
    for (const ScalarSite& site : found) {
      for (const ScalarSource& source : site.sources) {
        places[source.slot].insert(source.encoding);
      }
    }
    std::vector<ScalarRounding> roundings;
    const auto add_if_stayed = [&](const Number& number, Encoding encoding) {
      const ScalarSource source = number.In(encoding);
      const auto encoded = source.Encoded(number.before);
      if (source.Encoded(number.after) != encoded) return false;
      roundings.push_back({0, source, encoded});
      return encoded.has_value();
    };
    for (const Number& number : numbers_) {
      if (const auto place = places.find(number.slot); place != places.end()) {
        for (const auto [direct, inverse] : kInverses) {
          if (place->second.contains(direct)) add_if_stayed(number, inverse);
        }
        continue;
      }
      bool small = false;
      for (const uint32_t width : {8, 4, 2}) {
        for (const Encoding encoding : EncodingsOf(width)) {
          const bool stayed = add_if_stayed(number, encoding);
          small |= stayed && encoding == Encoding::kFloat32;
        }
      }
      if (!small) return std::nullopt;
    }
    return roundings;
  }

  std::vector<ScalarCopy> TakeCopies() { return std::move(copies_); }

 private:
  struct Number {
    uint32_t slot;
    NumberType type;
    Decides decides;
    uint64_t before;
    uint64_t after;

    ScalarSource In(Encoding encoding) const {
      return {slot, type, encoding, decides};
    }
  };
  struct Encoded {
    std::pair<uint64_t, uint64_t> bits;  // before and after
    ScalarSource source;
  };

  // In the order of bits.
  const std::vector<Encoded>& EncodedIn(uint32_t width_bytes) {
    const auto [found, fresh] = encoded_.try_emplace(width_bytes);
    std::vector<Encoded>& encoded = found->second;
    if (!fresh) return encoded;
    for (const Number& number : numbers_) {
      for (const Encoding encoding : EncodingsOf(width_bytes)) {
        const ScalarSource source = number.In(encoding);
        const auto before = source.Encoded(number.before);
        const auto after = source.Encoded(number.after);
        if (!before.has_value() || !after.has_value()) continue;
        encoded.push_back({{*before, *after}, source});
      }
    }
    std::ranges::stable_sort(encoded, {}, &Encoded::bits);
    return encoded;
  }

  std::vector<Number> numbers_;
  std::vector<ScalarCopy> copies_;
  std::map<uint32_t, std::vector<Encoded>> encoded_;  // by width
};

class ScalarScan {
 public:
  ScalarScan(const TracedOp& first, const TracedOp& second,
             const SlotSet& changing)
      : first_(first), second_(second), numbers_(first, second, changing) {}

  NumberPlaces Find(std::span<const device::ImageWord> words) {
    for (const device::ImageWord& word : words) {
      const auto size = static_cast<uint32_t>(std::min<size_t>(
          8, first_.launches[word.launch].image.size() - word.offset_bytes));
      FindInWord(word.launch, word.offset_bytes, size);
    }
    // What the host holds of the results may be made of a number.
    if (std::ranges::any_of(first_.results, [](const ResultSpec& result) {
          return result.kind == ResultSpec::Kind::kHost;
        })) {
      return {};
    }
    if (first_.launches.empty()) return {{}, {}, {}, true};
    auto roundings = numbers_.RoundingsBeside(sites_);
    if (!roundings.has_value()) return {};
    return {std::move(sites_), numbers_.TakeCopies(), *std::move(roundings),
            true};
  }

 private:
  bool Differs(uint32_t launch, uint32_t offset, uint32_t width) const {
    return BytesAt(first_.launches[launch], offset, width) !=
           BytesAt(second_.launches[launch], offset, width);
  }

  // What differs in a half only is sought there first: an int of four bytes
  // beside zeros looks like one of eight.
  void FindInWord(uint32_t launch, uint32_t offset, uint32_t size) {
    const bool whole = size == 8;
    const bool both =
        whole && Differs(launch, offset, 4) && Differs(launch, offset + 4, 4);
    if (both && Add(launch, offset, 8)) return;
    const size_t known = sites_.size();
    for (uint32_t at = 0; at < size; at += 4) {
      FindInHalf(launch, offset + at, std::min(size - at, 4u));
    }
    if (whole && !both && sites_.size() == known) Add(launch, offset, 8);
  }

  void FindInHalf(uint32_t launch, uint32_t offset, uint32_t size) {
    if (!Differs(launch, offset, size)) return;
    if (size == 4 && Add(launch, offset, 4)) return;
    for (uint32_t at = 0; at + 2 <= size; at += 2) {
      if (Differs(launch, offset + at, 2)) Add(launch, offset + at, 2);
    }
  }

  // Adds the place as a site if some number stands there in both recordings.
  bool Add(uint32_t launch, uint32_t offset, uint32_t width) {
    ScalarSite site{0, launch, offset, width, {}};
    site.sources =
        numbers_.At(width, BytesAt(first_.launches[launch], offset, width),
                    BytesAt(second_.launches[launch], offset, width));
    if (site.sources.empty()) return false;
    sites_.push_back(std::move(site));
    return true;
  }

  const TracedOp& first_;
  const TracedOp& second_;
  ChangedNumbers numbers_;
  std::vector<ScalarSite> sites_;
};

}  // namespace

NumberPlaces FindNumbers(const TracedOp& first, const TracedOp& second,
                         const SlotSet& changing,
                         std::span<const device::ImageWord> words) {
  return ScalarScan(first, second, changing).Find(words);
}

bool TellOf(const TracedOp& first, const TracedOp& second,
            std::span<const uint64_t> bits) {
  using Key = std::tuple<NumberType, uint64_t, uint64_t>;
  std::map<Key, uint64_t> copies;
  for (size_t i = 0; i < bits.size(); ++i) {
    const Scalar& a = first.slots[i].recorded;
    const Scalar& b = second.slots[i].recorded;
    const Key key = {a.type, a.bits, b.bits};
    const auto [copy, fresh] = copies.try_emplace(key, bits[i]);
    if (!fresh && copy->second != bits[i]) return false;
    if (!fresh || (a.bits == bits[i] && b.bits == bits[i])) continue;
    const auto in = [&](Encoding encoding) {
      return ScalarSource{static_cast<uint32_t>(i), a.type, encoding,
                          a.decides};
    };
    const ScalarSource rounded = in(Encoding::kFloat32);
    const bool small = rounded.Encoded(a.bits) == rounded.Encoded(b.bits);
    // What an encoding says of both, and of the number that is to be told of.
    std::map<std::tuple<uint32_t, uint64_t, uint64_t>, std::optional<uint64_t>>
        words;
    for (const uint32_t width : {8, 4, 2}) {
      for (const Encoding encoding : EncodingsOf(width)) {
        const ScalarSource source = in(encoding);
        const auto before = source.Encoded(a.bits);
        const auto after = source.Encoded(b.bits);
        if (!before.has_value() || !after.has_value()) continue;
        const auto said = source.Encoded(bits[i]);
        // It changed too little in between to be found.
        if (small && before == after && said != after) return false;
        const auto [word, alone] =
            words.try_emplace({width, *before, *after}, said);
        if (!alone && word->second != said) return false;
      }
    }
  }
  return true;
}

}  // namespace reprise::engine
