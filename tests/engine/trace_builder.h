// Traces put together by hand.

#ifndef REPRISE_TESTS_ENGINE_TRACE_BUILDER_H_
#define REPRISE_TESTS_ENGINE_TRACE_BUILDER_H_

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

#include "engine/trace/frontend.h"
#include "engine/trace/trace.h"

namespace reprise::engine {

// One op a call, in program order. Value v has the token v + 1 and lies at
// AddressOf(v); every value is `size_bytes` long.
class TraceBuilder {
 public:
  explicit TraceBuilder(Frontend* frontend, uint64_t size_bytes = 64)
      : trace_(std::make_unique<Trace>(frontend)), size_bytes_(size_bytes) {}

  static constexpr uint64_t AddressOf(ValueId value) {
    return 0x7f00'0000'0000 + uint64_t{value} * 0x1'0000;
  }

  // First used by the next op.
  ValueId External() { return Make(/*external=*/true, ops()); }

  // Reads `reads`, writes `writes` in place and makes `makes` values, of which
  // it returns the first; the others follow it.
  ValueId Op(std::initializer_list<ValueId> reads,
             std::initializer_list<ValueId> writes, uint32_t makes = 0) {
    TracedOp& op = trace_->ops.emplace_back();
    op.op = ops() - 1;
    op.words = {op.op, reads.size(), writes.size()};
    const auto first = static_cast<ValueId>(trace_->values.size());
    for (ValueId value : writes) op.operands.push_back(Ref(value, true));
    for (ValueId value : reads) op.operands.push_back(Ref(value, false));
    for (uint32_t i = 0; i < makes; ++i) {
      ResultSpec& result = op.results.emplace_back();
      result.kind = ResultSpec::Kind::kValue;
      result.value = Make(/*external=*/false, ops() - 1);
      result.storage_bytes = size_bytes_;
    }
    return first;
  }

  Trace& trace() { return *trace_; }
  uint32_t ops() const { return static_cast<uint32_t>(trace_->ops.size()); }
  std::unique_ptr<Trace> Take() { return std::move(trace_); }

 private:
  static ValueRef Ref(ValueId value, bool written) {
    ValueRef ref;
    ref.value = value;
    ref.written = written;
    return ref;
  }

  ValueId Make(bool external, uint32_t birth_op) {
    const auto id = static_cast<ValueId>(trace_->values.size());
    Value& value = trace_->values.emplace_back();
    value.external = external;
    value.birth_op = birth_op;
    value.origin = AddressOf(id);
    value.base = value.origin;
    value.size_bytes = size_bytes_;
    value.storage = reinterpret_cast<StorageToken>(uint64_t{id} + 1);
    trace_->frontend->Retain(value.storage);
    return id;
  }

  std::unique_ptr<Trace> trace_;
  uint64_t size_bytes_;
};

}  // namespace reprise::engine

#endif  // REPRISE_TESTS_ENGINE_TRACE_BUILDER_H_
