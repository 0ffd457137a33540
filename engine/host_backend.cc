#include "engine/host_backend.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <set>
#include <utility>
#include <vector>

#include "engine/layout.h"

namespace reprise::engine {
namespace {

// Their results hold whatever the memory held: there is nothing to compare.
bool LeavesUnwritten(const std::string& name) {
  return name.starts_with("aten::empty") || name.starts_with("aten::new_empty");
}

class HostExecutor : public Executor {
 public:
  HostExecutor(const Trace& trace, std::vector<Segment> segments,
               std::vector<bool> unwritten)
      : trace_(trace),
        segments_(std::move(segments)),
        unwritten_(std::move(unwritten)),
        origins_(trace.values.size(), 0),
        numbers_(trace.ops.size()) {
    for (size_t k = 0; k < trace.ops.size(); ++k) {
      for (const ScalarSlot& slot : trace.ops[k].slots) {
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
    const uint32_t end_op = segments_[segment].end_op;
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
    return !trace_.ops[op].by_eager && !unwritten_[op];
  }

  base::Status Copy(uint64_t to, uint64_t from,
                    const kernels::Layout& layout) override {
    kernels::CopyOnHost(reinterpret_cast<void*>(to),
                        reinterpret_cast<const void*>(from), layout);
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

  const Trace& trace_;
  std::vector<Segment> segments_;
  std::vector<bool> unwritten_;
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

tl::expected<BuiltPlan, BuildFailure> HostBackend::Build(const Trace& first,
                                                         const Trace& second) {
  const auto fail = [](base::Error error) {
    return tl::unexpected<BuildFailure>({std::move(error), std::nullopt});
  };
  if (first.ops.size() != second.ops.size()) {
    return fail({base::Code::kFailedPrecondition,
                 "the recordings differ in their ops"});
  }
  std::vector<uint64_t> place_bytes;
  for (const Value& value : first.values) {
    place_bytes.push_back(value.external ? 0 : value.size_bytes);
  }
  BuiltPlan plan;
  plan.effects = Effects::Of(first, second, Effects::Remake::kNothing,
                             Draws::InTurn(first));
  plan.segments =
      CutSegments(plan.effects, std::vector<uint32_t>(first.ops.size(), 1),
                  options_.segment_ops);
  const ArenaLayout layout =
      LayOut(first, place_bytes,
             Lifetimes::Of(first, second, plan.effects, plan.segments));
  if (layout.size_bytes > options_.max_arena_bytes) {
    return tl::unexpected<BuildFailure>(
        {.error = TooLarge(layout.size_bytes, options_.max_arena_bytes),
         .op = std::nullopt,
         .split = HalfWay(first, place_bytes)});
  }
  auto arena = frontend_->Allocate(std::max<uint64_t>(layout.size_bytes, 1));
  if (!arena) return fail(arena.error());
  plan.arena = *std::move(arena);
  plan.bytes = layout.size_bytes;
  plan.mechanism = "calls";
  plan.launches = static_cast<uint32_t>(first.ops.size());
  std::vector<bool> unwritten;
  for (const TracedOp& op : first.ops) {
    unwritten.push_back(LeavesUnwritten(frontend_->OpName(op.op)));
  }
  plan.executor = std::make_unique<HostExecutor>(first, plan.segments,
                                                 std::move(unwritten));
  plan.places.assign(first.values.size(), 0);
  for (size_t v = 0; v < first.values.size(); ++v) {
    if (first.values[v].external) {
      plan.executor->Bind(static_cast<ValueId>(v), first.values[v].origin);
      continue;
    }
    plan.places[v] = plan.arena.address() + layout.places[v];
    plan.executor->Bind(static_cast<ValueId>(v), plan.places[v]);
  }
  plan.place_bytes = std::move(place_bytes);
  plan.movable.assign(first.values.size(), true);
  return plan;
}

}  // namespace reprise::engine
