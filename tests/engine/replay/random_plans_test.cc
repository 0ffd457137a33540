// Random plans on memory of symbols: whatever the program keeps, drops early or
// late, and wherever it leaves, it has what its ops would have made in turn.
// The launches of a graph are done in any order that what they wait for allows.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/device/launch_graph.h"
#include "engine/program/layout.h"
#include "engine/program/program.h"
#include "engine/program/reach.h"
#include "engine/replay/plan.h"
#include "tests/engine/fake_executor.h"
#include "tests/engine/fake_frontend.h"

namespace reprise::engine {
namespace {

constexpr uint64_t kUnit = 512;  // each holds a symbol; a value is a few
constexpr uint64_t kArena = 0x7f50'0000'0000;
constexpr uint64_t kArenaBytes = uint64_t{1} << 32;
constexpr uint32_t kInstances = 2;
constexpr int kPasses = 8;
constexpr uint32_t kAtTheEnd = 1000;  // beyond all ops

using Symbol = uint64_t;

Symbol Mix(Symbol a, Symbol b) {
  a ^= b * 0x9E3779B97F4A7C15;
  a ^= a >> 29;
  a *= 0xBF58476D1CE4E5B9;
  return a ^ a >> 32;
}

uint64_t Units(const Trace& trace, ValueId value) {
  return trace.values[value].size_bytes / kUnit;
}

// What recorded work has that no op tells.
struct Work {
  std::vector<Reach> reach;        // by op
  std::vector<uint32_t> launches;  // by op, one or two
};

// What the op makes and writes is made of all that it reads and writes over,
// and, if it is nondeterministic, of `run`. `at(value, unit)` is a symbol.
template <typename At>
Symbol Gather(const Trace& trace, uint32_t k, Symbol run, At at) {
  const TracedOp& op = trace.ops[k];
  Symbol all = Mix(k + 1, op.nondeterministic ? run : 0);
  for (const ValueRef& ref : op.operands) {
    for (uint64_t i = 0; i < Units(trace, ref.value); ++i) {
      all = Mix(all, at(ref.value, i));
    }
  }
  return all;
}

template <typename At>
void Scatter(const Trace& trace, uint32_t k, Symbol all, At at) {
  const TracedOp& op = trace.ops[k];
  const auto write = [&](ValueId value, Symbol how) {
    for (uint64_t i = 0; i < Units(trace, value); ++i) {
      at(value, i) = Mix(all, Mix(value + how, i));
    }
  };
  for (const ValueRef& ref : op.operands) {
    if (ref.written) write(ref.value, 77);
  }
  for (const ResultSpec& result : op.results) write(result.value, 0);
}

// So many symbols of other memory does the op write, and read again.
uint64_t Notes(const Trace& trace, const Work& work, uint32_t k) {
  uint64_t units = work.reach[k].libraries ? 1 : 0;
  for (const Allocation& temporary : trace.ops[k].temporaries) {
    units += temporary.size_bytes / kUnit;
  }
  return units;
}

// The device's memory, and what has run on it.
struct Device {
  std::unordered_map<uint64_t, Symbol> memory;
  Symbol runs = 0;
  std::vector<Symbol> run_of;  // by op, when a segment had it
  uint64_t run_again = 0;      // ops, by squashes
  uint64_t at_once = 0;        // segments, with those before them
  uint64_t branched = 0;       // graphs
  uint64_t disturbed = 0;      // ops that run alone, and did not
  std::mt19937_64 order;
};

// A library's.
constexpr uint64_t kWorkspace = 0x7e00'0000'0000;

class SymbolicExecutor final : public FakeExecutor {
 public:
  SymbolicExecutor(Log* log, const Program& program, const Work& work,
                   uint64_t arena, Device* device)
      : FakeExecutor(log),
        program_(program),
        work_(work),
        arena_(arena),
        device_(*device),
        origins_(program.trace->values.size()),
        runs_(program.trace->ops.size(), 0) {
    op_begin_.push_back(0);
    for (uint32_t k = 0; k < work_.launches.size(); ++k) {
      op_begin_.push_back(op_begin_.back() + work_.launches[k]);
      op_of_.resize(op_begin_.back(), k);
    }
    launches_.resize(op_of_.size());
  }

