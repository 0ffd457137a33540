#include "engine/program/explain_parameters.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "engine/device/parameter_scan.h"
#include "engine/program/draw_sites.h"
#include "engine/program/op_ranges.h"
#include "engine/program/scalar_scan.h"

namespace reprise::engine {
namespace {

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

// A result that no word points into may hold anything, as one that the op does
// not write. But where its address stands across two words, launches write it
// where it lay when they were recorded.
base::Status NotAcrossWords(const Trace& first, const Trace& second, size_t op,
                            const device::ScanResult& scan,
                            const OpRanges& ranges) {
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

// Explains the ops of two recordings one after the other.
class Explainer {
 public:
  Explainer(const Trace& first, const Trace& second,
            const IsAddress& is_device_address, const IsAddress& was_address,
            UnwrittenWords* unwritten)
      : first_(first),
        second_(second),
        is_device_address_(is_device_address),
        was_address_(was_address),
        unwritten_(unwritten),
        changing_(ChangingSlots(first, second)),
        next_value_(static_cast<ValueId>(first.values.size())) {
    for (const Value& value : first.values) {
      explained_.place_bytes.push_back(value.external ? 0 : value.size_bytes);
    }
  }

  // The next op. False if those behind it need not be looked at: the recordings
  // do not explain each other.
  bool Explain(uint32_t op) {
    const base::Status explained = TryToExplain(op);
    if (!explained) NoteFailure(op, explained.error());
    return explained.has_value();
  }

  // Behind the last op, or one at which Explain was false.
  tl::expected<ExplainedProgram, BuildFailure> Take();

 private:
  // The first one counts.
  void NoteFailure(uint32_t op, const base::Error& error) {
    if (!failure_) failure_ = BuildFailure{error.In(Place(first_, op)), op};
  }
  base::Status TryToExplain(uint32_t op);
  // Compares the launches of both recordings: the op's own, or `draw`'s.
  base::Result<device::ScanResult> ScanOp(uint32_t op, const OpRanges& ranges,
                                          const ExplainedDraw* draw) const;
  // Of an op with numbers that change: finds them in its launches, the first of
  // which is launch `base` of the program. Nothing is left of `scan` where that
  // fails.
  void AddNumbers(uint32_t op, uint32_t base,
                  base::Result<device::ScanResult>& scan);
  void AddSites(uint32_t base, const OpRanges& ranges,
                const device::ScanResult& scan);

  const Trace& first_;
  const Trace& second_;
  const IsAddress& is_device_address_;
  const IsAddress& was_address_;
  UnwrittenWords* unwritten_;  // null: there are none
  const std::vector<SlotSet> changing_;
  ExplainedProgram explained_;
  std::vector<device::KnownRange> background_;
  ValueId next_value_;  // the next op's first temporary
  std::optional<BuildFailure> failure_;
  std::vector<uint32_t> unexplained_;  // ops with numbers that are not found
  std::string why_;                    // of the first one, if more is known
};

base::Result<device::ScanResult> Explainer::ScanOp(
    uint32_t op, const OpRanges& ranges, const ExplainedDraw* draw) const {
  const TracedOp& a = first_.ops[op];
  const TracedOp& b = second_.ops[op];
  const auto is_unwritten = [&](device::ImageWord word) {
    return a.launches[word.launch].kind == device::Launch::Kind::kKernel &&
           (IsUnwritten(first_, a, word, was_address_) ||
            IsUnwritten(second_, a, word, is_device_address_) ||
            (unwritten_ != nullptr && unwritten_->Knows(a, word)));
  };
  return device::Scan(draw != nullptr ? draw->first : a.launches,
                      draw != nullptr ? draw->second : b.launches,
                      ranges.ranges(), background_, is_device_address_,
                      was_address_, is_unwritten);
}

base::Status Explainer::TryToExplain(uint32_t op) {
  const TracedOp& a = first_.ops[op];
  const TracedOp& b = second_.ops[op];
  REPRISE_RETURN_IF_ERROR(SameResults(a, b));
  for (const Allocation& temporary : a.temporaries) {
    explained_.place_bytes.push_back(temporary.size_bytes);
  }
  REPRISE_ASSIGN_OR_RETURN(
      const OpRanges ranges,
      OpRanges::Of(first_, second_, op, next_value_, explained_.place_bytes));
  std::optional<ExplainedDraw> draw;
  if (a.generator.draws || b.generator.draws) {
    REPRISE_ASSIGN_OR_RETURN(draw, ExplainDraw(a, b));
  }
  const bool may_be_numbers = !changing_[op].empty();
  auto scan = ScanOp(op, ranges, draw.has_value() ? &*draw : nullptr);
  // A number may ask for other kernels, but makes no address of a word.
  if (!scan && (!may_be_numbers || std::ranges::equal(a.launches, b.launches,
                                                      device::SameShape))) {
    NoteFailure(op, scan.error());  // what is behind may still teach something
    scan = device::ScanResult();
  }
  if (scan && !failure_) {
    REPRISE_RETURN_IF_ERROR(NotAcrossWords(first_, second_, op, *scan, ranges));
  }
  if (scan && unwritten_ != nullptr && !may_be_numbers) {
    LearnUnwritten(a, b, *scan, *unwritten_);
  }
  LaunchProgram& program = explained_.program;
  const auto base = static_cast<uint32_t>(program.launches.size());
  if (may_be_numbers) AddNumbers(op, base, scan);
  program.op_begin.push_back(base);
  const std::vector<device::Launch>& launches =
      draw.has_value() ? draw->launches : a.launches;
  program.launches.insert(program.launches.end(), launches.begin(),
                          launches.end());
  if (draw.has_value()) {
    for (DrawSite site : draw->sites) {
      site.op = op;
      site.launch += base;
      program.draws.push_back(site);
    }
  }
  AddSites(base, ranges, *scan);
  if (!scan->unexplained.empty()) {
    explained_.notes.push_back(
        Place(first_, op) + ": " + std::to_string(scan->unexplained.size()) +
        " words differ and are no addresses, as unwritten ones do; kept, "
        "first " +
        scan->unexplained.front());
  }
  AddBackground(first_, second_, op, next_value_, background_);
  next_value_ += static_cast<ValueId>(a.temporaries.size());
  return {};
}

void Explainer::AddNumbers(uint32_t op, uint32_t base,
                           base::Result<device::ScanResult>& scan) {
  NumberPlaces places;
  if (scan) {
    places = FindNumbers(first_.ops[op], second_.ops[op], changing_[op],
                         scan->unexplained_words);
  }
  if (!places.complete) {
    if (!scan && unexplained_.empty()) why_ = ": " + scan.error().message();
    unexplained_.push_back(op);
    scan = device::ScanResult();
  }
  LaunchProgram& program = explained_.program;
  for (ScalarSite& site : places.sites) {
    site.op = op;
    site.launch += base;
    program.scalars.push_back(std::move(site));
  }
  for (ScalarCopy& copy : places.copies) {
    copy.op = op;
    program.copies.push_back(copy);
  }
  for (ScalarRounding& rounding : places.roundings) {
    rounding.op = op;
    program.roundings.push_back(rounding);
  }
  scan->unexplained.clear();
}

void Explainer::AddSites(uint32_t base, const OpRanges& ranges,
                         const device::ScanResult& scan) {
  const auto add = [&](std::vector<ValueSite>& sites,
                       const device::PointerSite& site) {
    const OpRanges::Owner owner =
        (site.id & kBackground) != 0
            ? OpRanges::Owner{site.id & ~kBackground, 0}
            : ranges.owner(site.id);
    sites.push_back({base + site.launch, site.offset_bytes, owner.value,
                     owner.offset_bytes + site.delta_bytes});
  };
  LaunchProgram& program = explained_.program;
  for (const device::PointerSite& site : scan.sites) add(program.sites, site);
  for (const device::PointerSite& site : scan.pinned) add(program.pinned, site);
  for (const uint32_t id : scan.pinned_ends) {
    program.pinned_ends.push_back(ranges.owner(id).value);
  }
  explained_.lasting.insert(explained_.lasting.end(), scan.lasting.begin(),
                            scan.lasting.end());
}

tl::expected<ExplainedProgram, BuildFailure> Explainer::Take() {
  if (failure_) return tl::unexpected<BuildFailure>(*std::move(failure_));
  if (!unexplained_.empty()) {
    const uint32_t op = unexplained_.front();
    return tl::unexpected<BuildFailure>(
        {base::Error(base::Code::kFailedPrecondition,
                     Place(first_, op) +
                         ": nothing tells how its kernels hold a number that "
                         "changes" +
                         why_),
         op, std::move(unexplained_)});
  }
  LaunchProgram& program = explained_.program;
  program.op_begin.push_back(static_cast<uint32_t>(program.launches.size()));
  program.values = next_value_;

  explained_.movable.reserve(first_.values.size());
  for (size_t v = 0; v < first_.values.size(); ++v) {
    explained_.movable.push_back(!first_.values[v].external ||
                                 first_.values[v].origin !=
                                     second_.values[v].origin);
  }
  return std::move(explained_);
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
  Explainer explainer(
      first, second, is_device_address,
      may_have_been_address ? may_have_been_address : is_device_address,
      unwritten);
  for (uint32_t op = 0; op < first.ops.size(); ++op) {
    if (!explainer.Explain(op)) break;
  }
  return explainer.Take();
}

}  // namespace reprise::engine
