// What ops wait for; and which ones a squash runs again: exact answers on small
// traces, and, on thousands of random ones that are interpreted over numbers,
// that every value the program can see ends as the verified ops alone had left
// it.

#include "engine/program/effects.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "engine/program/private_values.h"
#include "tests/engine/fake_frontend.h"
#include "tests/engine/trace_builder.h"

namespace reprise::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Of a trace without inputs.
Effects EffectsOf(const Trace& trace) {
  return Effects(&trace, {}, {}, Effects::Remake::kWhatLasts);
}

using Gate = Effects::Gate;
using Remake = Effects::Remake;

class GateTest : public testing::Test {
 protected:
  std::vector<Gate> Gates(const std::vector<ValueId>& inputs = {},
                          const std::vector<SlotSet>& changing = {},
                          Remake remake = Remake::kWhatLasts,
                          Draws draws = {}) {
    const Effects effects(&builder_.trace(), inputs, changing, remake,
                          std::move(draws));
    std::vector<Gate> gates;
    for (uint32_t k = 0; k < builder_.ops(); ++k) {
      gates.push_back(effects.gate(k));
    }
    return gates;
  }

  FakeFrontend frontend_;
  TraceBuilder builder_{&frontend_};
};

TEST_F(GateTest, OpsThatMakeValuesWaitForNothing) {
  const ValueId x = builder_.External();
  builder_.Op({builder_.Op({x}, {}, 1)}, {}, 1);
  EXPECT_THAT(Gates(), ElementsAre(Gate::kNone, Gate::kNone));
}

TEST_F(GateTest, InputsAreToldByTheOpsThatUseThemFirst) {
  const ValueId x = builder_.External();
  const ValueId a = builder_.Op({x}, {}, 1);
  const ValueId y = builder_.External();
  const ValueId b = builder_.Op({a, y}, {}, 1);
  builder_.Op({b, y}, {}, 1);
  EXPECT_THAT(Gates({x, y}),
              ElementsAre(Gate::kInput, Gate::kInput, Gate::kNone));
  const Effects effects(&builder_.trace(), {x, y}, {}, Remake::kWhatLasts);
  EXPECT_FALSE(effects.late(x));  // the head tells it
  EXPECT_TRUE(effects.late(y));
}

TEST_F(GateTest, WhatOthersMayWriteIsReadWhenTheOpComes) {
  const ValueId shared = builder_.External();
  const ValueId a = builder_.Op({builder_.External()}, {}, 1);
  const ValueId b = builder_.Op({a, shared}, {}, 1);
  const ValueId c = builder_.Op({b}, {}, 1);
  builder_.Op({c, shared}, {}, 1);
  builder_.trace().values[shared].shared = true;
  EXPECT_THAT(Gates(), ElementsAre(Gate::kNone, Gate::kShared, Gate::kNone,
                                   Gate::kShared));
}

// Though they have lain in one place in both recordings.
TEST_F(GateTest, WhatArrivesIsWaitedFor) {
  const ValueId weight = builder_.External();
  const ValueId a = builder_.Op({weight}, {}, 1);
  const ValueId arrives = builder_.External();
  builder_.Op({a, arrives}, {}, 1);
  builder_.trace().values[arrives].arrives = true;
  const Effects effects =
      Effects::Of(builder_.trace(), builder_.trace(), Remake::kWhatLasts, {});
  EXPECT_EQ(effects.gate(0), Gate::kNone);
  EXPECT_EQ(effects.gate(1), Gate::kInput);
  EXPECT_TRUE(effects.late(arrives));
}

TEST_F(GateTest, NumbersThatChangeAndTrapsAreWaitedFor) {
  const ValueId x = builder_.External();
  const ValueId a = builder_.Op({x}, {}, 1);
  builder_.Op({a}, {}, 1);
  builder_.trace().ops[0].may_trap = true;
  EXPECT_THAT(Gates({}, {{}, {true}}), ElementsAre(Gate::kTrap, Gate::kNumber));
}

// Run ahead, they would obey those of the op that launches them.
TEST_F(GateTest, OpsBehindOtherSwitchesAreWaitedFor) {
  const ValueId x = builder_.External();
  ValueId h = x;
  for (int i = 0; i < 6; ++i) h = builder_.Op({h}, {}, 1);
  for (const uint32_t k : {2u, 3u}) builder_.trace().ops[k].switches = 7;
  EXPECT_THAT(Gates(), ElementsAre(Gate::kNone, Gate::kNone, Gate::kSwitches,
                                   Gate::kNone, Gate::kSwitches, Gate::kNone));
  const Effects effects = EffectsOf(builder_.trace());
  EXPECT_TRUE(effects.foretold(3));
  EXPECT_FALSE(effects.foretold(4));  // who foretells it has set no switch
}