  void Bind(ValueId value, uint64_t origin) override {
    origins_[value] = origin;
  }
  Progress LaunchSegment(size_t segment, uint32_t first_op) override {
    RunGraph(first_op, program_.segments[segment].end_op);
    return {};
  }
  Progress LaunchSegments(size_t first,
                          std::span<const Segment> segments) override {
    device_.at_once += segments.size() - 1;
    if (device_.order() % 2 == 0) {
      return FakeExecutor::LaunchSegments(first, segments);
    }
    RunGraph(segments.front().first_op, segments.back().end_op);
    return {};
  }
  base::Status LaunchOp(size_t op) override {
    for (uint32_t i = op_begin_[op]; i < op_begin_[op + 1]; ++i) Run(i);
    ++device_.run_again;
    return {};
  }

 private:
  void RunGraph(uint32_t first_op, uint32_t end_op) {
    const uint32_t begin = op_begin_[first_op];
    const uint32_t end = op_begin_[end_op];
    std::optional<device::Dependencies> order =
        program_.branches.Order(first_op, end_op, launches_, op_begin_);
    if (order.has_value()) {
      ++device_.branched;
    } else {
      order.emplace(end - begin);
      for (uint32_t i = 1; i < order->size(); ++i) (*order)[i] = {i - 1};
    }
    std::vector<bool> done(end - begin, false);
    for (uint32_t ran = 0; ran < done.size(); ++ran) {
      std::vector<uint32_t> ready;
      for (uint32_t i = 0; i < done.size(); ++i) {
        if (!done[i] && std::ranges::all_of((*order)[i], [&](uint32_t before) {
              return done[before];
            })) {
          ready.push_back(i);
        }
      }
      const uint32_t next = ready[device_.order() % ready.size()];
      done[next] = true;
      LookForDisturbed(begin, begin + next, done);
      Run(begin + next);
      device_.run_of[op_of_[begin + next]] = runs_[op_of_[begin + next]];
    }
  }

  // Behind an op that runs alone nothing begins before it has ended.
  void LookForDisturbed(uint32_t begin, uint32_t launch,
                        const std::vector<bool>& done) {
    const uint32_t k = op_of_[launch];
    for (uint32_t i = begin; i < op_begin_[k]; ++i) {
      const bool alone = work_.reach[op_of_[i]].alone || work_.reach[k].alone;
      if (alone && !done[i - begin]) ++device_.disturbed;
    }
  }

  // An op's last launch writes what the op does; one before it takes notes,
  // which the last one reads.
  void Run(uint32_t launch) {
    const uint32_t k = op_of_[launch];
    const auto at = [this](ValueId value, uint64_t unit) -> Symbol& {
      return device_.memory[origins_[value] + unit * kUnit];
    };
    if (launch == op_begin_[k]) runs_[k] = ++device_.runs;
    Symbol all = Gather(*program_.trace, k, runs_[k], at);
    const bool last = launch + 1 == op_begin_[k + 1];
    const Symbol noted = all;
    const auto note = [&](uint64_t address) {
      Symbol& symbol = device_.memory[address];
      if (!last) symbol = noted;
      all = Mix(all, symbol);
    };
    const TracedOp& op = program_.trace->ops[k];
    for (size_t t = 0; t < op.temporaries.size(); ++t) {
      for (uint64_t at = 0; at < op.temporaries[t].size_bytes; at += kUnit) {
        note(arena_ + program_.layout.temporaries[k][t] + at);
      }
    }
    if (work_.reach[k].libraries) note(kWorkspace);
    if (last) Scatter(*program_.trace, k, all, at);
  }

  const Program& program_;
  const Work& work_;
  const uint64_t arena_;
  Device& device_;
  std::vector<uint64_t> origins_;
  std::vector<Symbol> runs_;        // by op, its latest
  std::vector<uint32_t> op_begin_;  // as LaunchProgram has it
  std::vector<uint32_t> op_of_;     // by launch
  std::vector<device::Launch> launches_;
};

// How often what is to be tested came about.
struct Counts {
  uint64_t plans_that_share = 0;
  uint64_t squashes = 0;
  uint64_t squashes_that_ran_ops = 0;
  uint64_t left_for_room = 0;
  uint64_t at_once = 0;
  uint64_t cut_short = 0;  // what was foretold
  uint64_t built_anew = 0;
  uint64_t branched = 0;  // graphs
};

// A program, its plan, and some passes.
class Subject {
 public:
  Subject(uint64_t seed, Counts* counts) : random_(seed), counts_(*counts) {
    MakeTrace();
    Build();
    device_.order.seed(seed);
  }
  ~Subject() {
    held_.clear();
    counts_.branched += device_.branched;
    counts_.at_once += device_.at_once;
  }

