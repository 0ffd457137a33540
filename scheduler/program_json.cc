#include "scheduler/program_json.h"

#include <nlohmann/json.hpp>

#include "engine/program/effects.h"
#include "engine/trace/frontend.h"
#include "engine/trace/trace.h"

namespace reprise::scheduler {
namespace {

using nlohmann::json;

const char* ToString(engine::Effects::Gate gate) {
  using Gate = engine::Effects::Gate;
  switch (gate) {
    case Gate::kNone:
      return "";
    case Gate::kOutside:
      return "writes the program's memory";
    case Gate::kInput:
      return "tells where an input is";
    case Gate::kShared:
      return "reads what others may write";
    case Gate::kNumber:
      return "brings a number that changes";
    case Gate::kGenerator:
      return "tells where the generator is";
    case Gate::kSwitches:
      return "other switches";
    case Gate::kTrap:
      return "may stop the device";
    case Gate::kRemake:
      return "writes over what could not be made again";
    case Gate::kSubstitute:
      return "comes behind a nondeterministic op";
  }
  return "?";
}

json OpJson(const engine::TracedOp& op, const engine::Frontend& frontend) {
  json row = {{"name", frontend.OpName(op.op)},
              {"launches", op.launches.size()},
              {"by_eager", op.by_eager},
              {"nondeterministic", op.nondeterministic},
              {"draws", op.generator.draws},
              {"operands", json::array()},
              {"results", json::array()}};
  for (const engine::ValueRef& operand : op.operands) {
    row["operands"].push_back(
        {{"value", operand.value}, {"written", operand.written}});
  }
  for (const engine::ResultSpec& result : op.results) {
    if (!result.IsValue()) continue;
    row["results"].push_back({{"value", result.value},
                              {"dtype", frontend.DtypeName(result.dtype)},
                              {"sizes", result.sizes}});
  }
  return row;
}

json ValueJson(const engine::Program& program, engine::ValueId id) {
  const engine::Value& value = program.trace->values[id];
  const engine::Effects& effects = program.effects;
  return {
      {"external", value.external},
      {"input", value.external && effects.input(id)},
      {"late", value.external && effects.late(id)},
      {"private", effects.is_private(id)},
      // The program had it still when the last op came.
      {"lives_on", !value.external && value.dead_at == engine::Value::kLives},
      {"bytes", value.size_bytes}};
}

}  // namespace

std::string ProgramJson(const engine::Program& program) {
  const engine::Trace& trace = *program.trace;
  json plan = {{"signature", trace.signature.ToHex()},
               {"segments", json::array()},
               {"ops", json::array()},
               {"values", json::array()}};
  for (const engine::Segment& segment : program.segments) {
    plan["segments"].push_back({{"first_op", segment.first_op},
                                {"end_op", segment.end_op},
                                {"launches", segment.launches},
                                {"gated", segment.gated}});
  }
  for (uint32_t op = 0; op < trace.ops.size(); ++op) {
    json row = OpJson(trace.ops[op], *trace.frontend);
    row["gate"] = ToString(program.effects.gate(op));
    const std::vector<uint8_t>& lanes = program.branches.lanes();
    row["lane"] = lanes.empty() ? 0 : lanes[op];
    row["alone"] = program.branches.alone(op);
    plan["ops"].push_back(std::move(row));
  }
  for (engine::ValueId value = 0; value < trace.values.size(); ++value) {
    plan["values"].push_back(ValueJson(program, value));
  }
  return plan.dump();
}

}  // namespace reprise::scheduler
