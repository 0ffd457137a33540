#include "engine/backend/host_backend.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <set>
#include <utility>
#include <vector>

#include "kernels/compare.h"
#include "kernels/strided_layout.h"

namespace reprise::engine {
namespace {

// Their results hold whatever the memory held: there is nothing to compare.
bool LeavesUnwritten(const std::string& name) {
  return name.starts_with("aten::empty") || name.starts_with("aten::new_empty");
}

struct HostProgram : Program {
  using Program::Program;
  std::vector<bool> unwritten;  // by op
};

class HostExecutor : public Executor {
 public:
  explicit HostExecutor(std::shared_ptr<const HostProgram> program)
      : program_(std::move(program)),
        trace_(*program_->trace),
        origins_(trace_.values.size(), 0),
        numbers_(trace_.ops.size()) {
    for (size_t k = 0; k < trace_.ops.size(); ++k) {
      for (const ScalarSlot& slot : trace_.ops[k].slots) {
        numbers_[k].push_back(slot.recorded.bits);
      }
    }
  }

  Fit SetScalars(uint32_t op, std::span<const uint64_t> bits) override {
    numbers_[op].assign(bits.begin(), bits.end());
    return Fit::kBound;
  }

  void SetGenerator(uint32_t, const GeneratorState&) override {}

  void Bind(ValueId value, uint64_t origin) override {
    origins_[value] = origin;
  }

  Progress LaunchSegment(size_t segment, uint32_t first_op) override {
    const uint32_t end_op = program_->segments[segment].end_op;
    for (uint32_t k = first_op; k < end_op; ++k) {
      if (base::Status run = LaunchOp(k); !run) return {std::move(run), k};
    }
    return {};
  }

  base::Status LaunchOp(size_t index) override {
    const TracedOp& op = trace_.ops[index];
    if (op.by_eager) return {};
    operands_.clear();
    results_.clear();
    for (const ValueRef& operand : op.operands) {
      operands_.push_back(origins_[operand.value] + operand.offset_bytes);
    }
    for (const ResultSpec& result : op.results) {
      results_.push_back(
          result.kind == ResultSpec::Kind::kValue ? origins_[result.value] : 0);
    }
    // The call is shared by all plans of the trace.
    for (size_t i = 0; i < op.slots.size(); ++i) {
      op.call->SetScalar(op.slots[i].scalar, numbers_[index][i]);
    }
    Save(op);
    base::Status run = op.call->Run(operands_, results_);
    if (!run) PutBack();
    return run;
  }

  bool Touches(size_t op, ValueId) const override {
    return !trace_.ops[op].by_eager && !program_->unwritten[op];
  }

  base::Status Copy(uint64_t to, uint64_t from,
                    const kernels::Layout& layout) override {
    kernels::CopyOnHost(reinterpret_cast<void*>(to),
                        reinterpret_cast<const void*>(from), layout);
    return {};
  }

  base::Status CopyAll(std::span<const kernels::RangeCopy> copies) override {
    for (const kernels::RangeCopy& copy : copies) {
      std::memcpy(reinterpret_cast<void*>(copy.to),
                  reinterpret_cast<const void*>(copy.from),
                  static_cast<size_t>(copy.bytes));
    }
    return {};
  }

  base::Status WaitFor(CUevent) override { return {}; }

  base::Status BeginComparing() override {
    differing_.clear();
    return {};
  }

  base::Status Compare(uint64_t eager, uint64_t replayed,
                       const kernels::Layout& layout, Alike alike,
                       uint32_t tag) override {
    if (!AlikeOnHost(eager, replayed, layout, alike)) differing_.insert(tag);
    return {};
  }

  base::Status EndComparing() override { return {}; }

  base::Result<std::optional<Verdict>> Poll(Patience) override {
    return Verdict{{differing_.begin(), differing_.end()}};
  }

 private:
  // Elements that an op is about to write over.
  struct Saved {
    uint64_t place = 0;
    kernels::Layout layout;
    std::vector<std::byte> bytes;  // of that layout
  };