  // What went wrong; empty if nothing did.
  std::string Run() {
    for (int pass = 0; pass < kPasses && failure_.str().empty(); ++pass) Pass();
    return failure_.str();
  }

 private:
  // A tensor of the program.
  struct Held {
    Block block;
    ValueId value = 0;
    uint64_t base = 0;
    StorageToken storage = nullptr;
    uint32_t until = 0;  // dropped before that op; kAtTheEnd or more: later
    std::vector<Symbol> wanted = {};
  };

  uint64_t Below(uint64_t end) { return random_() % end; }
  bool OneIn(uint64_t n) { return Below(n) == 0; }

  ValueId MakeValue(bool external, uint32_t op) {
    const auto id = static_cast<ValueId>(trace_->values.size());
    Value& value = trace_->values.emplace_back();
    value.external = external;
    value.birth_op = op;
    value.size_bytes = kUnit * (1 + Below(4));
    value.origin = value.base = 0x7f00'0000'0000 + uint64_t{id} * 0x10000;
    if (external && last_external_.has_value() && OneIn(5)) {
      // They may lie in one memory.
      value.origin = trace_->values[*last_external_].origin + kUnit * Below(3);
      value.base = value.origin;
    }
    if (external) last_external_ = id;
    value.storage = Token(id + 1);
    frontend_.Retain(value.storage);
    if (external) frontend_.bases[value.storage] = value.base;
    last_use_.push_back(op);
    return id;
  }

  void MakeTrace() {
    const auto ops = static_cast<uint32_t>(6 + Below(35));
    uint64_t externals = 1 + Below(4);
    const uint64_t writes = Below(67);  // of a hundred
    const bool nondeterministic = OneIn(2);
    const bool writes_outside = OneIn(3);
    for (uint32_t k = 0; k < ops; ++k) {
      TracedOp& op = trace_->ops.emplace_back();
      op.op = k;
      op.words = {k, 1};
      op.nondeterministic = nondeterministic && OneIn(8);
      op.may_trap = OneIn(15);
      std::set<ValueId> used;
      const uint64_t operands = 1 + Below(3);
      for (uint64_t i = 0; i < operands; ++i) {
        const uint64_t known = trace_->values.size();
        ValueId value = 0;
        if (known == 0 || (externals > 0 && OneIn(8))) {
          if (externals > 0) --externals;
          value = MakeValue(/*external=*/true, k);
        } else {
          const uint64_t back = Below(OneIn(4) ? known : 4);
          value = static_cast<ValueId>(known - 1 - std::min(back, known - 1));
        }
        if (!used.insert(value).second) continue;
        ValueRef ref;
        ref.value = value;
        ref.written = i == 0 && k > 0 && Below(100) < writes &&
                      (writes_outside || !trace_->values[value].external);
        trace_->ops[k].operands.push_back(ref);
        if (ref.written) trace_->ops[k].written.emplace_back();
        last_use_[value] = k;
      }
      while (OneIn(4)) {
        trace_->ops[k].temporaries.push_back({0, kUnit * (1 + Below(3))});
      }
      work_.reach.push_back({.alone = OneIn(15), .libraries = OneIn(10)});
      work_.launches.push_back(
          1 + (Notes(*trace_, work_, k) > 0 || OneIn(4) ? 1 : 0));
      const uint64_t results = OneIn(10) ? 2 : OneIn(10) ? 0 : 1;
      for (uint64_t i = 0; i < results; ++i) {
        ResultSpec result;
        result.kind = ResultSpec::Kind::kValue;
        result.value = MakeValue(/*external=*/false, k);
        trace_->ops[k].results.push_back(result);
      }
    }
    const uint64_t living = Below(60);  // of a hundred
    for (ValueId v = 0; v < trace_->values.size(); ++v) {
      Value& value = trace_->values[v];
      const auto dead_at = static_cast<uint32_t>(last_use_[v] + 1 + Below(3));
      const bool lives = Below(100) < living || dead_at >= ops;
      if (!value.external) value.dead_at = lives ? Value::kLives : dead_at;
      value.held = OneIn(2);
      if (value.external && value.birth_op > 0 && OneIn(3)) {
        inputs_.push_back(v);
      }
    }
    segment_ops_ = static_cast<uint32_t>(1 + Below(8));
    segment_bytes_ = OneIn(3) ? 0 : kArenaBytes;
    zone_bytes_ = OneIn(2) ? kUnit * Below(4) : kArenaBytes;
  }

