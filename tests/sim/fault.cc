#include "tests/sim/fault.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace reprise::sim {
namespace {

using engine::Executor;
using engine::InstanceParts;
using engine::ValueId;

class WatchedExecutor : public Executor {
 public:
  WatchedExecutor(std::unique_ptr<Executor> inner, Fault fault,
                  BackendCounts* counts, engine::Block arena, uint64_t bytes)
      : inner_(std::move(inner)),
        fault_(fault),
        counts_(counts),
        arena_(std::move(arena)),
        bytes_(bytes) {
    counts_->live_bytes += bytes_;
  }
  ~WatchedExecutor() override {
    if (fault_ != Fault::kPlanKept) counts_->live_bytes -= bytes_;
  }

  void Bind(ValueId value, uint64_t origin) override {
    const bool late = launched_ > 0;
    ++binds_;
    if (fault_ == Fault::kSkippedPatch && !late && binds_ % 3 == 0) return;
    if (fault_ == Fault::kStaleLateExternal && late) return;
    inner_->Bind(value, origin);
  }
  Fit SetScalars(uint32_t op, std::span<const uint64_t> bits) override {
    ++counts_->numbers;
    if (fault_ == Fault::kStaleNumber && !comparing_) return Fit::kBound;
    if (fault_ == Fault::kElementForAnother && !comparing_) {
      const std::vector<uint64_t> first(bits.size(), bits[0]);
      return inner_->SetScalars(op, first);
    }
    return inner_->SetScalars(op, bits);
  }
  void SetGenerator(uint32_t op, const engine::GeneratorState& state) override {
    ++counts_->draws;
    if (fault_ == Fault::kStaleGenerator && ++told_ % 5 == 0) return;
    inner_->SetGenerator(op, state);
  }
  Progress LaunchSegment(size_t segment, uint32_t first_op) override {
    launched_ = segment + 1;
    Progress progress = inner_->LaunchSegment(segment, first_op);
    if (fault_ == Fault::kEffectTwice && !comparing_ && progress.status &&
        ++launches_ % 5 == 0) {
      progress = {base::Fail(base::Code::kInternal, "told to fail"), first_op};
    }
    if (segment + 1 == segments) launched_ = 0;
    return progress;
  }
  base::Status LaunchOp(size_t op) override {
    if (!comparing_) {
      ++counts_->restored_ops;
      if (fault_ == Fault::kNoRestoration) return {};
    }
    return inner_->LaunchOp(op);
  }
  bool Touches(size_t op, ValueId value) const override {
    return inner_->Touches(op, value);
  }
  base::Status Copy(uint64_t to, uint64_t from,
                    const kernels::Layout& layout) override {
    return inner_->Copy(to, from, layout);
  }
  base::Status CopyAll(std::span<const kernels::RangeCopy> copies) override {
    if (comparing_) return inner_->CopyAll(copies);
    counts_->privates += copies.size();
    const auto in_arena = [this](uint64_t address) {
      return address - begin < bytes_;
    };
    if (fault_ == Fault::kPrivateStale && in_arena(copies[0].to)) return {};
    if (fault_ == Fault::kPrivateKept && !in_arena(copies[0].to) &&
        ++told_ % 3 == 0) {
      return {};
    }
    return inner_->CopyAll(copies);
  }
  base::Status WaitFor(CUevent event) override {
    return inner_->WaitFor(event);
  }
  base::Status BeginComparing() override {
    comparing_ = true;
    return inner_->BeginComparing();
  }
  base::Status Compare(uint64_t eager, uint64_t replayed,
                       const kernels::Layout& layout, Alike alike,
                       uint32_t tag) override {
    return inner_->Compare(eager, replayed, layout, alike, tag);
  }
  base::Status EndComparing() override {
    comparing_ = false;
    return inner_->EndComparing();
  }
  base::Result<std::optional<engine::Verdict>> Poll(
      Patience patience) override {
    auto verdict = inner_->Poll(patience);
    const bool ignored = fault_ == Fault::kVerdictIgnored ||
                         fault_ == Fault::kOverlappingTemporary;
    if (ignored && verdict && verdict->has_value()) {
      return engine::Verdict{};
    }
    return verdict;
  }

  size_t segments = 0;
  uint64_t begin = 0;  // of the arena

