#include "engine/trace/trace_recorder.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "kernels/strided_layout.h"

namespace reprise::engine {
namespace {

// What was allocated for a result is that value; the rest is temporary. A
// result's memory may have been a temporary's before: the last one counts. One
// that is larger than the result is more than that.
void ForgetResults(const Trace& trace, TracedOp& op) {
  std::vector<ValueId> done;  // several results may be of one value
  for (const ResultSpec& spec : op.results) {
    if (spec.kind != ResultSpec::Kind::kValue ||
        std::ranges::find(done, spec.value) != done.end()) {
      continue;
    }
    done.push_back(spec.value);
    const Value& value = trace.values[spec.value];
    const auto found =
        std::find_if(op.temporaries.rbegin(), op.temporaries.rend(),
                     [&](const Allocation& allocation) {
                       return allocation.address == value.origin &&
                              allocation.size_bytes <= value.size_bytes;
                     });
    if (found != op.temporaries.rend()) {
      op.temporaries.erase(std::next(found).base());
    }
  }
}

bool IsOfHost(const ResultSpec& result) {
  return result.kind == ResultSpec::Kind::kHost;
}

// Empty of one that has too many dimensions: no trace holds its op.
kernels::Layout LayoutOf(const Operand& operand, const Frontend& frontend) {
  if (operand.sizes.size() > static_cast<size_t>(kernels::kMaxRank)) return {};
  return kernels::MakeLayout(operand.sizes, operand.strides,
                             operand.element_bytes,
                             frontend.ElementOf(operand.dtype));
}

ElementsAt ElementsOf(const Operand& operand, uint64_t offset_bytes) {
  return {.offset_bytes = offset_bytes,
          .element_bytes = operand.element_bytes,
          .sizes = operand.sizes,
          .strides = operand.strides};
}

// Of a value in whose storage the operand lies.
SeenBytes::Place PlaceOf(const Operand& operand, ValueId value) {
  return {.value = value,
          .base = operand.base,
          .size_bytes = operand.storage_bytes,
          .begin = operand.address(),
          .end = operand.address() + ElementsOf(operand, 0).span_bytes()};
}

// Who has a small piece of memory without content writes into it, so that it
// holds something else then: where it held that already, nobody could tell.
// Numbers of all types that this makes are small and finite.
void Mark(uint64_t base, uint64_t size_bytes) {
  constexpr uint64_t kMost = uint64_t{1} << 20;
  constexpr int kPattern = 3;
  if (base == 0 || size_bytes > kMost) return;
  std::memset(reinterpret_cast<void*>(base), kPattern, size_bytes);
}

constexpr char kNeverWritten[] =
    "reads memory without content, into which no operator has written";
constexpr char kWrittenPast[] =
    "uses memory that was written past the operators";

bool TooManyDimensions(const OpView& op, std::span<const ResultView> results) {
  const auto too_many = [](const auto& tensor) {
    return tensor.sizes.size() > static_cast<size_t>(kernels::kMaxRank);
  };
  return std::any_of(op.operands.begin(), op.operands.end(), too_many) ||
         std::any_of(results.begin(), results.end(), too_many);
}

}  // namespace

base::Result<std::unique_ptr<TraceRecorder>> TraceRecorder::Start(
    Frontend* frontend, WorkRecorder* work, WorkRecorder::Recording recording,
    const Foreseen& foreseen) {
  std::unique_ptr<TraceRecorder> recorder(new TraceRecorder(frontend, work));
  REPRISE_RETURN_IF_ERROR(
      work->StartRecording(recording, foreseen.bytes_at_once));
  recorder->recording_ = true;
  recorder->trace_->memory_returned = frontend->memory_returned();
  if (LibraryFrees* const frees = frontend->library_frees()) {
    recorder->library_frees_ = frees->Look();
  }
  recorder->trace_->ops.reserve(foreseen.ops);
  if (recording == WorkRecorder::Recording::kRelocated) {
    REPRISE_ASSIGN_OR_RETURN(recorder->trace_->memory, frontend->WatchMemory());
  }
  return recorder;
}

TraceRecorder::TraceRecorder(Frontend* frontend, WorkRecorder* work)
    : frontend_(frontend),
      work_(work),
      trace_(std::make_unique<Trace>(frontend)) {}

TraceRecorder::~TraceRecorder() {
  if (recording_) work_->StopRecording();
}

base::Status TraceRecorder::Enter(const OpView& op,
                                  const cache::Signature& words,
                                  const cache::Signature& before,
                                  std::span<const ValueRef> operands,
                                  ValueId values) {
  if (trace_->ops.empty()) trace_->generator = frontend_->Generator();
  TracedOp& traced = trace_->ops.emplace_back();
  traced.op = op.op;
  traced.may_draw = op.may_use_generator;
  if (traced.may_draw) traced.generator.before = frontend_->Generator();
  traced.may_trap = op.may_trap;
  if (op.may_use_library_plans) trace_->library_frees = library_frees_;
  traced.leaves_unwritten = op.leaves_unwritten;
  traced.switches = op.switches;
  traced.before = before;
  traced.words.assign(op.words.begin(), op.words.end());
  traced.hash = words.lo;
  traced.operands.assign(operands.begin(), operands.end());
  for (uint32_t s = 0; s < op.scalars.size(); ++s) {
    const Scalar& scalar = op.scalars[s];
    if (op.words[scalar.word] == scalar.bits) continue;
    traced.slots.push_back({s, scalar});
    traced.words[scalar.word] = scalar.bits;
  }
  const auto index = static_cast<uint32_t>(trace_->ops.size() - 1);
  trace_->values.resize(values);
  NoteDeaths(index);
  for (size_t i = 0; i < operands.size(); ++i) {
    const Operand& operand = op.operands[i];
    if (operand.written) {
      traced.written.push_back(LayoutOf(operand, *frontend_));
    }
    Value& value = trace_->values[operands[i].value];
    value.shared |= operand.shared && !operand.unread;
    if (value.storage != nullptr) {  // met before
      if (value.arrives && std::erase(unused_, operands[i].value) != 0) {
        value.birth_op = index;
      }
      continue;
    }
    value.external = true;
    value.birth_op = index;
    value.origin = operand.address();
    value.base = operand.base;
    value.size_bytes = operand.storage_bytes - operand.offset_bytes;
    value.storage = operand.storage;
    frontend_->Retain(value.storage);
  }
  return work_->BeginOp(op);
}

const char* TraceRecorder::WhyReadsUnseen(const OpView& op,
                                          const OpenTrace& open) const {
  const bool looks = work_->sees_memory();
  for (const Operand& operand : op.operands) {
    if (operand.unread) continue;
    const ValueId value = open.Find(operand);
    if (value == OpenTrace::kNoValue) continue;
    if (!operand.written && !written_.empty()) {
      const auto found = written_.find(value);
      if (found != written_.end() &&
          !found->second.Has(ElementsOf(operand, operand.offset_bytes))) {
        return kNeverWritten;
      }
    }
    if (looks && seen_.Changed(PlaceOf(operand, value))) return kWrittenPast;
  }
  return nullptr;
}

void TraceRecorder::NoteBytes(const OpView& op,
                              std::span<const ResultView> results,
                              std::span<const ValueId> result_values) {
  const bool looks = work_->sees_memory();
  const TracedOp& traced = trace_->ops.back();
  for (size_t i = 0; i < op.operands.size(); ++i) {
    if (!op.operands[i].written) continue;
    const Operand& operand = op.operands[i];
    const ValueId value = traced.operands[i].value;
    const auto found = written_.find(value);
    if (found != written_.end()) {
      found->second.Write(ElementsOf(operand, operand.offset_bytes));
    }
    if (looks) seen_.Wrote(PlaceOf(operand, value));
  }
  for (size_t r = 0; r < results.size(); ++r) {
    if (result_values[r] == OpenTrace::kNoValue) continue;
    const ResultView& result = results[r];
    if (op.leaves_unwritten) {
      written_.emplace(result_values[r], WrittenBytes(result.storage_bytes));
      if (looks) Mark(result.base, result.storage_bytes);
    }
    if (!looks) continue;
    const SeenBytes::Place place = {.value = result_values[r],
                                    .base = result.base,
                                    .size_bytes = result.storage_bytes,
                                    .begin = result.base,
                                    .end = result.base + result.storage_bytes};
    // The memory may have been another value's.
    seen_.Wrote(place);
    seen_.Note(place);
  }
  for (size_t i = 0; looks && i < op.operands.size(); ++i) {
    seen_.Note(PlaceOf(op.operands[i], traced.operands[i].value));
  }
}

void TraceRecorder::NoteDeaths(uint32_t op) {
  const auto is_dead = [&](ValueId v) {
    Value& value = trace_->values[v];
    if (value.dead_at != Value::kLives) return true;
    if (frontend_->Alive(value.storage)) return false;
    value.dead_at = op;
    alive_bytes_ -= value.size_bytes;
    return true;
  };
  std::erase_if(large_, [&](ValueId v) {
    return is_dead(v) || !IsLarge(trace_->values[v]);
  });
  constexpr size_t kLooksAnOp = 8;
  if (++since_looked_ * kLooksAnOp < alive_.size()) return;
  since_looked_ = 0;
  std::erase_if(alive_, is_dead);
}

void TraceRecorder::NoteBirth(ValueId value) {
  alive_.push_back(value);
  alive_bytes_ += trace_->values[value].size_bytes;
  if (IsLarge(trace_->values[value])) large_.push_back(value);
}

void TraceRecorder::GiveCall(std::unique_ptr<Call> call) {
  trace_->ops.back().call = std::move(call);
}

std::string TraceRecorder::Leave(const OpView& op,
                                 std::span<const ResultView> results,
                                 std::span<const ValueId> result_values,
                                 ValueId values) {
  TracedOp& traced = trace_->ops.back();
  trace_->values.resize(values);
  for (size_t i = 0; i < traced.operands.size(); ++i) {
    traced.operands[i].version_bumps = op.operands[i].version_bumps;
    traced.bumps_versions |= op.operands[i].version_bumps != 0;
  }
  if (op.may_use_generator) NoteDraw(traced);
  NoteBytes(op, results, result_values);
  const Tensors tensors = NoteResults(op, results, result_values);
  std::string refusal = work_->EndOp(traced);
  uint64_t bytes = alive_bytes_;
  for (const Allocation& temporary : traced.temporaries) {
    bytes += temporary.size_bytes;
  }
  trace_->bytes_at_once = std::max(trace_->bytes_at_once, bytes);
  if (op.by_eager) {
    traced.by_eager = true;
    traced.launches.clear();
    traced.temporaries.clear();
    traced.call.reset();
    traced.results.clear();
    return {};
  }
  if (!refusal.empty()) return refusal;
  if (traced.generator.draws) {
    // A call draws in its turn, and what it tells is not known before.
    if (work_->wants_call() && std::ranges::any_of(traced.results, &IsOfHost)) {
      return "draws random numbers, and tells the host of them";
    }
    NoteTold(traced, results);
  }
  ForgetResults(*trace_, traced);
  if (TooManyDimensions(op, results)) return "tensor of too many dimensions";
  if (tensors.aliases > 0) {
    const bool writes = std::ranges::any_of(op.operands, &Operand::written);
    if (tensors.aliases != tensors.all || !traced.launches.empty() || writes) {
      return "result shares memory with an operand";
    }
    traced.by_eager = true;
  }
  return {};
}

TraceRecorder::Tensors TraceRecorder::NoteResults(
    const OpView& op, std::span<const ResultView> results,
    std::span<const ValueId> result_values) {
  TracedOp& traced = trace_->ops.back();
  Tensors tensors;
  for (size_t r = 0; r < results.size(); ++r) {
    const ResultView& result = results[r];
    ResultSpec& spec = traced.results.emplace_back();
    spec.host = result.host;
    // Seeds and offsets of an op that drew no number are memory that nobody
    // wrote; of one that did, NoteTold looks at them.
    spec.host_hash = op.may_use_generator ? 0 : result.host_hash;
    if (result.kind == ResultView::Kind::kHost) {
      spec.kind = ResultSpec::Kind::kHost;
      continue;
    }
    if (result.kind == ResultView::Kind::kUndefined) continue;
    ++tensors.all;
    if (result.operand >= 0) {
      spec.kind = ResultSpec::Kind::kOperand;
      spec.operand = static_cast<uint32_t>(result.operand);
    } else if (result_values[r] == OpenTrace::kNoValue) {
      ++tensors.aliases;  // never built: the op runs natively or is a cut
    } else {
      NoteValue(op, result, result_values[r], spec);
    }
  }
  return tensors;
}

void TraceRecorder::NoteValue(const OpView& op, const ResultView& result,
                              ValueId id, ResultSpec& spec) {
  spec.kind = ResultSpec::Kind::kValue;
  spec.value = id;
  spec.offset_bytes = result.offset_bytes;
  spec.storage_bytes = result.storage_bytes;
  spec.key_set = result.key_set;
  spec.dtype = result.dtype;
  spec.element = frontend_->ElementOf(result.dtype);
  spec.element_bytes = result.element_bytes;
  spec.version = result.version;
  spec.sizes.assign(result.sizes.begin(), result.sizes.end());
  spec.strides.assign(result.strides.begin(), result.strides.end());
  Value& value = trace_->values[id];
  if (value.storage != nullptr) return;  // shared with an earlier result
  value.external = op.by_eager;
  value.arrives = op.by_eager;
  value.birth_op = static_cast<uint32_t>(trace_->ops.size() - 1);
  value.origin = result.base;
  value.base = result.base;
  value.size_bytes = result.storage_bytes;
  value.storage = result.storage;
  frontend_->Retain(value.storage);
  if (value.arrives) {
    unused_.push_back(id);
  } else {
    NoteBirth(id);
  }
}

void TraceRecorder::NoteDraw(TracedOp& op) const {
  const GeneratorState now = frontend_->Generator();
  GeneratorUse& use = op.generator;
  use.draws = now != use.before;
  use.increment = now.offset - use.before.offset;
}

// Where seed and offset are one number, the former is told first, as torch's
// attention does; a recording in which they differ says whether that is so.
void TraceRecorder::NoteTold(TracedOp& op,
                             std::span<const ResultView> results) const {
  using Tells = ResultSpec::Tells;
  bool seed_told = false;
  for (size_t r = 0; r < results.size(); ++r) {
    ResultSpec& spec = op.results[r];
    spec.host_hash = results[r].host_hash;
    if (!results[r].host_integer.has_value()) continue;
    const auto told = static_cast<uint64_t>(*results[r].host_integer);
    if (told == op.generator.before.seed && !seed_told) {
      spec.tells = Tells::kSeed;
      seed_told = true;
    } else if (told == op.generator.before.offset) {
      spec.tells = Tells::kOffset;
    } else {
      continue;
    }
    spec.host_hash = 0;
  }
}

std::unique_ptr<Trace> TraceRecorder::Finish(
    const cache::Signature& signature) {
  work_->StopRecording();
  recording_ = false;
  trace_->signature = signature;
  trace_->ops.shrink_to_fit();
  trace_->values.shrink_to_fit();
  trace_->host_bytes = HostBytes(*trace_);
  return std::move(trace_);
}

}  // namespace reprise::engine