TEST_F(GateTest, OpsWaitForTheirTurnAtTheGenerator) {
  const ValueId x = builder_.External();
  const ValueId a = builder_.Op({x}, {}, 1);
  const ValueId b = builder_.Op({a}, {}, 1);
  builder_.Op({b}, {x});
  for (const uint32_t k : {1u, 2u}) {
    TracedOp& op = builder_.trace().ops[k];
    op.may_draw = op.generator.draws = true;
  }
  EXPECT_THAT(Gates({}, {}, Remake::kNothing, Draws::InTurn(builder_.trace())),
              ElementsAre(Gate::kNone, Gate::kGenerator, Gate::kOutside));
  // Where it is known before they come they run ahead.
  const Draws ahead = Draws::Ahead(builder_.trace(), builder_.trace());
  EXPECT_THAT(Gates({}, {}, Remake::kWhatLasts, ahead),
              ElementsAre(Gate::kNone, Gate::kNone, Gate::kOutside));
}

TEST_F(GateTest, WhatComesFromAWeightMayBeWrittenOverAhead) {
  const ValueId weight = builder_.External();
  const ValueId a = builder_.Op({weight}, {}, 1);
  builder_.Op({}, {a});
  EXPECT_THAT(Gates(), ElementsAre(Gate::kNone, Gate::kNone));
  EXPECT_THAT(Gates({}, {}, Remake::kNothing),
              ElementsAre(Gate::kNone, Gate::kRemake));
}

TEST_F(GateTest, WhatComesFromAnInputIsNotWrittenOverAhead) {
  const ValueId x = builder_.External();
  const ValueId weight = builder_.External();
  const ValueId a = builder_.Op({x, weight}, {}, 1);
  const ValueId b = builder_.Op({weight}, {}, 1);
  builder_.Op({}, {b});
  builder_.Op({}, {a});
  // And what is made of a value that was written over, once it is, too.
  const ValueId c = builder_.Op({a}, {}, 1);
  builder_.Op({}, {c});
  EXPECT_THAT(Gates({x}),
              ElementsAre(Gate::kInput, Gate::kNone, Gate::kNone, Gate::kRemake,
                          Gate::kNone, Gate::kRemake));
}

// Run again, its op would make other bits than the program may have seen.
TEST_F(GateTest, WhatANondeterministicOpMadeIsNotWrittenOverAhead) {
  const ValueId weight = builder_.External();
  const ValueId a = builder_.Op({weight}, {}, 1);
  const ValueId b = builder_.Op({weight}, {}, 1);
  const ValueId c = builder_.Op({a}, {b}, 1);
  const ValueId d = builder_.Op({a}, {}, 1);
  builder_.Op({}, {c});
  builder_.Op({}, {b});
  builder_.Op({}, {a});
  builder_.Op({}, {d});
  EXPECT_THAT(Gates(),
              ElementsAre(Gate::kNone, Gate::kNone, Gate::kNone, Gate::kNone,
                          Gate::kNone, Gate::kNone, Gate::kNone, Gate::kNone));
  builder_.trace().ops[2].nondeterministic = true;
  EXPECT_THAT(Gates(), ElementsAre(Gate::kNone, Gate::kNone, Gate::kNone,
                                   Gate::kSubstitute, Gate::kRemake,
                                   Gate::kRemake, Gate::kNone, Gate::kNone));
}

// Nobody says when memory of another allocator goes.
TEST_F(GateTest, WhatComesFromForeignMemoryIsNotWrittenOverAhead) {
  const ValueId weight = builder_.External();
  const ValueId a = builder_.Op({weight}, {}, 1);
  builder_.Op({}, {a});
  builder_.trace().values[weight].origin = FakeFrontend::kEndAddress;
  EXPECT_THAT(Gates(), ElementsAre(Gate::kNone, Gate::kRemake));
}