  void Build() {
    plan_.reset();
    auto program = std::make_shared<Program>(trace_);
    for (const Value& value : trace_->values) {
      program->place_bytes.push_back(value.external ? 0 : value.size_bytes);
    }
    for (const TracedOp& op : trace_->ops) {
      for (const Allocation& temporary : op.temporaries) {
        program->place_bytes.push_back(temporary.size_bytes);
      }
    }
    program->movable.assign(trace_->values.size(), true);
    program->effects =
        Effects(trace_.get(), inputs_, {}, Effects::Remake::kWhatLasts);
    Arrangement how{.launches = work_.launches,
                    .segment_launches = segment_ops_,
                    .max_arena_bytes = kArenaBytes,
                    .zone_bytes = zone_bytes_,
                    .lanes_bytes = kArenaBytes,
                    .least_segment_bytes = segment_bytes_,
                    .least_result_bytes = 0};
    ASSERT_TRUE(Arrange(*program, *trace_, how));
    // In lanes, with as much memory as without, or more.
    how.reach = work_.reach;
    if (OneIn(2)) {
      how.max_arena_bytes = program->layout.size_bytes + kUnit * Below(16);
    }
    ASSERT_TRUE(Arrange(*program, *trace_, how));
    uint64_t apart = 0;
    for (const Value& value : trace_->values) {
      if (!value.external) apart += PlaceBytes(value.size_bytes);
    }
    if (program->layout.size_bytes < apart) ++counts_.plans_that_share;
    plan_ = std::make_unique<Plan>(program, Parts(*program));
    for (uint32_t i = 1; i < kInstances; ++i) plan_->Add(Parts(*program));
  }

  InstanceParts Parts(const Program& program) {
    InstanceParts parts;
    const uint64_t arena = kArena + arenas_++ * kArenaBytes;
    parts.arena = Block(arena, nullptr, [](void*) {});
    parts.executor = std::make_unique<SymbolicExecutor>(&log_, program, work_,
                                                        arena, &device_);
    for (ValueId v = 0; v < trace_->values.size(); ++v) {
      const Value& value = trace_->values[v];
      parts.places.push_back(value.external ? 0
                                            : arena + program.layout.places[v]);
      parts.executor->Bind(v, value.external ? value.origin : parts.places[v]);
    }
    return parts;
  }

  // --- A pass ---

  std::vector<Symbol> At(uint64_t base, ValueId value) {
    std::vector<Symbol> symbols;
    for (uint64_t i = 0; i < Units(*trace_, value); ++i) {
      symbols.push_back(device_.memory[base + i * kUnit]);
    }
    return symbols;
  }
  // Externals may overlap.
  uint64_t Key(ValueId value, uint64_t unit) const {
    return trace_->values[value].origin + unit * kUnit;
  }
  std::vector<Symbol> Truth(ValueId value) {
    std::vector<Symbol> symbols;
    for (uint64_t i = 0; i < Units(*trace_, value); ++i) {
      symbols.push_back(truth_[Key(value, i)]);
    }
    return symbols;
  }
  void Fail(const char* what, uint32_t op, ValueId value) {
    failure_ << what << ", at op " << op << ", value " << value << "\n";
  }

  void Pass() {
    const auto ops = static_cast<uint32_t>(trace_->ops.size());
    device_.run_of.assign(ops, 0);
    truth_.clear();
    for (ValueId v = 0; v < trace_->values.size(); ++v) {
      if (!trace_->values[v].external) continue;
      for (uint64_t i = 0; i < Units(*trace_, v); ++i) {
        Symbol& symbol = device_.memory[Key(v, i)];
        if (OneIn(2)) symbol = random_();
        truth_[Key(v, i)] = symbol;
      }
    }
    instance_ = plan_->Choose().instance;
    if (!Resolve() || !instance_->RetainMemory()) {
      instance_->Finish();
      return;
    }
    ASSERT_TRUE(instance_->LaunchNext());
    kept_more_ = OneIn(3) ? Below(60) : 0;
    const uint64_t leave = OneIn(2) ? 1 + Below(ops) : ops;
    foretold_end_ = 0;
    Follow(0);
    uint32_t k = 1;
    for (; k < ops; ++k) {
      DropBefore(k);
      if (k == leave) break;
      if (k >= foretold_end_ && OneIn(8)) {
        Foretell(k, k + 1 + static_cast<uint32_t>(Below(leave - k)));
      }
      if (!LaunchIfDue(k)) break;
      Follow(k);
      if (k >= foretold_end_) CompareWhatIsWrittenLast(k);
    }
    if (k < ops) {
      Squash(k);
    } else {
      instance_->Finish();
    }
    CompareAll(k);
    EndPass();
  }