 private:
  std::unique_ptr<Executor> inner_;
  Fault fault_;
  BackendCounts* counts_;
  engine::Block arena_;
  const uint64_t bytes_;
  uint64_t binds_ = 0;
  uint64_t launches_ = 0;
  uint64_t told_ = 0;
  size_t launched_ = 0;
  bool comparing_ = false;
};

class WatchedBackend : public engine::Backend {
 public:
  WatchedBackend(std::unique_ptr<engine::Backend> inner, Fault fault,
                 BackendCounts* counts)
      : inner_(std::move(inner)), fault_(fault), counts_(counts) {}

  base::Status StartRecording(Recording recording,
                              uint64_t pass_bytes) override {
    return inner_->StartRecording(recording, pass_bytes);
  }
  void StopRecording() override { inner_->StopRecording(); }
  base::Status BeginOp(const engine::OpView& op) override {
    return inner_->BeginOp(op);
  }
  std::string EndOp(engine::TracedOp& op) override { return inner_->EndOp(op); }
  bool wants_call() const override { return inner_->wants_call(); }
  std::optional<std::string> TakeForeignWork() override {
    return inner_->TakeForeignWork();
  }
  void Resting() override { inner_->Resting(); }
  bool Capturing() const override { return inner_->Capturing(); }

  Explained Explain(std::shared_ptr<const engine::Trace> first,
                    const engine::Trace& second) override {
    return inner_->Explain(std::move(first), second);
  }
  base::Result<InstanceParts> Instantiate(
      std::shared_ptr<const engine::Program> program,
      std::shared_ptr<engine::Ledger> shared) override {
    auto parts = inner_->Instantiate(program, std::move(shared));
    if (!parts) return parts;
    const engine::Trace& trace = *program->trace;
    ++counts_->builds;
    if (parts->shared != nullptr) ++counts_->sharing;
    for (ValueId v = 0; v < trace.values.size(); ++v) {
      if (program->effects.late(v)) ++counts_->late_externals;
    }
    if (fault_ == Fault::kOverlappingTemporary) Overlap(trace, *parts);
    if (fault_ == Fault::kVerdictIgnored) Spoil(trace, *parts);
    // The ledger is given memory that it does not own.
    engine::Block arena;
    if (fault_ == Fault::kEvictedInUse && parts->arena) {
      const uint64_t address = parts->arena.address();
      arena = std::exchange(parts->arena,
                            engine::Block(address, nullptr, [](void*) {}));
    }
    auto watched = std::make_unique<WatchedExecutor>(
        std::move(parts->executor), fault_, counts_, std::move(arena),
        parts->bytes);
    watched->segments = program->segments.size();
    watched->begin = parts->arena_address();
    parts->executor = std::move(watched);
    return parts;
  }

  base::Result<engine::Ledger::Handle> MakeArena(uint64_t size_bytes,
                                                 size_t values) override {
    return inner_->MakeArena(size_bytes, values);
  }

 private:
  // Temporaries are numbered after the values.
  static void Overlap(const engine::Trace& trace, InstanceParts& parts) {
    auto temporary = static_cast<ValueId>(trace.values.size());
    uint64_t live = 0;
    for (const engine::TracedOp& op : trace.ops) {
      for (size_t t = 0; t < op.temporaries.size(); ++t) {
        if (live != 0) parts.executor->Bind(temporary, live);
        ++temporary;
      }
      for (const engine::ResultSpec& result : op.results) {
        if (result.kind == engine::ResultSpec::Kind::kValue) {
          live = parts.places[result.value];
        }
      }
    }
  }

  // Its last op works where its first one does.
  static void Spoil(const engine::Trace& trace, InstanceParts& parts) {
    ValueId first = 0;
    ValueId last = 0;
    for (ValueId v = 0; v < trace.values.size(); ++v) {
      if (trace.values[v].external) continue;
      if (first == 0) first = v;
      last = v;
    }
    parts.executor->Bind(last, parts.places[first]);
  }

  std::unique_ptr<engine::Backend> inner_;
  Fault fault_;
  BackendCounts* counts_;
};

}  // namespace

std::unique_ptr<engine::Backend> WatchBackend(
    std::unique_ptr<engine::Backend> inner, Fault fault,
    BackendCounts* counts) {
  return std::make_unique<WatchedBackend>(std::move(inner), fault, counts);
}

}  // namespace reprise::sim