// Two storages in one memory.
TEST_F(GateTest, WhatReadsMemoryThatIsWrittenUnderAnotherNameIsNotMadeAgain) {
  const ValueId weight = builder_.External();
  const ValueId other = builder_.External();
  const ValueId a = builder_.Op({other}, {}, 1);
  builder_.Op({}, {weight});
  builder_.Op({}, {a});
  EXPECT_THAT(Gates(), ElementsAre(Gate::kNone, Gate::kOutside, Gate::kNone));
  Value& value = builder_.trace().values[other];
  value.base = value.origin = TraceBuilder::AddressOf(weight) + 32;
  EXPECT_THAT(Gates(), ElementsAre(Gate::kNone, Gate::kOutside, Gate::kRemake));
}

// A weight that is updated at the end keeps nothing waiting before.
TEST_F(GateTest, WhatIsWrittenLaterMayBeReadAgain) {
  const ValueId weight = builder_.External();
  const ValueId a = builder_.Op({weight}, {}, 1);
  builder_.Op({}, {a});
  builder_.Op({a}, {weight});
  builder_.Op({}, {a});
  EXPECT_THAT(Gates(), ElementsAre(Gate::kNone, Gate::kNone, Gate::kOutside,
                                   Gate::kRemake));
}

class RestoreTest : public testing::Test {
 protected:
  std::vector<uint32_t> Restore(uint32_t verified,
                                std::vector<ValueId> needed) {
    return EffectsOf(builder_.trace())
        .ToRestore(verified, builder_.ops(),
                   [&needed](ValueId value) {
                     return std::find(needed.begin(), needed.end(), value) !=
                            needed.end();
                   })
        .ops;
  }

  FakeFrontend frontend_;
  TraceBuilder builder_{&frontend_};
};

TEST_F(RestoreTest, NothingIsRestoredWhereNothingWasOverwritten) {
  const ValueId x = builder_.External();
  const ValueId a = builder_.Op({x}, {}, 1);
  const ValueId b = builder_.Op({a}, {}, 1);
  builder_.Op({b}, {}, 1);
  EXPECT_THAT(Restore(1, {x, a}), IsEmpty());
  EXPECT_THAT(Restore(3, {x, a, b}), IsEmpty());
}

TEST_F(RestoreTest, OverwrittenValueIsMadeAgain) {
  const ValueId x = builder_.External();
  builder_.Op({x}, {}, 1);
  const ValueId a = builder_.Op({x}, {}, 1);
  builder_.Op({}, {a});
  EXPECT_THAT(Restore(2, {a}), ElementsAre(1));
}

TEST_F(RestoreTest, WritesThatWereVerifiedAreNotUndone) {
  const ValueId x = builder_.External();
  const ValueId a = builder_.Op({x}, {}, 1);
  builder_.Op({}, {a});
  builder_.Op({a}, {}, 1);
  EXPECT_THAT(Restore(2, {a}), IsEmpty());
}

TEST_F(RestoreTest, OnlyOpsThatWereLaunchedCount) {
  const ValueId x = builder_.External();
  const ValueId a = builder_.Op({x}, {}, 1);
  builder_.Op({a}, {}, 1);
  builder_.Op({}, {a});
  const auto all = [](ValueId) { return true; };
  const Effects effects = EffectsOf(builder_.trace());
  EXPECT_THAT(effects.ToRestore(1, 2, all).ops, IsEmpty());
  EXPECT_THAT(effects.ToRestore(1, 3, all).ops, ElementsAre(0));
  EXPECT_THAT(effects.ToRestore(0, 3, all).ops, IsEmpty());
}

TEST_F(RestoreTest, ChainOfWritesInPlaceIsRunFromBirthOn) {
  const ValueId x = builder_.External();
  const ValueId a = builder_.Op({x}, {}, 1);
  builder_.Op({}, {a});
  builder_.Op({x}, {}, 1);
  builder_.Op({x}, {a});
  builder_.Op({}, {a});  // not verified
  EXPECT_THAT(Restore(4, {a}), ElementsAre(0, 1, 3));
  EXPECT_THAT(Restore(2, {a}), ElementsAre(0, 1));
}

// b was made from a's first version, which is gone: a is made again, b from it,
// and a's later version once more.
TEST_F(RestoreTest, InputThatWasOverwrittenSinceIsMadeAgainToo) {
  const ValueId x = builder_.External();
  const ValueId a = builder_.Op({x}, {}, 1);
  const ValueId b = builder_.Op({a}, {}, 1);
  builder_.Op({}, {a});
  builder_.Op({}, {b});  // not verified
  EXPECT_THAT(Restore(3, {b}), ElementsAre(0, 1, 2));
}

