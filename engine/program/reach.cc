#include "engine/program/reach.h"

#include <algorithm>
#include <cstddef>
#include <unordered_map>
#include <unordered_set>

namespace reprise::engine {
namespace {

constexpr size_t kWordBytes = 8;

bool HasTheDevice(const device::Launch& launch) {
  using Kind = device::Launch::Kind;
  return launch.behind.has_value() || launch.is_event() ||
         launch.kind == Kind::kGraph ||
         std::ranges::any_of(
             launch.attributes, [](const CUlaunchAttribute& attribute) {
               return attribute.id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE &&
                      attribute.value.cooperative != 0;
             });
}

uint64_t KeyOf(uint32_t launch, uint32_t offset_bytes) {
  return uint64_t{launch} << 32 | offset_bytes;
}

// By op, its operands, results and temporaries, ascending.
std::vector<std::vector<ValueId>> OwnValues(const Trace& trace) {
  std::vector<std::vector<ValueId>> own(trace.ops.size());
  auto temporary = static_cast<ValueId>(trace.values.size());
  for (size_t k = 0; k < trace.ops.size(); ++k) {
    const TracedOp& op = trace.ops[k];
    for (const ValueRef& operand : op.operands) own[k].push_back(operand.value);
    for (const ResultSpec& result : op.results) {
      if (result.IsValue()) own[k].push_back(result.value);
    }
    for (size_t t = 0; t < op.temporaries.size(); ++t) {
      own[k].push_back(temporary++);
    }
    std::ranges::sort(own[k]);
  }
  return own;
}

// By launch, its op.
std::vector<uint32_t> OpsOfLaunches(const std::vector<uint32_t>& op_begin) {
  std::vector<uint32_t> op_of;
  for (uint32_t k = 0; k + 1 < op_begin.size(); ++k) {
    op_of.resize(op_begin[k + 1], k);
  }
  return op_of;
}

// The externals that a word may point into.
std::vector<ValueId> ExternalsAt(const Trace& trace, uint64_t word) {
  std::vector<ValueId> found;
  for (ValueId v = 0; v < trace.values.size(); ++v) {
    const Value& value = trace.values[v];
    if (value.external && word >= value.base &&
        word < value.origin + value.size_bytes) {
      found.push_back(v);
    }
  }
  return found;
}

}  // namespace

std::vector<Reach> ReachOf(const Trace& trace, const LaunchProgram& program,
                           const std::function<bool(uint64_t)>& is_memory) {
  std::vector<Reach> reach(trace.ops.size());
  const std::vector<std::vector<ValueId>> own = OwnValues(trace);
  const std::vector<uint32_t> op_of = OpsOfLaunches(program.op_begin);
  const auto note = [&](uint32_t k, ValueId value) {
    std::vector<ValueId>& others = reach[k].others;
    if (!std::ranges::binary_search(own[k], value) &&
        std::ranges::find(others, value) == others.end()) {
      others.push_back(value);
    }
  };
  std::unordered_set<uint64_t> explained;  // places of words
  for (const auto* sites : {&program.sites, &program.pinned}) {
    for (const ValueSite& site : *sites) {
      explained.insert(KeyOf(site.launch, site.offset_bytes));
      note(op_of[site.launch], site.value);
    }
  }
  std::unordered_map<uint64_t, bool> memory;  // words that may be addresses
  for (uint32_t i = 0; i < program.launches.size(); ++i) {
    const device::Launch& launch = program.launches[i];
    const uint32_t k = op_of[i];
    reach[k].alone |= HasTheDevice(launch);
    for (uint32_t at = 0; at + kWordBytes <= launch.image.size();
         at += kWordBytes) {
      const uint64_t word = launch.Word(at);
      if (word >> 16 == 0 || explained.contains(KeyOf(i, at))) continue;
      const auto [known, is_new] = memory.try_emplace(word, false);
      if (is_new) known->second = is_memory(word);
      if (!known->second) continue;
      const std::vector<ValueId> values = ExternalsAt(trace, word);
      for (const ValueId v : values) note(k, v);
      reach[k].libraries |= values.empty();
    }
  }
  return reach;
}

}  // namespace reprise::engine
