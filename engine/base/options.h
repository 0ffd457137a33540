// Every option of Reprise, and the one table that names them.

#ifndef REPRISE_ENGINE_BASE_OPTIONS_H_
#define REPRISE_ENGINE_BASE_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "engine/base/log.h"
#include "engine/base/status.h"

namespace reprise::base {

// When a plan replaces eager.
enum class Policy : uint8_t {
  kAuto,      // kMeasured on a GPU, kAlways on the host executor
  kMeasured,  // where measured replay beats measured eager by the margin
  kAlways,    // wherever a validated plan is ready
};

// Thread-compatible value. The members' meaning is that of the table's rows.
struct Options {
  bool enabled = true;
  Policy policy = Policy::kAuto;
  double margin = 0.02;
  double validate_share = 0.001;
  size_t plan_budget_bytes = 0;  // see For
  size_t trace_budget_bytes = size_t{16} << 20;
  size_t max_arena_bytes = 0;  // see For
  size_t shared_arena_bytes = size_t{1} << 20;
  size_t max_instances = 2;
  bool branches = true;
  size_t max_trace_ops = 4096;
  LogLevel log = LogLevel::kWarning;
  bool nvtx = false;
  uint64_t build_delays = 0;

  bool operator==(const Options&) const = default;

  // For a device with so much memory: an eighth of it is plan_budget_bytes, a
  // sixteenth max_arena_bytes, where they are 0.
  Options For(size_t memory_bytes) const;

  // Sets one option from text. kInvalidArgument, naming the option and what it
  // accepts, if there is no such option or value; nothing has changed then.
  Status Set(std::string_view name, std::string_view value);

  // The defaults, changed by the environment's REPRISE_* variables (an empty
  // one counts as unset). An error names the variable besides.
  static Result<Options> FromEnvironment();
};

struct OptionRow {
  std::string_view name;      // as Options::Set and Python's enable() take it
  std::string_view variable;  // in the environment
  std::string_view default_value;
  std::string_view accepted;
  std::string_view doc;
  Status (*set)(Options& options, const OptionRow& row, std::string_view value);
};

// One row an option, in the order of the documentation.
std::span<const OptionRow> OptionTable();

// docs/options.md, whole.
std::string OptionsDocument();

}  // namespace reprise::base

#endif  // REPRISE_ENGINE_BASE_OPTIONS_H_