TEST_F(RestoreTest, InputThatIsIntactIsLeftAlone) {
  const ValueId x = builder_.External();
  const ValueId a = builder_.Op({x}, {}, 1);
  builder_.Op({x}, {a});
  const ValueId b = builder_.Op({a}, {}, 1);
  builder_.Op({a}, {b});
  builder_.Op({}, {b});  // not verified
  EXPECT_THAT(Restore(4, {b}), ElementsAre(2, 3));
}

// An op that makes a again makes b's first version too, so b's writers follow.
TEST_F(RestoreTest, OpThatMakesTwoValuesBringsTheOtherUpToDate) {
  const ValueId x = builder_.External();
  const ValueId a = builder_.Op({x}, {}, 2);
  const ValueId b = a + 1;
  builder_.Op({x}, {b});
  builder_.Op({}, {a});  // not verified
  EXPECT_THAT(Restore(2, {a}), ElementsAre(0, 1));
}

TEST_F(RestoreTest, OpThatWritesTwoValuesInPlaceBringsTheOtherUpToDate) {
  const ValueId x = builder_.External();
  const ValueId a = builder_.Op({x}, {}, 1);
  const ValueId b = builder_.Op({x}, {}, 1);
  builder_.Op({x}, {a, b});
  builder_.Op({}, {b});
  builder_.Op({}, {a});  // not verified
  EXPECT_THAT(Restore(4, {a}), ElementsAre(0, 1, 2, 3));
}

TEST_F(RestoreTest, ValueThatNobodySeesIsLeftAlone) {
  const ValueId x = builder_.External();
  const ValueId a = builder_.Op({x}, {}, 1);
  const ValueId b = builder_.Op({x}, {}, 1);
  builder_.Op({}, {a});
  builder_.Op({}, {b});
  EXPECT_THAT(Restore(2, {}), IsEmpty());
  EXPECT_THAT(Restore(2, {b}), ElementsAre(1));
  EXPECT_THAT(Restore(2, {a, b}), ElementsAre(0, 1));
}

// Values have three cells, so that a write in place can be of a part.
constexpr int kCells = 3;
using Memory = std::vector<std::array<uint64_t, kCells>>;

// What op `index` does to memory: all it writes depends on all it reads.
void Interpret(const Trace& trace, uint32_t index, Memory& memory) {
  const TracedOp& op = trace.ops[index];
  if (op.by_eager) return;
  uint64_t digest = index + 1;
  for (const ValueRef& operand : op.operands) {
    for (const uint64_t cell : memory[operand.value]) {
      digest = (digest ^ cell) * 0x9E3779B97F4A7C15u;
      digest ^= digest >> 29;
    }
  }
  for (const ValueRef& operand : op.operands) {
    if (!operand.written) continue;
    // The offset says which part; 0 is the whole.
    for (int cell = 0; cell < kCells; ++cell) {
      if (operand.offset_bytes != 0 &&
          operand.offset_bytes != static_cast<uint64_t>(cell)) {
        continue;
      }
      memory[operand.value][cell] = ++digest * 0x9E3779B97F4A7C15u;
    }
  }
  for (const ResultSpec& result : op.results) {
    for (uint64_t& cell : memory[result.value]) {
      cell = ++digest * 0x9E3779B97F4A7C15u;
    }
  }
}

// Of a tensor that is all of its storage.
kernels::Layout Whole(uint64_t bytes) {
  const auto elements = static_cast<int64_t>(bytes / 4);
  const int64_t stride = 1;
  return kernels::MakeLayout({&elements, 1}, {&stride, 1}, 4);
}

class RandomTrace {
 public:
  RandomTrace(FakeFrontend* frontend, std::mt19937& random) : trace_(frontend) {
    const uint32_t ops = 1 + random() % 14;
    for (uint32_t k = 0; k < ops; ++k) {
      TracedOp& op = trace_.ops.emplace_back();
      const uint32_t operands = random() % 4;
      for (uint32_t i = 0; i < operands; ++i) AddOperand(op, k, random);
      op.by_eager = random() % 10 == 0;
      if (op.by_eager) {
        for (ValueRef& operand : op.operands) operand.written = false;
        continue;
      }
      for (uint32_t r = random() % 3; r > 0; --r) {
        ResultSpec& result = op.results.emplace_back();
        result.kind = ResultSpec::Kind::kValue;
        // Now and then a second tensor over the storage of the one before.
        result.value = op.results.size() > 1 && random() % 4 == 0
                           ? op.results[op.results.size() - 2].value
                           : Make(/*external=*/false, k);
      }
    }
  }