  bool Resolve() {
    std::vector<Operand> operands;
    for (const ValueRef& ref : trace_->ops[0].operands) {
      const Value& value = trace_->values[ref.value];
      Operand& operand = operands.emplace_back();
      operand.storage = value.storage;
      operand.base = value.base;
      operand.storage_bytes = value.size_bytes;
    }
    OpView head;
    head.words = trace_->ops[0].words;
    head.operands = operands;
    return instance_->Resolve(head, holds_) == Instance::Readiness::kReady;
  }

  // Ops are known to come, and of what they make the program is given what ops
  // behind them use, and some more.
  void Foretell(uint32_t op, uint32_t end_op) {
    foretold_at_ = op;
    foretold_end_ = end_op;
    taken_.clear();
    for (ValueId v = 0; v < trace_->values.size(); ++v) {
      const uint32_t birth = trace_->values[v].birth_op;
      if (trace_->values[v].external || birth < op || birth >= end_op) continue;
      if (last_use_[v] >= end_op || OneIn(4)) taken_.push_back(v);
    }
  }
  // The op has to be shown: of what those before it made, it and others may use
  // more.
  void CutShort(uint32_t k) {
    ++counts_.cut_short;
    foretold_end_ = 0;
    for (ValueId v = 0; v < trace_->values.size(); ++v) {
      const uint32_t birth = trace_->values[v].birth_op;
      if (!trace_->values[v].external && birth >= foretold_at_ && birth < k &&
          last_use_[v] >= k && !std::ranges::binary_search(taken_, v)) {
        Take(v);
      }
    }
  }

  bool LaunchIfDue(uint32_t k) {
    if (k != instance_->next_launch_op()) return true;
    if (k < foretold_end_) {
      if (instance_->foretold() && instance_->HasRoomNow() &&
          instance_->RetainMemory() && instance_->HasRoom()) {
        if (!instance_->LaunchForetold(
                k, {.end_op = foretold_end_, .taken = taken_})) {
          Fail("cannot be launched", k, 0);
        }
        return true;
      }
      CutShort(k);
    }
    if (!instance_->RetainMemory()) return false;
    if (!instance_->HasRoom()) {
      ++counts_.left_for_room;
      return false;
    }
    if (!instance_->LaunchNext()) Fail("cannot be launched", k, 0);
    return true;
  }

  // The program has the op's results, and what it would have by eager is known.
  void Follow(uint32_t k) {
    for (const ResultSpec& result : trace_->ops[k].results) {
      if (k >= foretold_end_ ||
          std::ranges::binary_search(taken_, result.value)) {
        Take(result.value);
      }
    }
    const auto at = [this](ValueId v, uint64_t i) -> Symbol& {
      return truth_[Key(v, i)];
    };
    const Symbol noted = Gather(*trace_, k, device_.run_of[k], at);
    Symbol all = noted;
    for (uint64_t i = Notes(*trace_, work_, k); i > 0; --i) {
      all = Mix(all, noted);
    }
    Scatter(*trace_, k, all, at);
  }
  void Take(ValueId v) {
    Held& held = held_.emplace_back();
    held.base = instance_->binding().origin(v);
    held.block = instance_->TakeBlock(v);
    held.value = v;
    held.storage = Token(++storages_);
    held.until = DroppedBefore(v);
    frontend_.bases[held.storage] = held.base;
    instance_->Own(v, held.storage);
  }
  // As when it was recorded, or not.
  uint32_t DroppedBefore(ValueId value) {
    const uint32_t dead_at = trace_->values[value].dead_at;
    const uint32_t unused = last_use_[value] + 1;
    if (Below(100) < kept_more_) {
      return OneIn(2) ? kAtTheEnd + 1
                      : unused + static_cast<uint32_t>(Below(8));
    }
    if (OneIn(10)) return unused;
    if (dead_at != Value::kLives) return dead_at;
    return OneIn(3) ? kAtTheEnd + 1 : kAtTheEnd;
  }
  void DropBefore(uint32_t op) {
    std::erase_if(held_, [this, op](const Held& held) {
      if (held.until > op) return false;
      frontend_.bases.erase(held.storage);
      return true;
    });
  }