  // An op may raise when it has done half of its work, and is run once more by
  // eager then.
  void Save(const TracedOp& op) {
    saved_.clear();
    generator_.reset();
    if (op.may_draw) generator_ = trace_.frontend->KeepGenerator();
    for (size_t i = 0; i < op.operands.size(); ++i) {
      if (!op.operands[i].written || op.LayoutOf(i).elements() == 0) continue;
      Saved& saved = saved_.emplace_back();
      saved.place = operands_[i];
      saved.layout = op.LayoutOf(i);
      saved.bytes.resize(static_cast<size_t>(saved.layout.span_bytes()));
      kernels::CopyOnHost(saved.bytes.data(),
                          reinterpret_cast<const void*>(saved.place),
                          saved.layout);
    }
  }
  void PutBack() const {
    for (const Saved& saved : saved_) {
      kernels::CopyOnHost(reinterpret_cast<void*>(saved.place),
                          saved.bytes.data(), saved.layout);
    }
    if (generator_ != nullptr) generator_->PutBack();
  }

  std::shared_ptr<const HostProgram> program_;
  const Trace& trace_;  // the program's
  std::vector<Saved> saved_;
  std::unique_ptr<KeptGenerator> generator_;  // before an op that may draw
  std::vector<uint64_t> origins_;
  std::vector<uint64_t> operands_;
  std::vector<uint64_t> results_;
  std::vector<std::vector<uint64_t>> numbers_;  // by op
  std::set<uint32_t> differing_;                // tags
};

}  // namespace

bool AlikeOnHost(uint64_t eager, uint64_t replayed,
                 const kernels::Layout& layout, Executor::Alike alike) {
  const auto* left = reinterpret_cast<const void*>(eager);
  const auto* right = reinterpret_cast<const void*>(replayed);
  const auto* other = reinterpret_cast<const void*>(alike.other_run);
  return alike.in_every_bit ? kernels::EqualOnHost(left, right, layout)
                            : kernels::CloseOnHost(left, right, other, layout);
}

std::string HostBackend::EndOp(TracedOp& op) {
  return op.call == nullptr ? "this call cannot be kept" : "";
}

Backend::Explained HostBackend::Explain(std::shared_ptr<const Trace> first,
                                        const Trace& second) {
  const Trace& trace = *first;
  if (trace.ops.size() != second.ops.size()) {
    return tl::unexpected<BuildFailure>(
        {base::Error(base::Code::kFailedPrecondition,
                     "the recordings differ in their ops"),
         std::nullopt});
  }
  auto program = std::make_shared<HostProgram>(std::move(first));
  for (const Value& value : trace.values) {
    program->place_bytes.push_back(value.external ? 0 : value.size_bytes);
  }
  program->movable.assign(trace.values.size(), true);
  program->effects = Effects::Of(
      trace, second, Effects::Remake::kNothing, Draws::InTurn(trace),
      MostPrivate(options_.private_bytes), program->movable);
  const auto arranged =
      Arrange(*program, second,
              {.launches = std::vector<uint32_t>(trace.ops.size(), 1),
               .segment_launches = options_.segment_ops,
               .max_arena_bytes = options_.max_arena_bytes});
  if (!arranged) return tl::unexpected(arranged.error());
  for (const TracedOp& op : trace.ops) {
    program->unwritten.push_back(LeavesUnwritten(frontend_->OpName(op.op)));
  }
  program->launches = static_cast<uint32_t>(trace.ops.size());
  program->mechanism = "calls";
  program->host_bytes = trace.host_bytes;
  return program;
}

base::Result<InstanceParts> HostBackend::Instantiate(
    std::shared_ptr<const Program> explained, std::shared_ptr<Ledger> arena) {
  auto program = std::static_pointer_cast<const HostProgram>(explained);
  const Trace& trace = *program->trace;
  InstanceParts parts;
  if (arena == nullptr) {
    parts.bytes = program->layout.size_bytes;
    REPRISE_ASSIGN_OR_RETURN(
        parts.arena,
        frontend_->Allocate(std::max<uint64_t>(program->layout.size_bytes, 1)));
  }
  parts.shared = std::move(arena);
  parts.executor = std::make_unique<HostExecutor>(program);
  parts.places = program->PlacesIn(parts.arena_address());
  for (ValueId v = 0; v < parts.places.size(); ++v) {
    parts.executor->Bind(
        v, parts.places[v] != 0 ? parts.places[v] : trace.values[v].origin);
  }
  return parts;
}

base::Result<Ledger::Handle> HostBackend::MakeArena(uint64_t size_bytes,
                                                    size_t values) {
  REPRISE_ASSIGN_OR_RETURN(
      Block arena, frontend_->Allocate(std::max<uint64_t>(size_bytes, 1)));
  return Ledger::Create(std::move(arena), values);
}

}  // namespace reprise::engine
