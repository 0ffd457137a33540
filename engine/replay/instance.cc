#include "engine/replay/instance.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <numeric>
#include <optional>
#include <utility>

#include "engine/replay/again.h"
#include "engine/replay/plan.h"

namespace reprise::engine {
namespace {

// Two slots hold one number, and did when the op was recorded.
bool SameNumbers(const ScalarSlot& a, const ScalarSlot& b, const OpView& op) {
  return a.recorded.bits == b.recorded.bits &&
         a.recorded.type == b.recorded.type &&
         op.scalars[a.scalar].bits == op.scalars[b.scalar].bits;
}

// What makes right what the program has seen of a replay.
template <typename Run>
base::Status MakeRight(Run run) {
  return Again(run, "at the end of a replay",
               "what the program has seen of a replay could not be made right");
}

}  // namespace

Instance::Instance(Plan* plan, InstanceParts parts)
    : plan_(plan),
      program_(plan->program().get()),
      trace_(program_->trace.get()),
      parts_(std::move(parts)),
      ledger_(Ledger::Create(std::move(parts_.arena), trace_->values.size(),
                             parts_.device)),
      bound_(trace_->values.size()),
      shadow_(trace_->values.size()),
      fresh_(trace_->values.size()),
      externals_(program_->segments.size()),
      values_(program_->segments.size()),
      watched_(trace_->values.size(), false) {
  arena_begin_ = ~uint64_t{0};
  for (const ValueId v : plan_->outputs()) {
    const uint64_t place = parts_.places[v];
    arena_begin_ = std::min(arena_begin_, place);
    arena_end_ = std::max(arena_end_, place + program_->place_bytes[v]);
  }
  for (ValueId v = 0; v < trace_->values.size(); ++v) {
    const Value& value = trace_->values[v];
    bound_[v].origin = value.external ? value.origin : parts_.places[v];
    if (!value.external) continue;
    bound_[v].place = {value.storage, value.base};
    if (!program_->effects.input(v)) lasting_.push_back(v);
  }
  // As recorded, until they are bound.
  const Draws& draws = program_->effects.draws();
  for (const engine::Draw& draw : draws.ahead()) {
    const GeneratorState& source = draws.sources()[draw.source].recorded;
    generator_.push_back(source.After(draw.ahead));
  }
  eager_allocates_ = std::ranges::any_of(trace_->ops, &TracedOp::by_eager);
  NoteTouched();
  NoteNeighbours();
}

void Instance::NoteTouched() {
  std::vector<size_t> noted(trace_->values.size(), ~size_t{0});  // the segment
  // Private ones are taken at the beginning.
  for (const ValueId v : program_->effects.privates()) {
    noted[v] = 0;
    externals_[0].push_back(v);
  }
  for (size_t s = 0; s < program_->segments.size(); ++s) {
    const Segment& segment = program_->segments[s];
    for (uint32_t k = segment.first_op; k < segment.end_op; ++k) {
      for (const ValueRef& operand : trace_->ops[k].operands) {
        const ValueId v = operand.value;
        const Value& value = trace_->values[v];
        if (program_->effects.input(v) && k > value.birth_op)
          watched_[v] = true;
        // Operands of the op at which the segment is launched are alive.
        const bool at_hand = value.birth_op == segment.first_op &&
                             (s == 0 || program_->effects.late(v));
        const bool own = !value.external && value.birth_op >= segment.first_op;
        if (at_hand || own || noted[v] == s) continue;
        noted[v] = s;
        (value.external ? externals_ : values_)[s].push_back(v);
      }
    }
  }
}

void Instance::NoteNeighbours() {
  neighbours_.resize(trace_->values.size());
  followers_.resize(program_->segments.size());
  std::vector<ValueId> by_place = plan_->outputs();
  std::ranges::sort(by_place, {},
                    [this](ValueId v) { return parts_.places[v]; });
  for (size_t i = 0; i < by_place.size(); ++i) {
    const ValueId v = by_place[i];
    const uint64_t end = parts_.places[v] + program_->place_bytes[v];
    for (size_t j = i + 1;
         j < by_place.size() && parts_.places[by_place[j]] < end; ++j) {
      neighbours_[v].push_back(by_place[j]);
      neighbours_[by_place[j]].push_back(v);
    }
  }
  size_t s = 0;
  for (ValueId v = 0; v < neighbours_.size(); ++v) {
    if (neighbours_[v].empty()) continue;
    std::ranges::sort(neighbours_[v]);
    // Values are numbered in the order in which they come.
    while (program_->segments[s].end_op <= trace_->values[v].birth_op) ++s;
    if (neighbours_[v].front() < v) followers_[s].push_back(v);
  }
}

void Instance::BindAt(ValueId value, uint64_t origin) {
  if (bound_[value].origin == origin) return;
  bound_[value].origin = origin;
  if (!program_->effects.is_private(value)) {
    parts_.executor->Bind(value, origin);
  }
}

kernels::RangeCopy Instance::Taking(ValueId value) const {
  return {parts_.places[value], bound_[value].origin,
          trace_->values[value].size_bytes};
}

base::Status Instance::TakePrivates() {
  std::vector<kernels::RangeCopy> copies;
  for (const ValueId v : program_->effects.privates()) {
    copies.push_back(Taking(v));
  }
  return copies.empty() ? base::Status() : parts_.executor->CopyAll(copies);
}

// A value whose storage is gone may be seen through another one (DLPack), and
// nobody has taken its memory in a pass in which eager allocates nothing: the
// session's ops are all that take memory in the order of its stream.
std::vector<kernels::RangeCopy> Instance::Given(uint32_t end_op) const {
  std::vector<kernels::RangeCopy> copies;
  for (const ValueId v : program_->effects.privates()) {
    if (program_->effects.last_writer(v) >= end_op) continue;
    const StoragePlace& place = bound_[v].place;
    const Frontend& frontend = *trace_->frontend;
    if (eager_allocates_ && !(frontend.Alive(place.storage) &&
                              frontend.Base(place.storage) == place.base)) {
      continue;
    }
    const kernels::RangeCopy taking = Taking(v);
    copies.push_back({taking.from, taking.to, taking.bytes});
  }
  return copies;
}

base::Status Instance::GivePrivates() {
  const std::vector<kernels::RangeCopy> copies = Given(kNoLaunch);
  if (copies.empty()) return {};
  return MakeRight([&] { return parts_.executor->CopyAll(copies); });
}

bool Instance::SameWords(uint32_t index, const OpView& op) const {
  const TracedOp& expected = trace_->ops[index];
  if (op.op != expected.op || op.words.size() != expected.words.size() ||
      op.operands.size() != expected.operands.size()) {
    return false;
  }
  if (std::memcmp(op.words.data(), expected.words.data(),
                  op.words.size_bytes()) == 0) [[likely]] {
    return true;
  }
  return !expected.slots.empty() &&
         SameWordsAround(expected, &program_->effects.changing(index), op);
}

bool Instance::SameWordsAround(const TracedOp& expected,
                               const SlotSet* changing,
                               const OpView& op) const {
  const auto same = [&](size_t begin, size_t end) {
    // Between elements of a list there is a word.
    if (end - begin == 1) return op.words[begin] == expected.words[begin];
    return std::memcmp(op.words.data() + begin, expected.words.data() + begin,
                       (end - begin) * sizeof(uint64_t)) == 0;
  };
  size_t next = 0;
  for (size_t i = 0; i < expected.slots.size(); ++i) {
    const ScalarSlot& slot = expected.slots[i];
    const Scalar& recorded = slot.recorded;
    if (!same(next, recorded.word)) return false;
    next = recorded.word + 1;
    // Words that follow may say that this op has no slots.
    if (slot.scalar >= op.scalars.size()) return false;
    const Scalar& now = op.scalars[slot.scalar];
    if (now.word != recorded.word) return false;
    const bool may_change =
        changing == nullptr || (!changing->empty() && (*changing)[i]);
    if (!may_change) {
      if (now.bits != recorded.bits) return false;
    } else if (i == 0 || !SameNumbers(expected.slots[i - 1], slot, op)) {
      if (Marker(now) != Marker(recorded)) return false;
    }
  }
  return same(next, op.words.size());
}

bool Instance::OtherNumbers(uint32_t index, const OpView& op) const {
  const TracedOp& expected = trace_->ops[index];
  return !expected.slots.empty() && op.op == expected.op &&
         op.words.size() == expected.words.size() &&
         op.operands.size() == expected.operands.size() &&
         !SameWordsAround(expected, &program_->effects.changing(index), op) &&
         SameWordsAround(expected, nullptr, op) && SameBound(index, op);
}

bool Instance::SameBound(uint32_t index, const OpView& op) const {
  if (index == 0) return true;
  const TracedOp& expected = trace_->ops[index];
  for (size_t i = 0; i < op.operands.size(); ++i) {
    const ValueRef& ref = expected.operands[i];
    const Value& value = trace_->values[ref.value];
    if (program_->effects.late(ref.value) && value.birth_op == index) continue;
    const uint64_t origin = shadowed_ && !value.external
                                ? shadow_[ref.value].base
                                : bound_[ref.value].origin;
    if (op.operands[i].address() != origin + ref.offset_bytes) return false;
  }
  return true;
}

Instance::Readiness Instance::BindScalars(uint32_t index, const OpView& op) {
  const TracedOp& expected = trace_->ops[index];
  if (program_->effects.changing(index).empty()) return Readiness::kReady;
  numbers_.clear();
  for (const ScalarSlot& slot : expected.slots) {
    numbers_.push_back(op.scalars[slot.scalar].bits);
  }
  switch (parts_.executor->SetScalars(index, numbers_)) {
    case Executor::Fit::kBound:
      break;
    case Executor::Fit::kUntold:
      return Readiness::kUntold;
    case Executor::Fit::kOutside:
      return Readiness::kOtherOp;
  }
  return Readiness::kReady;
}

Instance::Readiness Instance::BindDraws(uint32_t source) {
  const Draws& draws = program_->effects.draws();
  const GeneratorState now = trace_->frontend->Generator();
  if (!draws.sources()[source].Takes(now)) return Readiness::kElsewhere;
  for (size_t i = 0; i < generator_.size(); ++i) {
    const engine::Draw& draw = draws.ahead()[i];
    if (draw.source != source) continue;
    generator_[i] = now.After(draw.ahead);
    parts_.executor->SetGenerator(draw.op, generator_[i]);
  }
  return Readiness::kReady;
}

void Instance::GoOnDrawing(uint32_t draw) {
  const std::span<const engine::Draw> ahead = program_->effects.draws().ahead();
  next_draw_ = draw;
  next_draw_op_ = draw < ahead.size() ? ahead[draw].op : kNoLaunch;
  next_stop_op_ = std::min(next_launch_op_, next_draw_op_);
}

bool Instance::Draw() {
  const uint64_t increment =
      program_->effects.draws().ahead()[next_draw_].increment;
  const GeneratorState& at = generator_[next_draw_];
  if (!trace_->frontend->MoveGenerator(at, at.After(increment))) return false;
  GoOnDrawing(next_draw_ + 1);
  return true;
}

void Instance::TakeBackDraw() {
  GoOnDrawing(next_draw_ - 1);
  const uint64_t increment =
      program_->effects.draws().ahead()[next_draw_].increment;
  const GeneratorState& at = generator_[next_draw_];
  // Where others have used it meanwhile, they have used what lies behind.
  (void)trace_->frontend->MoveGenerator(at.After(increment), at);
}

bool Instance::DrawsBesideEager() {
  if (trace_->frontend->Generator() != generator_[next_draw_]) return false;
  GoOnDrawing(next_draw_ + 1);
  return true;
}

bool Instance::DrewBesideEager(uint32_t op) const {
  if (next_draw_ == 0) return true;
  const engine::Draw& last = program_->effects.draws().ahead()[next_draw_ - 1];
  return last.op != op || trace_->frontend->Generator() ==
                              generator_[next_draw_ - 1].After(last.increment);
}

bool Instance::Matches(uint32_t index, const OpView& op) const {
  if (!SameWords(index, op)) return false;
  const TracedOp& expected = trace_->ops[index];
  for (size_t i = 0; i < op.operands.size(); ++i) {
    const ValueRef& ref = expected.operands[i];
    const Bound& bound = bound_[ref.value];
    const Operand& operand = op.operands[i];
    if (operand.address() != bound.origin + ref.offset_bytes) return false;
    // Freed memory may be another storage's by now.
    if (operand.storage != bound.place.storage &&
        bound.place.storage != nullptr) {
      return false;
    }
  }
  return true;
}

bool Instance::MatchesShadow(uint32_t index, const OpView& op) const {
  if (!SameWords(index, op)) return false;
  const TracedOp& expected = trace_->ops[index];
  for (size_t i = 0; i < op.operands.size(); ++i) {
    const ValueRef& ref = expected.operands[i];
    const bool external = trace_->values[ref.value].external;
    const Bound& bound = bound_[ref.value];
    const StoragePlace& shadow = shadow_[ref.value];
    const uint64_t origin = external ? bound.origin : shadow.base;
    if (op.operands[i].address() != origin + ref.offset_bytes) return false;
    if (op.operands[i].storage !=
        (external ? bound.place.storage : shadow.storage)) {
      return false;
    }
  }
  return true;
}

void Instance::Shadow(ValueId value, const StoragePlace& place) {
  holds_->Watch(place.storage);
  shadow_[value] = place;
  shadowed_ = true;
}

void Instance::BindTo(const ValueRef& ref, const Operand& operand) {
  const ValueId value = ref.value;
  BindAt(value, operand.address() - ref.offset_bytes);
  // The trace's own storages are weakly held by it.
  if ((watched_[value] || !program_->effects.input(value)) &&
      operand.storage != trace_->values[value].storage) {
    holds_->Watch(operand.storage);
  }
  bound_[value].place = {operand.storage, operand.base};
}

bool Instance::Apart(const Operand& operand, ValueId value) const {
  const uint64_t begin = operand.base;
  const uint64_t end = begin + operand.storage_bytes;
  const auto apart = [&](ValueId v, uint64_t origin) {
    return end <= origin || origin + program_->place_bytes[v] <= begin;
  };
  if (begin < arena_end_ && arena_begin_ < end) {
    for (const ValueId v : plan_->outputs()) {
      if (!apart(v, bound_[v].origin)) return false;
    }
  }
  for (const ValueId v : plan_->escaping()) {
    if (!apart(v, bound_[v].origin)) return false;
  }
  // What the program has there is written behind the pass only.
  for (const ValueId v : program_->effects.privates()) {
    const Bound& bound = bound_[v];
    if (v != value && bound.place.base < end &&
        begin < bound.origin + trace_->values[v].size_bytes) {
      return false;
    }
  }
  if (!shadowed_) return true;
  // Eager gives the memory of what the program has dropped to what comes next.
  return std::ranges::all_of(plan_->outputs(), [&](ValueId v) {
    const StoragePlace& shadow = shadow_[v];
    return shadow.storage == nullptr || apart(v, shadow.base) ||
           !trace_->frontend->Alive(shadow.storage);
  });
}

bool Instance::HeadIsApart(const OpView& head) const {
  for (size_t i = 0; i < head.operands.size(); ++i) {
    if (!Apart(head.operands[i], trace_->ops[0].operands[i].value)) {
      return false;
    }
  }
  return true;
}

bool Instance::IsMoved(ValueId value) const {
  const Value& recorded = trace_->values[value];
  const Bound& bound = bound_[value];
  return recorded.external && (bound.origin != recorded.origin ||
                               bound.place.base != recorded.base ||
                               bound.place.storage != recorded.storage);
}

bool Instance::MovesOntoWrites(const OpView& head) const {
  const std::vector<ValueRef>& refs = trace_->ops[0].operands;
  for (size_t i = 0; i < refs.size(); ++i) {
    const ValueId v = refs[i].value;
    if (program_->effects.input(v) || !IsMoved(v)) continue;
    const Operand& operand = head.operands[i];
    for (const ValueId written : program_->effects.written_outside()) {
      const uint64_t end =
          bound_[written].origin + trace_->values[written].size_bytes;
      if (written != v && operand.base < end &&
          bound_[written].place.base < operand.base + operand.storage_bytes) {
        return true;
      }
    }
  }
  return false;
}

bool Instance::WritesApart(uint32_t index, const OpView& op) const {
  if (!program_->effects.writes_outside(index)) return true;
  const std::vector<ValueRef>& refs = trace_->ops[index].operands;
  if (std::ranges::none_of(
          refs, [this](const ValueRef& ref) { return IsMoved(ref.value); })) {
    return true;
  }
  std::vector<size_t> by_place(refs.size());
  std::iota(by_place.begin(), by_place.end(), size_t{0});
  std::ranges::sort(by_place, {}, [&op](size_t i) {
    return std::pair(op.operands[i].base, op.operands[i].storage_bytes);
  });
  const auto end = [&op](size_t i) {
    return op.operands[i].base + op.operands[i].storage_bytes;
  };
  // Of those that begin earlier, the ones that reach furthest.
  std::optional<size_t> any;
  std::optional<size_t> written;
  for (const size_t i : by_place) {
    const std::optional<size_t>& other = refs[i].written ? any : written;
    if (other.has_value() && refs[*other].value != refs[i].value &&
        op.operands[i].base < end(*other)) {
      return false;
    }
    if (!any.has_value() || end(*any) < end(i)) any = i;
    if (refs[i].written && (!written.has_value() || end(*written) < end(i))) {
      written = i;
    }
  }
  return true;
}

bool Instance::Uses(uint64_t begin, uint64_t end) const {
  for (ValueId v = 0; v < bound_.size(); ++v) {
    const Value& value = trace_->values[v];
    const Bound& bound = bound_[v];
    if (value.external && bound.place.base < end &&
        begin < bound.origin + value.size_bytes) {
      return true;
    }
  }
  return false;
}

bool Instance::Secure() {
  if (broken()) return false;
  touched_.clear();
  for (const ValueId v : externals_[next_segment_]) {
    touched_.push_back(bound_[v].place);
  }
  if (!plan_->escaping().empty()) {
    for (const ValueId v : values_[next_segment_]) {
      const StoragePlace& place = bound_[v].place;
      if (place.storage != nullptr) touched_.push_back(place);
    }
  }
  return touched_.empty() || holds_->Hold(touched_);
}

bool Instance::Stands() const {
  if (broken()) return false;
  const Frontend& frontend = *trace_->frontend;
  const auto stands = [&](ValueId v) {
    const StoragePlace& place = bound_[v].place;
    return place.storage == nullptr ||
           (frontend.Alive(place.storage) &&
            frontend.Base(place.storage) == place.base);
  };
  return std::all_of(lasting_.begin(), lasting_.end(), stands) &&
         std::all_of(plan_->escaping().begin(), plan_->escaping().end(),
                     stands);
}

void Instance::Own(ValueId value, StorageToken storage) {
  // Behind the last op nothing is touched any more.
  if (holds_ == nullptr || !plan_->escapes(value)) return;
  holds_->Watch(storage);
  bound_[value].place = {storage, bound_[value].origin};
}

Instance::Readiness Instance::Resolve(const OpView& head, StorageHolds& holds) {
  holds_ = &holds;
  Readiness readiness = ResolveHead(head);
  if (readiness == Readiness::kReady) readiness = ResolveOthers();
  if (readiness == Readiness::kReady) readiness = ResolveOutputs();
  // Behind it: a place that was found free may have been lent until just now,
  // and its borrowers are told of before it is free.
  if (readiness == Readiness::kReady && !WaitForBorrowers()) {
    readiness = Readiness::kNoMemory;
  }
  if (readiness == Readiness::kReady &&
      (MovesOntoWrites(head) || !HeadIsApart(head))) {
    readiness = Readiness::kOtherOp;
  }
  next_segment_ = 0;
  launched_ops_ = 0;
  next_launch_op_ = kNoLaunch;
  GoOnDrawing(0);
  if (readiness != Readiness::kReady) Finish();
  return readiness;
}

bool Instance::WaitForBorrowers() {
  std::optional<std::vector<device::UniqueEvent>> uses = ledger_->TakeUses();
  if (!uses.has_value()) return false;
  for (const device::UniqueEvent& use : *uses) {
    if (parts_.executor->WaitFor(use.get())) continue;
    ledger_->ReturnUses(*std::move(uses));
    return false;
  }
  return true;
}

Instance::Readiness Instance::ResolveHead(const OpView& head) {
  if (!SameWords(0, head)) {
    return OtherNumbers(0, head) ? Readiness::kUntold : Readiness::kOtherOp;
  }
  const TracedOp& expected = trace_->ops[0];
  for (size_t i = 0; i < head.operands.size(); ++i) {
    const ValueRef& ref = expected.operands[i];
    const uint64_t origin = head.operands[i].address() - ref.offset_bytes;
    if (!program_->movable[ref.value] &&
        origin != trace_->values[ref.value].origin) {
      return Readiness::kUnproven;
    }
  }
  for (size_t i = 0; i < head.operands.size(); ++i) {
    BindTo(expected.operands[i], head.operands[i]);
  }
  // Another storage than the one that the copy was made for.
  for (size_t i = 0; i < head.operands.size(); ++i) {
    const ValueId v = expected.operands[i].value;
    if (program_->effects.is_private(v) &&
        (IsMoved(v) ||
         head.operands[i].storage_bytes != trace_->values[v].size_bytes)) {
      return Readiness::kUnproven;
    }
  }
  // A value that the head uses twice must be one value now as well.
  return Matches(0, head) && WritesApart(0, head) ? BindScalars(0, head)
                                                  : Readiness::kOtherOp;
}

Instance::Readiness Instance::ResolveOthers() {
  if (broken()) return Readiness::kReplaced;
  if (std::ranges::any_of(plan_->others(),
                          [this](ValueId v) { return IsReplaced(v); })) {
    return Readiness::kReplaced;
  }
  return program_->effects.draws().uses_head() ? BindDraws(Draws::kHead)
                                               : Readiness::kReady;
}

bool Instance::IsReplaced(ValueId value) const {
  const Value& recorded = trace_->values[value];
  const Frontend& frontend = *trace_->frontend;
  return !frontend.Alive(recorded.storage) ||
         frontend.Base(recorded.storage) != recorded.base;
}

std::vector<ValueId> Instance::Replaced() const {
  std::vector<ValueId> replaced;
  std::ranges::copy_if(plan_->others(), std::back_inserter(replaced),
                       [this](ValueId v) { return IsReplaced(v); });
  return replaced;
}

Instance::Readiness Instance::BindLate(const OpView& op) {
  const Segment& segment = program_->segments[next_segment_];
  if (!segment.gated || launched_ops_ > segment.first_op ||
      !SameWords(segment.first_op, op)) {
    return Readiness::kReady;
  }
  const TracedOp& expected = trace_->ops[segment.first_op];
  for (size_t i = 0; i < op.operands.size(); ++i) {
    const ValueRef& ref = expected.operands[i];
    const Value& value = trace_->values[ref.value];
    if (!program_->effects.late(ref.value) ||
        value.birth_op != segment.first_op)
      continue;
    const uint64_t origin = op.operands[i].address() - ref.offset_bytes;
    if (!program_->movable[ref.value] && origin != value.origin) {
      return Readiness::kUnproven;
    }
    if (!Apart(op.operands[i], ref.value)) return Readiness::kOtherOp;
    BindTo(ref, op.operands[i]);
  }
  if (!WritesApart(segment.first_op, op)) return Readiness::kOtherOp;
  const Readiness bound = BindScalars(segment.first_op, op);
  if (bound != Readiness::kReady) return bound;
  const std::optional<uint32_t> source =
      program_->effects.draws().ToldBy(segment.first_op);
  return source.has_value() ? BindDraws(*source) : Readiness::kReady;
}

Instance::Readiness Instance::ResolveOutputs() {
  for (const ValueId v : outlived_) plan_->Escape(v);
  if (ledger_->leased()) {
    for (ValueId v : plan_->outputs()) {
      if (!ledger_->leased(v)) continue;
      if (!plan_->escapes(v) && !neighbours_[v].empty()) {
        outlived_.push_back(v);
      }
      plan_->Escape(v);
      // Nor may others be written over it.
      for (const ValueId other : neighbours_[v]) plan_->Escape(other);
    }
  }
  for (ValueId v : plan_->escaping()) {
    if (!BindFresh(v)) return Readiness::kNoMemory;
  }
  return Readiness::kReady;
}

base::Status Instance::BindFresh(ValueId value) {
  if (!fresh_[value]) {
    REPRISE_ASSIGN_OR_RETURN(fresh_[value], trace_->frontend->Allocate(
                                                program_->place_bytes[value]));
    ++escapes_;
  }
  BindAt(value, fresh_[value].address());
  bound_[value].place = {};
  return {};
}

bool Instance::HasRoom() {
  const std::vector<ValueId>& followers = followers_[next_segment_];
  // Of a launch that got stuck, some have their places already.
  if (followers.empty() ||
      launched_ops_ > program_->segments[next_segment_].first_op) {
    return true;
  }
  const size_t outlived = outlived_.size();
  for (const ValueId v : followers) {
    if (plan_->escapes(v)) continue;
    for (const ValueId other : neighbours_[v]) {
      if (other >= v) break;
      if (ledger_->leased(other)) outlived_.push_back(other);
    }
  }
  // Behind it: see Resolve.
  return outlived_.size() == outlived && WaitForBorrowers();
}

base::Status Instance::LaunchNext() {
  const Segment& segment = program_->segments[next_segment_];
  const uint32_t from = std::max(launched_ops_, segment.first_op);
  Executor::Progress progress =
      parts_.executor->LaunchSegment(next_segment_, from);
  if (progress.status) {
    GoOnFrom(from);
  } else {
    launched_ops_ = progress.end_op;
    next_launch_op_ = progress.end_op;
    next_stop_op_ = std::min(next_launch_op_, next_draw_op_);
  }
  return std::move(progress.status);
}

void Instance::GoOnFrom(uint32_t op) {
  const Segment& segment = program_->segments[next_segment_];
  launched_ops_ = segment.end_op;
  ++next_segment_;
  next_launch_op_ =
      next_segment_ == program_->segments.size()
          ? kNoLaunch
          : LaunchedAt(program_->segments[next_segment_], segment, op);
  next_stop_op_ = std::min(next_launch_op_, next_draw_op_);
}

Block Instance::TakeBlock(ValueId value) {
  if (plan_->escapes(value)) return std::move(fresh_[value]);
  return ledger_->Lease(value, bound_[value].origin);
}

void Instance::Finish() {
  next_segment_ = 0;
  launched_ops_ = 0;
  if (shadowed_) std::ranges::fill(shadow_, StoragePlace{});
  shadowed_ = false;
  if (holds_ != nullptr) holds_->EndPass();
  holds_ = nullptr;
}

base::Status Instance::Squash(uint32_t verified) {
  const uint32_t launched = launched_ops_;
  const std::vector<kernels::RangeCopy> given = Given(verified);
  const auto needed = [this](ValueId v) {
    return plan_->escapes(v) ? !fresh_[v] : ledger_->leased(v);
  };
  const std::vector<uint32_t> ops =
      program_->effects.OpsToRestore(verified, launched, needed);
  std::vector<kernels::RangeCopy> taken;
  for (const ValueId v : program_->effects.TakenAgain(ops)) {
    taken.push_back(Taking(v));
  }
  Finish();
  // Each value is rebuilt from its birth on, and private ones are given behind
  // all that takes them, so it may be begun again.
  Executor& executor = *parts_.executor;
  base::Status restored = MakeRight([&]() -> base::Status {
    if (!taken.empty()) REPRISE_RETURN_IF_ERROR(executor.CopyAll(taken));
    for (const uint32_t k : ops) {
      REPRISE_RETURN_IF_ERROR(executor.LaunchOp(k));
    }
    return {};
  });
  if (given.empty()) return restored;
  base::Status gave = MakeRight([&] { return executor.CopyAll(given); });
  return restored ? std::move(gave) : std::move(restored);
}

}  // namespace reprise::engine