  const Trace& trace() const { return trace_; }

 private:
  void AddOperand(TracedOp& op, uint32_t index, std::mt19937& random) {
    ValueRef ref;
    ref.value = trace_.values.empty() || random() % 5 == 0
                    ? Make(/*external=*/true, index)
                    : static_cast<ValueId>(random() % trace_.values.size());
    const bool external = trace_.values[ref.value].external;
    ref.written = random() % (external ? 6 : 2) == 0;
    if (ref.written && !external) ref.offset_bytes = random() % kCells;
    if (ref.written) op.written.push_back(Whole(64));
    op.operands.push_back(ref);
  }

  ValueId Make(bool external, uint32_t birth_op) {
    const auto id = static_cast<ValueId>(trace_.values.size());
    Value& value = trace_.values.emplace_back();
    value.external = external;
    value.birth_op = birth_op;
    value.origin = value.base = TraceBuilder::AddressOf(id);
    value.size_bytes = 64;
    value.storage = Token(uint64_t{id} + 1);
    trace_.frontend->Retain(value.storage);
    return id;
  }

  Trace trace_;
};

TEST_F(RestoreTest, RandomTracesEndAsTheVerifiedOpsAloneLeftThem) {
  int restored = 0;
  uint64_t taken_again = 0;
  uint64_t given = 0;
  uint64_t between = 0;  // two of its writers
  for (uint32_t seed = 0; seed < 60'000; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    const RandomTrace made(&frontend_, random);
    const Trace& trace = made.trace();
    const auto ops = static_cast<uint32_t>(trace.ops.size());
    std::vector<ValueId> inputs;
    std::vector<bool> needed(trace.values.size());
    for (ValueId v = 0; v < needed.size(); ++v) {
      needed[v] = random() % 3 != 0;
      if (trace.values[v].external && random() % 3 == 0) inputs.push_back(v);
    }
    std::vector<ValueId> privates;
    if (seed % 2 == 0) {
      privates = PrivateValues(trace, inputs,
                               std::vector<bool>(needed.size(), true), 64);
    }
    const Effects effects(&trace, inputs, {}, Remake::kWhatLasts, {}, privates);
    const uint32_t verified = random() % (ops + 1);
    uint32_t ahead = verified;
    while (ahead < ops && effects.gate(ahead) == Gate::kNone) ++ahead;
    const uint32_t launched = verified + random() % (ahead - verified + 1);

    Memory memory(trace.values.size());
    for (size_t v = 0; v < memory.size(); ++v) memory[v] = {v, v + 1, v + 2};
    Memory program = memory;  // where it has what the plan has copies of
    for (uint32_t k = 0; k < verified; ++k) Interpret(trace, k, memory);
    const Memory expected = memory;
    for (uint32_t k = verified; k < launched; ++k) Interpret(trace, k, memory);
    // The program is done with them.
    for (const ValueId v : inputs) memory[v] = {7, 7, 7};
    const auto [taken, again] = effects.ToRestore(
        verified, launched, [&needed](ValueId value) { return needed[value]; });
    ASSERT_TRUE(std::is_sorted(again.begin(), again.end()));
    for (const ValueId v : taken) memory[v] = program[v];
    taken_again += taken.size();
    for (const uint32_t k : again) {
      ASSERT_LT(k, verified);
      ASSERT_FALSE(effects.writes_outside(k)) << k;
      Interpret(trace, k, memory);
    }
    if (!again.empty()) ++restored;
    for (const ValueId v : effects.PrivatesWrittenBefore(verified)) {
      program[v] = memory[v];
      ++given;
      if (effects.last_writer(v) >= verified) ++between;
    }
    for (const ValueId v : privates) memory[v] = program[v];

    for (ValueId v = 0; v < trace.values.size(); ++v) {
      const Value& value = trace.values[v];
      if (effects.input(v)) continue;
      if (!value.external && (!needed[v] || value.birth_op >= verified)) {
        continue;
      }
      ASSERT_EQ(memory[v], expected[v])
          << "value " << v << ", verified " << verified << ", launched "
          << launched << " of " << ops;
    }
  }
  // The seeds try what the test is about.
  EXPECT_GT(restored, 2'000);
  EXPECT_GT(taken_again, 200);
  EXPECT_GT(given, 500);
  EXPECT_GT(between, 100);
}

}  // namespace
}  // namespace reprise::engine