  // As whole validations do, when the op is over.
  void CompareWhatIsWrittenLast(uint32_t k) {
    for (ValueId v = 0; v < trace_->values.size(); ++v) {
      if (!trace_->values[v].external && trace_->ops[k].Writes(v) &&
          plan_->effects().last_writer(v) == k &&
          At(instance_->binding().origin(v), v) != Truth(v)) {
        Fail("what the op wrote is something else", k, v);
      }
    }
  }

  void Squash(uint32_t k) {
    const uint64_t before = device_.run_again;
    if (!instance_->Squash(k)) Fail("cannot be undone", k, 0);
    ++counts_.squashes;
    if (device_.run_again > before) ++counts_.squashes_that_ran_ops;
  }

  void CompareAll(uint32_t k) {
    if (device_.disturbed > 0) Fail("an op did not run alone", k, 0);
    for (Held& held : held_) {
      if (held.wanted.empty()) held.wanted = Truth(held.value);
      if (At(held.base, held.value) != held.wanted) {
        Fail("a tensor holds something else", k, held.value);
      }
    }
    for (ValueId v = 0; v < trace_->values.size(); ++v) {
      if (trace_->values[v].external &&
          At(trace_->values[v].origin, v) != Truth(v)) {
        Fail("memory of the program's holds something else", k, v);
      }
    }
  }

  // Some tensors are held for longer. What outlived its recorded death may
  // share no memory in another plan.
  void EndPass() {
    for (Held& held : held_) {
      held.until = OneIn(2) ? kAtTheEnd : std::max(held.until, kAtTheEnd + 1);
    }
    DropBefore(kAtTheEnd);
    if (instance_->outlived().empty() || OneIn(2)) return;
    for (const ValueId v : instance_->outlived()) {
      trace_->values[v].dead_at = Value::kLives;
    }
    ++counts_.built_anew;
    Build();
  }

  std::mt19937_64 random_;
  Counts& counts_;
  FakeFrontend frontend_;
  StorageHolds holds_{&frontend_};
  FakeExecutor::Log log_;
  Device device_;
  std::shared_ptr<Trace> trace_ = std::make_shared<Trace>(&frontend_);
  Work work_;
  std::vector<uint32_t> last_use_;  // by value
  std::optional<ValueId> last_external_;
  std::vector<ValueId> inputs_;
  uint32_t segment_ops_ = 1;
  uint64_t segment_bytes_ = 0;
  uint64_t zone_bytes_ = 0;
  uint64_t arenas_ = 0;
  uint64_t storages_ = kAtTheEnd;
  std::unique_ptr<Plan> plan_;
  Instance* instance_ = nullptr;
  std::unordered_map<uint64_t, Symbol> truth_;
  std::vector<Held> held_;
  uint64_t kept_more_ = 0;  // of a hundred values, in this pass
  uint32_t foretold_at_ = 0;
  uint32_t foretold_end_ = 0;
  std::vector<ValueId> taken_;
  std::ostringstream failure_;
};

TEST(RandomPlansTest, TheProgramHasWhatItsOpsMake) {
  constexpr uint64_t kPlans = 4000;
  Counts counts;
  for (uint64_t seed = 1; seed <= kPlans; ++seed) {
    ASSERT_EQ(Subject(seed, &counts).Run(), "") << "seed " << seed;
  }
  EXPECT_GT(counts.plans_that_share, kPlans / 4);
  EXPECT_GT(counts.squashes, kPlans);
  EXPECT_GT(counts.squashes_that_ran_ops, kPlans / 20);
  EXPECT_GT(counts.left_for_room, kPlans / 100);
  EXPECT_GT(counts.built_anew, kPlans / 100);
  EXPECT_GT(counts.at_once, kPlans);
  EXPECT_GT(counts.cut_short, kPlans / 20);
  EXPECT_GT(counts.branched, kPlans);
}

}  // namespace
}  // namespace reprise::engine
