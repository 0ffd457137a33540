#include "engine/base/options.h"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>
#include <utility>

namespace reprise::base {
namespace {

Status Refuse(const OptionRow& row, std::string_view value) {
  return Fail(Code::kInvalidArgument,
              "option '" + std::string(row.name) + "' does not accept '" +
                  std::string(value) + "': give " + std::string(row.accepted));
}

template <typename Number>
std::optional<Number> ParseNumber(std::string_view text) {
  Number number;
  const char* end = text.data() + text.size();
  const auto [parsed, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || parsed != end) return std::nullopt;
  return number;
}

// "4096", "512MiB", "2GiB".
std::optional<size_t> ParseBytes(std::string_view text) {
  constexpr std::pair<std::string_view, int> kUnits[] = {
      {"KiB", 10}, {"MiB", 20}, {"GiB", 30}};
  int shift = 0;
  for (const auto& [unit, bits] : kUnits) {
    if (text.ends_with(unit)) {
      text.remove_suffix(unit.size());
      shift = bits;
      break;
    }
  }
  const std::optional<size_t> count = ParseNumber<size_t>(text);
  if (!count || *count > (std::numeric_limits<size_t>::max() >> shift)) {
    return std::nullopt;
  }
  return *count << shift;
}

template <size_t Options::*member>
Status SetBytes(Options& options, const OptionRow& row,
                std::string_view value) {
  const std::optional<size_t> bytes = ParseBytes(value);
  if (!bytes) return Refuse(row, value);
  options.*member = *bytes;
  return {};
}

template <double Options::*member>
Status SetShare(Options& options, const OptionRow& row,
                std::string_view value) {
  const std::optional<double> share = ParseNumber<double>(value);
  if (!share || !(*share >= 0 && *share <= 1)) return Refuse(row, value);
  options.*member = *share;
  return {};
}

template <size_t Options::*member, size_t min, size_t max>
Status SetCount(Options& options, const OptionRow& row,
                std::string_view value) {
  const std::optional<size_t> count = ParseNumber<size_t>(value);
  if (!count || *count < min || *count > max) return Refuse(row, value);
  options.*member = *count;
  return {};
}

template <bool Options::*member>
Status SetSwitch(Options& options, const OptionRow& row,
                 std::string_view value) {
  if (value != "0" && value != "1") return Refuse(row, value);
  options.*member = value == "1";
  return {};
}

Status SetPolicy(Options& options, const OptionRow& row,
                 std::string_view value) {
  if (value == "auto") {
    options.policy = Policy::kAuto;
  } else if (value == "measured") {
    options.policy = Policy::kMeasured;
  } else if (value == "always") {
    options.policy = Policy::kAlways;
  } else {
    return Refuse(row, value);
  }
  return {};
}

Status SetBuildDelays(Options& options, const OptionRow& row,
                      std::string_view value) {
  const std::optional<uint64_t> seed = ParseNumber<uint64_t>(value);
  if (!seed) return Refuse(row, value);
  options.build_delays = *seed;
  return {};
}

Status SetLog(Options& options, const OptionRow& row, std::string_view value) {
  constexpr std::pair<std::string_view, LogLevel> kLevels[] = {
      {"off", LogLevel::kOff},         {"error", LogLevel::kError},
      {"warning", LogLevel::kWarning}, {"info", LogLevel::kInfo},
      {"debug", LogLevel::kDebug},
  };
  for (const auto& [name, level] : kLevels) {
    if (value == name) {
      options.log = level;
      return {};
    }
  }
  return Refuse(row, value);
}

constexpr std::string_view kAcceptedBytes =
    "a number of bytes, or of KiB, MiB or GiB (512MiB)";

constexpr OptionRow kTable[] = {
    {"enabled", "REPRISE", "1", "0 or 1",
     "0 switches everything off: enable() then leaves nothing enabled",
     SetSwitch<&Options::enabled>},
    {"policy", "REPRISE_POLICY", "auto", "auto, measured or always",
     "when a plan replaces eager. measured: if it was measured to be faster by "
     "the margin. always: as soon as it is validated. auto: measured on a GPU, "
     "and always on the host executor, which shows correctness and not speed",
     SetPolicy},
    {"margin", "REPRISE_MARGIN", "0.02", "a number from 0 to 1",
     "under the policy measured, the share of eager's time that a replay must "
     "save: of the whole time, or of the host's time if the whole says too "
     "little",
     SetShare<&Options::margin>},
    {"validate_share", "REPRISE_VALIDATE_SHARE", "0.001",
     "a number from 0 to 1",
     "the share of replays that run beside eager and are compared again, bit "
     "for bit",
     SetShare<&Options::validate_share>},
    {"plan_budget_bytes", "REPRISE_PLAN_BUDGET_BYTES", "0", kAcceptedBytes,
     "the memory of all plans together: arenas, graphs and recordings. The "
     "plan that was unused for longest is dropped first. 0: an eighth of the "
     "memory of the first device",
     SetBytes<&Options::plan_budget_bytes>},
    {"trace_budget_bytes", "REPRISE_TRACE_BUDGET_BYTES", "16MiB",
     kAcceptedBytes,
     "the host's memory, for each stream, for traces that have no plan. The "
     "trace that was unseen for longest is forgotten first",
     SetBytes<&Options::trace_budget_bytes>},
    {"max_arena_bytes", "REPRISE_MAX_ARENA_BYTES", "0", kAcceptedBytes,
     "the memory for intermediates of one plan, all its instances together. A "
     "trace that needs more is split. 0: a sixteenth of the memory of the "
     "first device",
     SetBytes<&Options::max_arena_bytes>},
    {"shared_arena_bytes", "REPRISE_SHARED_ARENA_BYTES", "1MiB", kAcceptedBytes,
     "plans of the same operators on other sizes (batches of several lengths) "
     "take turns in one arena if their own arenas would be this large or "
     "larger",
     SetBytes<&Options::shared_arena_bytes>},
    {"max_instances", "REPRISE_MAX_INSTANCES", "2",
     "a whole number from 1 to 16",
     "the copies of one plan, each with its own intermediates, that may be in "
     "use at once. Another copy is built if many outputs of the others are "
     "still alive. If all copies are in use, such outputs are written to "
     "fresh memory",
     SetCount<&Options::max_instances, 1, 16>},
    {"branches", "REPRISE_BRANCHES", "1", "0 or 1",
     "1: independent ops of a plan run side by side on the device, as branches "
     "of its graphs. 0: ops run one after the other. Plans that were built "
     "before stay as they are",
     SetSwitch<&Options::branches>},
    {"max_trace_ops", "REPRISE_MAX_TRACE_OPS", "4096",
     "a whole number from 2 to 65536",
     "the number of ops after which a trace is closed",
     SetCount<&Options::max_trace_ops, 2, 65536>},
    {"log", "REPRISE_LOG", "warning", "off, error, warning, info or debug",
     "what Reprise writes to stderr. warning: failures. info: also each plan "
     "that is built, validated, refused or evicted. debug: also each "
     "recording, "
     "squash and new kind of cut",
     SetLog},
    {"nvtx", "REPRISE_NVTX", "0", "0 or 1",
     "1: tools that show NVTX ranges (Nsight Systems) show recordings, builds, "
     "validations, replays and squashes, in the domain reprise. Costs nothing "
     "if no tool is attached",
     SetSwitch<&Options::nvtx>},
    {"build_delays", "REPRISE_BUILD_DELAYS", "0", "a whole number",
     "for tests of Reprise itself. If it is not 0, work in the background "
     "begins after random delays of up to 10 ms, which follow from this seed",
     SetBuildDelays},
};

}  // namespace

std::span<const OptionRow> OptionTable() { return kTable; }

Options Options::For(size_t memory_bytes) const {
  Options options = *this;
  if (plan_budget_bytes == 0) options.plan_budget_bytes = memory_bytes / 8;
  if (max_arena_bytes == 0) options.max_arena_bytes = memory_bytes / 16;
  return options;
}

Status Options::Set(std::string_view name, std::string_view value) {
  std::string names;
  for (const OptionRow& row : kTable) {
    if (row.name == name) return row.set(*this, row, value);
    names += (names.empty() ? "" : ", ") + std::string(row.name);
  }
  return Fail(Code::kInvalidArgument, "there is no option '" +
                                          std::string(name) +
                                          "': the options are " + names);
}

Result<Options> Options::FromEnvironment() {
  Options options;
  for (const OptionRow& row : kTable) {
    const char* value = std::getenv(std::string(row.variable).c_str());
    if (value == nullptr || *value == '\0') continue;
    if (Status set = row.set(options, row, value); !set) {
      return tl::unexpected<Error>(set.error().In(std::string(row.variable)));
    }
  }
  return options;
}

std::string OptionsDocument() {
  std::string text =
      "# Options\n"
      "\n"
      "<!-- Written from the table in engine/base/options.cc: change it there. "
      "-->\n"
      "\n"
      "Options are arguments of `reprise.enable(name=value)` and "
      "`reprise.session(name=value)`,\n"
      "or variables of the environment. An argument wins over a variable, and "
      "a variable over\n"
      "the default. An unknown option or a bad value raises `ValueError`. A "
      "variable with\n"
      "another name is not read.\n"
      "\n"
      "| option | variable | default | accepted | meaning |\n"
      "|---|---|---|---|---|\n";
  for (const OptionRow& row : kTable) {
    text += "| `" + std::string(row.name) + "` | `" +
            std::string(row.variable) + "` | `" +
            std::string(row.default_value) + "` | " +
            std::string(row.accepted) + " | " + std::string(row.doc) + " |\n";
  }
  return text;
}

}  // namespace reprise::base
